"""The numbers of the chapter on causes: what one change at a time does to networks, layers and their host."""

import pandas as pd

from measure.domain.words import INFERENCE, PRODUCT_KINDS
from report.chapters.cause import host, interventions, memory, traced
from report.chapters.cause.host import Captured, Host
from report.facts import Facts, missing, sourced
from report.paper import Paper, published
from report.paper.frames import matching
from report.paper.published import COMPILED, NETWORK, BestTimed, name_in
from report.stats.value import Name, Value, count_of, median_of

LITTLE, NEVER = 1.15, float("inf")  # a gain that is hardly one; and what was not measured
SEEN = 0.02  # an idle share worth a sentence


class Change(Facts):
    device: Name  #: The GPU of the change.
    networks: Value  #: Networks timed with both settings.
    speed: Value  #: How many times as fast networks are with the change, at equal batch sizes.
    slower: Value  #: Share of the networks that the change makes slower.


class Fused(Facts):
    least: Value  #: Gain from a compiler, of the quarter of networks with the smallest share of bytes outside products.
    rest: Value  #: Gain from a compiler, of the other networks.


class Together(Facts):
    """The compiler and the next GPU, for networks on the GPU with the most networks timed."""

    both: Value  #: Speed compiled on the next GPU over speed in eager mode on this one.
    over_next: Value  #: Speed compiled on this GPU over speed in eager mode on the next one.
    compiled_next: Value  #: Speed compiled on the next GPU over speed in eager mode there.


class CauseFacts(Facts):
    compiled: Change
    fused: Fused
    together: Together
    traces: traced.Traced
    memory: memory.OtherMemory
    interventions: interventions.Interventions
    host: Host
    graph: Captured
    few_wait: bool  #: Of two GPUs that differ in memory, the faster one gains less than its roof promises
    cache_steps: bool  #: Activations that fit the cache outrun the memory, and larger ones gain more from a faster one
    two_hardly_answer: bool  #: Depthwise convolutions and normalisations gain little from half the bits
    neither_answers: bool  #: Depthwise convolutions gain little from half the bits and little from the memory
    one_depthwise: bool  #: Only one of the recorded networks has depthwise convolutions
    host_shows: bool  #: The GPU with the slower memory idles in some pass of the largest batch profiled
    compiled_alone: bool  #: Networks were compiled for a single input, too
    calls_rank: bool  #: Operators called rank single inputs better than FLOP
    singles: bool  #: Enough networks were timed with one input for their rank correlations
    smaller_numbers_wait: bool  #: At the lower precision the GPU's work in a training step shrinks more than the step


def of(paper: Paper) -> CauseFacts:
    best = published.best_timed(paper.published)
    compiled = published.of_best(published.compiled(paper.published), best)
    of_host, other_memory = host.of(paper), memory.of(paper)
    single, lowered = of_host.single, of_host.lowered
    halved = interventions.of(paper)
    depthwise, normalisation = (each.number or NEVER for each in (halved.depthwise, halved.normalisation))
    found = CauseFacts(
        compiled=_change(compiled),
        fused=_fused(paper, compiled),
        together=_together(paper, best, published.of_best(published.steps(paper.published), best)),
        traces=traced.of(paper),
        memory=other_memory,
        interventions=halved,
        host=of_host,
        graph=host.captured(paper),
        few_wait=(other_memory.gained.number or 2) < (other_memory.promised.number or 0),
        cache_steps=_steps_at_cache(other_memory),
        two_hardly_answer=max(depthwise, normalisation) < LITTLE,
        neither_answers=max(depthwise, other_memory.depthwise.gain.number or NEVER) < LITTLE,
        one_depthwise=not halved.depthwise_network.is_missing,
        host_shows=(other_memory.idle.number or 0) > SEEN,
        compiled_alone=not of_host.compiled.single_least.is_missing,
        calls_rank=single.calls.above(max(single.flop.number or 0, 0.5)),
        singles=not single.flop.is_missing,
        smaller_numbers_wait=(lowered.kernels.number or 0) > (lowered.step.number or 0) >= 1,
    )
    return sourced(found, published.SOURCE)


def _steps_at_cache(found: memory.OtherMemory) -> bool:
    nearly_all = 1 + 0.8 * ((found.bandwidth.number or NEVER) - 1)  # the gain of layers that wait for memory alone
    fits, larger = found.fits.gain.number or NEVER, found.larger.gain.number or 0
    return (found.fits.memory.number or 0) > 1 and fits < nearly_all < larger


def _change(pairs: pd.DataFrame | None) -> Change:
    if pairs is None:
        return missing(Change)
    gained = published.gains(pairs)
    slower = float((gained < 1).mean())
    return Change(
        name_in(pairs), count_of(len(gained), "networks"), median_of(gained),
        Value(slower, "%", slower, slower, len(gained), "networks"),
    )  # fmt: skip


def _fused(paper: Paper, pairs: pd.DataFrame | None) -> Fused:
    if pairs is None:
        return missing(Fused)
    kinds = matching(paper.published.kinds, stage=INFERENCE)
    byte = kinds.assign(other=kinds.further_byte.where(~kinds.layer_kind.isin(PRODUCT_KINDS), 0))
    sums = byte.groupby(list(NETWORK))[["further_byte", "other"]].sum().astype(float)
    found = pairs.merge((sums.other / sums.further_byte).rename("share").reset_index(), on=list(NETWORK))
    gained = published.gains(found).to_frame("gain").join(published.of_networks(found.share, found.model))
    is_least = gained.share <= gained.share.quantile(0.25)
    return Fused(median_of(gained.gain[is_least]), median_of(gained.gain[~is_least]))


def _together(paper: Paper, best: BestTimed | None, following: pd.DataFrame | None) -> Together:
    if best is None or following is None:
        return missing(Together)
    here = matching(published.newest(paper.published, COMPILED), device=best.device)
    there = matching(published.newest(paper.published), device=following.device_other.iloc[0])
    return Together(
        published.gain(published.on_the_next(paper.published, best, following)),
        published.gain(published.paired(there, here, ("device", "compiler"))),
        published.gain(
            next(
                (
                    pairs
                    for pairs in published.compiled(paper.published)
                    if pairs.device.iloc[0] == following.device_other.iloc[0]
                ),
                None,
            )
        ),
    )
