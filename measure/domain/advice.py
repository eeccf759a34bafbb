"""What to try first for a faster model: what was measured to help, else what its profile suggests, as a hypothesis."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from measure.cache.records import Environment, Profile
from measure.domain import precisions, variants
from measure.domain.demands import LayerDemand
from measure.domain.latency import TimedCell
from measure.domain.values import percent
from measure.domain.words import EAGER, INFERENCE, ROUNDS

KEPT_MEMORY, CHANNELS_LAST, COMPILE = "kept_memory", "channels_last", "compile"
"""The variants that are suggested."""

SYSTEM_SHARE = 0.2
"""The part of a call's time in the operating system from which on keeping memory is suggested."""

BY_KIND = {"convolution": CHANNELS_LAST, "depthwise convolution": CHANNELS_LAST}
"""The variant that is suggested where layers of a kind take most of the time."""

PRODUCTS = ("linear", "attention", "recurrent")
"""The kinds for which a lower precision is suggested. What is left moves bytes or waits for launches."""


@dataclass(frozen=True)
class Advice:
    """A variant, a precision or a larger batch to try; ``gain`` is how many times as fast it was measured to be.

    Without a gain it is a hypothesis: ``why`` says what suggests it, and ``flags`` are those of a command that tests
    it.
    """

    remedy: str
    gain: float | None = None
    why: str | None = None
    flags: str | None = None


def advise(
    base: TimedCell,
    cells: Iterable[TimedCell],
    profile: Profile | None,
    layers: Iterable[LayerDemand],
    environment: Environment,
) -> Advice | None:
    """Return what to try first for a cell of inference in eager mode; None where nothing is known of it.

    Of what was measured the fastest counts whose time an input lies, interval and all, below that of the cell; both
    have the rounds that an interval between processes needs. What was tried and does not help is not suggested.
    """
    trials = [(_name(base, other), other) for other in cells if _is_trial(base, other)]
    helping = [(name, gain) for name, other in trials if (gain := _gain(base, other)) is not None]
    if helping:
        name, gain = max(helping, key=lambda pair: pair[1])
        return Advice(name, gain)
    tried = {name for name, _ in trials}
    return next((each for each in _hypotheses(base, profile, layers, environment) if each.remedy not in tried), None)


def _is_trial(base: TimedCell, other: TimedCell) -> bool:
    """Return whether a cell is the same in one other way: its variant, its precision, or a larger batch."""
    if (other.model, other.phase) != (base.model, INFERENCE) or other.latency_s is None:
        return False
    if other.batch == base.batch:
        return (other.precision == base.precision) != (other.variant == EAGER)
    return other.batch > base.batch and (other.precision, other.variant) == (base.precision, EAGER)


def _name(base: TimedCell, other: TimedCell) -> str:
    if other.batch != base.batch:
        return f"batch size {other.batch}"
    return other.precision if other.variant == EAGER else other.variant


def _gain(base: TimedCell, other: TimedCell) -> float | None:
    """Return how many times as fast an input is in another cell; None where that is not certain."""
    if min(base.rounds, other.rounds) < ROUNDS or base.latency_s is None or other.latency_s is None:
        return None
    if base.latency_low_s is None or other.latency_high_s is None:
        return None
    larger = other.batch / base.batch
    is_certain = other.latency_high_s / larger < base.latency_low_s
    return larger * base.latency_s / other.latency_s if is_certain else None


def _hypotheses(
    base: TimedCell, profile: Profile | None, layers: Iterable[LayerDemand], environment: Environment
) -> Sequence[Advice]:
    """Return what a cell's profile suggests, the likeliest first."""
    if profile is None or not profile.plain_s:
        return ()
    found = []
    if profile.system_s and KEPT_MEMORY in variants.usual(environment):
        share = profile.system_s / ((environment.threads or 1) * profile.plain_s)
        if share >= SYSTEM_SHARE:
            found.append(_variant(KEPT_MEMORY, f"the operating system takes {percent(share)} of a call's time", base))
    times_s: dict[str, float] = defaultdict(float)
    for layer in layers:
        times_s[layer.layer_kind] += layer.time_s or 0.0
    if whole_s := sum(times_s.values()):
        kind = max(times_s, key=lambda kind: times_s[kind])
        why = f"layers of the kind {kind} take {percent(times_s[kind] / whole_s)} of its operators' time"
        if kind in PRODUCTS:
            lower = precisions.low_precision(environment)
            found.append(Advice(lower, why=why, flags=f"{_cell_flags(base)} --precisions {base.precision} {lower}"))
        else:
            found.append(_variant(BY_KIND.get(kind, COMPILE), why, base))
    return found


def _variant(name: str, why: str, base: TimedCell) -> Advice:
    flags = f"{_cell_flags(base)} --precisions {base.precision} --variants {EAGER} {name}"
    return Advice(name, why=why, flags=flags)


def _cell_flags(base: TimedCell) -> str:
    return f"--models {base.model} --sections inference --batch-sizes {base.batch}"
