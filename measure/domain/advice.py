"""Advise on the first thing to try for a faster model: a measured gain, else a hypothesis from its profile."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from measure.domain import precisions, variants
from measure.domain.latency import TimedCell
from measure.domain.model_work import LayerWork
from measure.domain.records import Environment, Profile
from measure.domain.values import percent
from measure.domain.words import EAGER, INFERENCE, LOADED, PRODUCT_KINDS, ROUNDS

KEPT_MEMORY, CHANNELS_LAST, COMPILE = "kept_memory", "channels_last", "compile"  # the variants that are suggested

# Keeping memory is suggested if the operating system takes this share of a call's time on all threads. 43 cells were
# timed both ways on the reference machine. 16 of the 18 above this share became faster beyond doubt, by a factor of 1.4
# to 3.2; none of the 25 below it did.
SYSTEM_SHARE = 0.2


def hypothesis(costliest: str, low_precision: str) -> str:
    """Return the remedy to test first if a kind of layer takes most of the time."""
    if costliest in ("convolution", "depthwise convolution"):
        return CHANNELS_LAST
    if costliest in PRODUCT_KINDS:
        return low_precision
    return COMPILE  # all others move bytes or wait for launches, and fusing them saves both


@dataclass(frozen=True)
class Advice:
    """A variant, precision or larger batch to try, with its measured speed-up.

    Without a ``gain`` it is a hypothesis: ``why`` gives its reason, and ``flags`` make a command that tests it.
    """

    remedy: str
    gain: float | None = None
    why: str | None = None
    flags: str | None = None


def advise(
    base: TimedCell,
    cells: Iterable[TimedCell],
    profile: Profile | None,
    layers: Iterable[LayerWork],
    environment: Environment,
) -> Advice | None:
    """Return the first thing to try for a cell of inference in eager mode; None without a gain and a profile.

    A measured gain counts if its interval of the time per input lies below the cell's, and if both cells have enough
    rounds for an interval between processes. A remedy that was tried is not suggested again. Measurements on a loaded
    machine are ignored.
    """
    gains: dict[str, float] = {}  # 0 unless it is certain
    for other in cells if LOADED not in base.flags else ():
        if (name := _trial_name(base, other)) and LOADED not in other.flags:
            larger = other.batch / base.batch
            slowest_s, fastest_s = (other.latency_high_s or inf) / larger, base.latency_low_s or 0.0
            is_certain = min(base.rounds, other.rounds) >= ROUNDS and slowest_s < fastest_s
            gains[name] = larger * (base.latency_s or 0.0) / (other.latency_s or inf) if is_certain else 0.0
    best = max(gains, key=lambda name: gains[name], default="")
    if gains.get(best):
        return Advice(best, gains[best])
    return next((each for each in _hypotheses(base, profile, layers, environment) if each.remedy not in gains), None)


def _trial_name(base: TimedCell, other: TimedCell) -> str | None:
    """Name the one thing that a cell changes: its variant, its precision, or a larger batch; None for other cells."""
    if (other.model, other.phase) != (base.model, INFERENCE) or other.latency_s is None:
        return None
    has_precision, is_eager = other.precision == base.precision, other.variant == EAGER
    if other.batch == base.batch and has_precision != is_eager:
        return other.precision if is_eager else other.variant
    return f"batch size {other.batch}" if other.batch > base.batch and has_precision and is_eager else None


def _hypotheses(
    base: TimedCell, profile: Profile | None, layers: Iterable[LayerWork], environment: Environment
) -> Iterator[Advice]:
    """Yield the remedies that a cell's profile suggests, the likeliest first."""
    if profile is None or not profile.plain_s:
        return
    reasons = {}
    if profile.system_s is not None and KEPT_MEMORY in variants.usual_variants(environment):
        share = profile.system_s / ((environment.threads or 1) * profile.plain_s)
        if share >= SYSTEM_SHARE:
            reasons[KEPT_MEMORY] = f"the operating system takes {percent(share)} of a call's time"
    times_s: dict[str, float] = defaultdict(float)
    for layer in layers:
        times_s[layer.layer_kind] += layer.time_s or 0.0
    lower = precisions.low_precision(environment)
    if whole_s := sum(times_s.values()):
        kind = max(times_s, key=lambda kind: times_s[kind])
        share_of_kind = percent(times_s[kind] / whole_s)
        reasons[hypothesis(kind, lower)] = f"layers of the kind {kind} take {share_of_kind} of its operators' time"
    for remedy, why in reasons.items():
        tested = f"{base.precision} {lower}" if remedy == lower else f"{base.precision} --variants {EAGER} {remedy}"
        cell = f"--models {base.model} --sections inference --batch-sizes {base.batch}"
        yield Advice(remedy, why=why, flags=f"{cell} --precisions {tested}")
