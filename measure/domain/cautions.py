"""The warnings about measurements: a finding, its likely cause, and a remedy to try."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from measure.domain.values import percent, si
from measure.domain.words import CAPPED, DRIFTING, LOADED, SKIPPED, THROTTLED, WIDE


class Caution(NamedTuple):
    """A warning in three clauses without a full stop."""

    seen: str
    cause: str
    remedy: str

    def line(self, subject: str = "") -> str:
        head = f"{subject}: " if subject else ""
        return f"Warning: {head}{self.seen}. Likely cause: {self.cause}. Try: {self.remedy}."


FLAGS = {  # of a measured round
    WIDE: Caution(
        "the interval is wider than asked",
        "too few rounds, or rounds that differ",
        "more rounds, such as with --max-rounds 15",
    ),
    DRIFTING: Caution(
        "the second half of the samples is slower or faster than the first",
        "the device warmed up, or its clock changed during the round",
        "check the machine with doctor, then measure again with --force",
    ),
    LOADED: Caution(
        "other programs took a tenth or more of the cores, or of the time to launch a GPU's kernels",
        "the machine is shared, or a job runs in the background",
        "measure again with --wait 10m --force, which waits for a quiet machine",
    ),
    THROTTLED: Caution(
        "the device lowered its clock for heat or in an emergency of its power supply",
        "weak cooling, or other work on the device",
        "let it cool down or improve its cooling, then measure again with --force",
    ),
    CAPPED: Caution(
        "the device lowered its clock for its power cap",
        "the network draws more power than the cap allows, as large batches do",
        "a higher cap (nvidia-smi --power-limit), or compare under equal caps only",
    ),
    SKIPPED: Caution(
        "steps with gradients that were not finite left the optimiser out",
        "gradients overflow at fp16",
        "time the step in bf16 or fp32, because the skipped steps are too short",
    ),
}


def flag_warnings(flags: Sequence[Collection[str]]) -> list[str]:
    """Return a warning per flag that some of these cells have, given the flags of each cell."""
    counts = Counter(flag for each in flags for flag in each)
    return [
        caution.line(f"{counts[flag]} of {len(flags)} cells ({flag})")
        for flag, caution in FLAGS.items()
        if counts[flag]
    ]


def in_use(facts: str, remedy: str) -> str:
    """Warn before a run that other programs use the machine, as ``facts`` tell."""
    return Caution("this machine is in use, so latencies come out longer and are flagged loaded", facts, remedy).line()


def loaded_roof(load: float) -> str:
    """Warn of a roof that was measured while other programs used this share of the cores."""
    seen = "the roof is too low, so each share of it is too high"
    return Caution(
        seen, f"other programs used {percent(load)} of the cores meanwhile", "the same command again on a quiet machine"
    ).line()


def above_roof(name: str, flop_per_s: float, precision: str, roof_flop_per_s: float) -> str:
    """Warn of a cell that runs faster than the roof at its precision."""
    return Caution(
        f"{name} runs at {si(flop_per_s, 'FLOP/s')}, above the {precision} roof of {si(roof_flop_per_s, 'FLOP/s')}",
        "other programs slowed the roof, or the library needs fewer operations than are counted",
        "measure the roof again with --sections roofs",
    ).line()
