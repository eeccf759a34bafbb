"""Plans of checkpoints: the peak of a step whose segments of blocks keep only their inputs and run again.

A checkpoint trades memory for one more forward pass. With N equal blocks, segments of about the square root of N need
memory for twice as many blocks instead of N (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016,
arXiv:1604.06174). The best segments of unequal blocks follow by dynamic programming, as in Beaumont et al., "Optimal
checkpointing for heterogeneous chains", 2019, arXiv:1911.13214, here with each block run again at most once.

A plan's peak is not a formula: the recorded step is replayed with the storages that the plan drops. A segment runs
again right before its backward pass, up to the last tensor that it must keep, as ``torch.utils.checkpoint`` does
(``use_reentrant=False``).
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from measure.counting.blocks import BlockPart
from measure.counting.step_trace import Ints, StepTrace, alive_between

Segments = Sequence[tuple[int, int]]  # the first and the last block of each

STEPS = 100  # the recomputed FLOP of a plan are bounded in this many steps of all that could be recomputed
CLOSE = 1e-3  # the search for the least peak ends this close to it


class CheckpointedStep(NamedTuple):
    """The bytes alive at each operator of a step under a plan, and the peak while each segment runs again."""

    alive: Ints
    recompute_peaks: list[int]

    @property
    def peak_byte(self) -> int:
        return int(max([*self.recompute_peaks, self.alive.max(initial=0)]))


class Option(NamedTuple):
    """A way to run consecutive blocks, from number ``first`` on: stored, or as one segment under a checkpoint.

    ``kept_byte`` stay until their backward pass; ``peak_byte`` is their peak above all that was alive before them.
    """

    first: int
    is_checkpoint: bool
    kept_byte: int
    peak_byte: int
    flop: int


class Chain:
    """Blocks that run one after the other. ``flop`` has the FLOP of each block's forward pass.

    ``starts`` and ``stops`` are the times of their first operators and after their last ones, ``backward_starts`` and
    ``backward_stops`` those in the backward pass.
    """

    def __init__(self, trace: StepTrace, blocks: Sequence[BlockPart], flop: Sequence[int]) -> None:
        self.trace, self.blocks, self.flop = trace, blocks, flop
        forward = [trace.times_of(block, is_backward=False) for block in blocks]
        backward = [trace.times_of(block, is_backward=True) for block in blocks]
        self.starts = [int(times[0]) for times in forward]
        self.stops = [int(times[-1]) + 1 for times in forward]
        self.backward_starts = [int(times[0]) for times in backward]
        self.backward_stops = [int(times[-1]) + 1 for times in backward]

    @property
    def is_chain(self) -> bool:
        """Whether there are two blocks or more, and each ends before the next begins, backward in reverse."""
        forward = zip(self.stops, self.starts[1:], strict=False)
        backward = zip(self.backward_stops[1:], self.backward_starts, strict=False)
        return len(self.blocks) >= 2 and all(stop <= start for stop, start in (*forward, *backward))

    def replay(self, segments: Segments) -> CheckpointedStep:
        """Replay the step with these segments under a checkpoint each."""
        trace = self.trace
        segment_at = np.full(trace.end + 1, -1)
        for number, (first, last) in enumerate(segments):
            segment_at[self.starts[first] : self.stops[last]] = number
        again = np.array([*(self.backward_starts[last] for _, last in segments), -1])
        done = np.array([*(max(self.backward_stops[first : last + 1]) for first, last in segments), -1])
        made_in = segment_at[trace.birth]
        # A storage that a later segment reads or keeps is its input: the checkpoint holds it to the segment's end.
        held_until, is_kept = np.zeros_like(trace.death), trace.death >= trace.end
        is_remade = np.zeros_like(is_kept)
        for places, times in (trace.reads, trace.saves):
            users = segment_at[times]
            as_input = (users >= 0) & (users != made_in[places])
            np.maximum.at(held_until, places[as_input], done[users[as_input]])
        places, times = trace.saves
        users = segment_at[times]
        is_kept[places[users < 0]] = True
        is_remade[places[(users >= 0) & (users == made_in[places])]] = True
        last_read = trace.birth.copy()
        np.maximum.at(last_read, *trace.reads)
        dropped = np.minimum(last_read + 1, trace.death)
        stop = np.where(trace.is_saved & ~is_kept, dropped, trace.death)
        stop = np.maximum(stop, held_until)
        restart = np.where(is_remade, np.maximum(again[made_in], stop), trace.death)
        alive = alive_between(trace.birth, stop, trace.byte, trace.end)
        alive += alive_between(restart, trace.death, trace.byte, trace.end)
        peaks = []
        for number, (first, last) in enumerate(segments):
            start, time = self.starts[first], int(again[number])
            is_new = (trace.birth == time) | ((restart == time) & (restart < trace.death))
            before = alive[time] - trace.byte[is_new].sum()
            peaks.append(int(before) + self._work_byte(start, self.stops[last]))
        return CheckpointedStep(alive, peaks)

    def _work_byte(self, start: int, stop: int) -> int:
        """Return the peak of the storages that operators from ``start`` make until the last tensor is kept."""
        trace = self.trace
        inside = (trace.savers >= start) & (trace.savers < stop)
        kept_by = int(trace.save_times[inside].max(initial=start))
        made = (trace.birth >= start) & (trace.birth < kept_by)
        lives = trace.birth[made] - start, trace.death[made] - start, trace.byte[made]
        return int(alive_between(*lives, kept_by - start).max(initial=0))

    def equal_segments(self, number: int) -> Segments:
        """Return ``number`` segments of equal length without the last, as ``checkpoint_sequential`` of torch has them.

        It keeps the last segment, whose backward pass comes first.
        """
        length = len(self.blocks) // number
        return [(each * length, (each + 1) * length - 1) for each in range(number - 1)]

    def recompute_flop(self, segments: Segments) -> int:
        return sum(sum(self.flop[first : last + 1]) for first, last in segments)

    @cached_property
    def _options(self) -> list[list[Option]]:
        """The ways to run the last of the blocks before each number from 1 on: one block stored, or one segment.

        A segment has at most twice the square root of the number of blocks.
        """
        number, settled = len(self.blocks), self.trace.settled
        bounds = [*self.starts, self.stops[-1]]
        longest = math.ceil(2 * math.sqrt(number))

        def option(first: int, after: int, segments: Segments) -> Option:
            found = self.replay(segments)
            start, stop = bounds[first], bounds[after]
            backward = slice(self.backward_starts[after - 1], self.backward_starts[first - 1] if first else None)
            forward = slice(start, stop)
            peak = max(found.alive[forward].max(), found.alive[backward].max(), *found.recompute_peaks, 0)
            born = self.trace.byte[self.trace.birth == stop].sum()
            kept = found.alive[stop] - born - settled[start]
            flop = self.recompute_flop(segments)
            return Option(first, bool(segments), int(kept), int(peak - settled[start]), flop)

        options = []
        for after in range(1, number + 1):
            firsts = range(max(0, after - longest), after)
            stored = option(after - 1, after, [])
            options.append([stored, *(option(first, after, [(first, after - 1)]) for first in firsts)])
        return options

    @property
    def each(self) -> Segments:
        """The segments of one block each."""
        return [(number, number) for number in range(len(self.blocks))]

    def least_peak(self, most_recompute: float) -> Segments:
        """Return the segments with the least peak that recompute at most this share of the blocks' forward FLOP.

        The programme adds the bytes that segments keep. Where a segment's input serves several later ones, as in a
        DenseNet, the sum is too high, and one segment for each block may be better.
        """
        found = [self._least_peak_by_sums(most_recompute)]
        if most_recompute >= 1:
            found.append(self.each)
        return min(
            found, key=lambda segments: self.replay(segments).peak_byte * (1 + CLOSE * (segments is not found[0]))
        )

    def _least_peak_by_sums(self, most_recompute: float) -> Segments:
        unit = sum(self.flop) / STEPS or 1.0
        budget = math.floor(most_recompute * STEPS + 1e-9)
        settled, alive = self.trace.settled, self.trace.alive()
        start = int(settled[self.starts[0]])
        head = alive[self.stops[-1] : self.backward_starts[-1]].max(initial=0) - settled[self.stops[-1]]

        def segments_below(limit: float) -> Segments | None:
            """Return segments whose peak is at most ``limit``, or None: least bytes kept by FLOP recomputed."""
            least = np.full((len(self.blocks) + 1, budget + 1), np.inf)
            least[0] = start
            chosen: dict[tuple[int, int], tuple[Option, int]] = {}
            for after, options in enumerate(self._options, 1):
                for option in options:
                    steps = math.ceil(option.flop / unit - 1e-9)
                    if steps > budget:
                        continue
                    before = least[option.first, : budget + 1 - steps]
                    total = np.where(before + option.peak_byte <= limit, before + option.kept_byte, np.inf)
                    better = total < least[after, steps:]
                    least[after, steps:][better] = total[better]
                    for used in np.flatnonzero(better).tolist():
                        chosen[after, used + steps] = option, used
            enough = np.flatnonzero(least[-1] + head <= limit)
            if not len(enough):
                return None
            found, after, used = list[tuple[int, int]](), len(self.blocks), int(enough[0])
            while after:
                option, used = chosen[after, used]
                if option.is_checkpoint:
                    found.append((option.first, after - 1))
                after = option.first
            return found[::-1]

        high = float(alive.max(initial=0))
        low, best = 0.0, list[tuple[int, int]]()
        while high - low > CLOSE * high:
            middle = (low + high) / 2
            segments = segments_below(middle)
            if segments is None:
                low = middle
            else:
                high, best = middle, list(segments)
        return best
