"""Every kind of sentence that tells a conclusion, and what each of its numbers should be."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from recomputing import effects, remedies
from recomputing.cache import EAGER, FULL, KINDS, Cache, Machine
from recomputing.effects import SATURATED, Conclusions, Series, Sizes
from recomputing.statistics import CONFIDENCE
from recomputing.text import ALONE, NUMBER, Factor, Factors, Held, Kinds, Naming, Parts, Quantity, Words

Said = dict[str, str]
Wanted = Mapping[str, Any]

BITS = 16
"""The width of the precisions at which tensor units are held against vector units."""


def listing(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count in (0, 1) else 's'}"


def share(value: float) -> Quantity:
    return Quantity(value, "%")


def on_side(sizes: Sizes, side: int, confidence: float) -> list[int]:
    return [size for size, effect in sizes.items() if effect.side(confidence) == side]


def sizes_in_advice(sizes: Sizes, confidence: float) -> list[int]:
    """Return the batch sizes that advice names: those at which something is faster, else slower, if not all.

    Where it is faster somewhere, those at which it is slower follow.
    """
    better, worse = (on_side(sizes, side, confidence) for side in (1, -1))
    named = [found for found in (better, worse) if found and len(found) < len(sizes)]
    return [size for found in named for size in found]


def named(cache: Cache, said: Said) -> Machine:
    """Return the machine that a sentence names; of none, or none that is known, the first."""
    return next((each for each in cache.shown if each.title == said.get("machine")), cache.shown[0])


def largest(found: Sizes, confidence: float) -> int:
    """Return the batch size with the largest effect that is clear of 1; without any, with the largest."""
    return max(found, key=lambda size: (found[size].side(confidence) != 0, found[size].size))


def _largest(found: Sizes, confidence: float, which: str = "") -> dict[str, Any]:
    """Return the largest effect and its models, as a sentence tells them; nothing where there are none."""
    return _at(largest(found, confidence), found, confidence, which) if found else {}


def _at(size: int, found: Sizes, confidence: float, which: str = "") -> dict[str, Any]:
    count = found[size].count
    return {"effects": Factors({size: found[size]}, confidence), "models": f"{which}{counted(count, 'model')}"}


def numbers_in(texts: list[str]) -> list[int]:
    return [int(number) for text in texts for number in ALONE.findall(text)]


def settings(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    at = conclusions.confidence

    @found.of(
        "[On the <machine>, ]<advice>: the speed at <lower> over that at <base> is <effects> in the median of <models>."
    )
    def precision(said: Said) -> Wanted:
        machine = named(cache, said)
        sizes = effects.precision(cache, machine)
        advice = Naming(sizes_in_advice(sizes, at))
        precisions = {"lower": machine.lower, "base": FULL}
        return {"machine": machine.title, "advice": advice, **precisions, **_largest(sizes, at)}

    @found.of(
        "[On the <machine>, ]<clauses>.[ <saturations>.]",
        clauses=r"(?:in eager mode|with \S+) [^;]*throughput over that at .*?",
        saturations=r"(?:In eager mode|With \S+) the smallest batch size .*",
    )
    def batch_sizes(said: Said) -> Wanted:
        machine = named(cache, said)
        clauses = Parts(_clauses(cache, conclusions, machine), said["section"])
        return {"machine": machine.title, "clauses": clauses, "saturations": clauses}

    @found.of(
        "[On the <machine>, ]<advice>: the speed with it over that in eager mode is <effects> in the median of "
        "<models>."
    )
    def variant(said: Said) -> Wanted:
        machine = named(cache, said)
        tried = effects.variants(cache, machine)
        name = effects.strongest_variant(tried, at)
        advice = Naming(sizes_in_advice(tried[name], at), [name])
        return {"machine": machine.title, "advice": advice, **_largest(tried[name], at)}

    @found.of(
        "<advice>: the speed of the <other> over that of the <first> is <effects> in the median of <models>."
        "[ The measured roofs would have it <predicted>.]"
    )
    def device(said: Said) -> Wanted:
        shared = effects.device(cache)
        if shared is None:
            return {}
        other, both = shared
        sizes = effects.device_sizes(both)
        ratios = (both.attainable_flop_per_s_other / both.attainable_flop_per_s).groupby(both.batch).median()
        names = [other.title, cache.shown[0].title]
        return {
            "advice": Naming(numbers_in(names) + sizes_in_advice(sizes, at)), "other": names[0], "first": names[1],
            "predicted": ratios[largest(sizes, at)], **_largest(sizes, at),
        }  # fmt: skip


def _clauses(cache: Cache, conclusions: Conclusions, machine: Machine) -> Kinds:
    """Return the kinds of clauses on batch sizes, one for each variant of which a sweep was measured."""
    kinds, at = Kinds(), conclusions.confidence
    first, swept = effects.first_size(cache, machine), effects.swept(machine)
    sizes = effects.batch_size(cache, machine)

    @kinds.of(
        "{in eager mode|with <variant>} <advice>: the throughput over that at batch size <first> is <effects> in the "
        "median of <models>",
        "{in eager mode|with <variant>} the smallest batch size with <share> of the best "
        "throughput is <saturation> in the median of <swept>[, from <least> to <most>]",
        variant=r"\S+",
    )
    def clause(said: Said) -> Wanted:
        variant = said.get("variant", EAGER)
        if variant not in sizes:
            return {}
        own = sizes[variant]
        better, worse = (on_side(own, side, at) for side in (1, -1))
        best = max(better, key=lambda size: own[size].factor, default=largest(own, at))
        found = sorted(swept[variant].saturation)
        return {
            "variant": variant, "advice": Naming([best] if better else [first] if worse else []), "first": first,
            "share": share(SATURATED), "saturation": int(found[(len(found) - 1) // 2]), "least": int(found[0]),
            "most": int(found[-1]), "swept": counted(len(swept[variant]), "model"), **_at(best, own, at),
        }  # fmt: skip

    return kinds


def estimates(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    at = conclusions.confidence

    @found.of(
        "[On the <machine>, ]<advice>: the time for a FLOP differs between two models by a factor of <effects> in "
        "the median of <models>.[ The extremes are <slow> with <slow_rate> and <quick> with <quick_rate>.]"
    )
    def flop(said: Said) -> Wanted:
        machine = named(cache, said)
        sizes, rows = effects.flop(cache, machine), effects.flop_cells(cache, machine)
        batch = largest(sizes, CONFIDENCE)
        rates = (rows.forward_flop / rows.latency_s).set_axis(rows.model)[(rows.batch == batch).to_numpy()]
        return {
            "machine": machine.title, "advice": Naming([]),
            "slow": rates.idxmin(), "slow_rate": Quantity(rates.min(), "FLOP/s"),
            "quick": rates.idxmax(), "quick_rate": Quantity(rates.max(), "FLOP/s"),
            **_largest(sizes, CONFIDENCE, "all pairs of "),
        }  # fmt: skip

    @found.of(
        "[On the <machine>, ]<advice>: <other> err by <effect> times as much as <best> in the median of <models> at "
        "batch size <batch>.[ Half of them are off the line through <far> by more than a factor of <far_factor>, off "
        "that through <near> by more than <near_factor>.]"
    )
    def estimation(said: Said) -> Wanted:
        machine = named(cache, said)
        it = effects.estimation(cache, machine)
        near, far = (it.best, it.other) if it.effect.factor >= 1 else (it.other, it.best)
        return {
            "machine": machine.title, "advice": Naming([], [near, far]), "batch": it.batch,
            "models": counted(it.effect.count, "model"), "near": near, "far": far,
            "near_factor": it.errors[near], "far_factor": it.errors[far],
            "best": it.best, "other": it.other, "effect": Factor(it.effect, at),
        }  # fmt: skip

    @found.of("[On the <machine>, ]<advice>: at <precision> it is <effect> times the measured one.")
    def peak(said: Said) -> Wanted:
        machine = named(cache, said)
        effect = effects.peak(cache, machine)
        told = {} if effect is None else {"effect": Factor(effect, CONFIDENCE)}
        return {"machine": machine.title, "advice": Naming([]), "precision": FULL, **told}


def operators(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    @found.of(
        "[On the <machine>, ]<advice>: the time of a call over the least that the measured roof allows is <effects> "
        "in the median of <models>.[ Of what was measured <remedy> helps most in <count> of <profiled>.]"
    )
    def distance(said: Said) -> Wanted:
        machine = named(cache, said)
        helped, profiled = remedies.helping(cache, machine)
        often = Counter(helped)
        usual = max(often, key=lambda name: (often[name], name == said.get("remedy")), default="")
        told = {"remedy": usual, "count": often[usual], "profiled": counted(profiled, "profiled cell")}
        advice = Naming([int(word) for word in usual.split() if word.isdigit() and usual in said.get("advice", "")])
        sizes = effects.distance(cache, machine)
        return {"machine": machine.title, "advice": advice, **told, **_largest(sizes, CONFIDENCE)}

    @found.of(
        "[On the <machine>, ]<advice>: under the roof, the least time of operators run one by one over that of the "
        "model as a whole is <effects> in the median of <models>."
    )
    def fusion(said: Said) -> Wanted:
        machine = named(cache, said)
        sizes = effects.fusion(cache, machine)
        return {"machine": machine.title, "advice": Naming([]), **_largest(sizes, CONFIDENCE)}

    @found.of(
        "[On the <machine>, ]<advice>: the time of a FLOP in them over that of one in the same model's other "
        "convolutions is <effects> in the median of <models>."
    )
    def depthwise(said: Said) -> Wanted:
        machine = named(cache, said)
        sizes = effects.depthwise(cache, machine)
        return {"machine": machine.title, "advice": Naming([]), **_largest(sizes, conclusions.confidence)}


def training(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    @found.of(
        "[On the <machine>, ]<advice>: it takes <effect> times as long, against its forward pass, as its FLOP do in "
        "the median of <models> at batch size <batch>.[ In the medians a step takes as long as <times> forward passes, "
        "and has the FLOP of <asked>.]"
    )
    def step(said: Said) -> Wanted:
        machine = named(cache, said)
        it = effects.training_step(cache, machine)
        if it is None:
            return {}
        return {
            "machine": machine.title, "advice": Naming([]), "batch": it.batch, "times": it.times, "asked": it.asked,
            "models": counted(it.effect.count, "model"), "effect": Factor(it.effect, conclusions.confidence),
        }  # fmt: skip

    @found.of(
        "<advice>: training takes <effect> times the memory of inference in the median of <models> at batch size "
        "<batch>.[ Of its peak, saved activations are <saved> in the median and parameters <parameters>.]"
    )
    def memory(said: Said) -> Wanted:
        rows, effect = effects.trained(cache), effects.training_memory(cache)
        return {
            "advice": Naming([]), "batch": int(rows.batch.iloc[0]), "effect": Factor(effect, CONFIDENCE),
            "models": counted(effect.count, "model"),
            "saved": share((rows.saved_byte / rows.training_peak_byte).median()),
            "parameters": share((rows.parameter_byte / rows.training_peak_byte).median()),
        }  # fmt: skip


def chips(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    @found.of(
        "<advice>: the peak of the tensor units of <dies> of data-center GPUs is <range> that of their vector units at "
        "<precision>."
    )
    def tensor_units(said: Said) -> Wanted:
        pairs = effects.tensor_units(cache)
        return {
            "advice": Naming([BITS]), "precision": FULL, "dies": counted(len(pairs), "die"),
            "range": Range(pairs),
        }  # fmt: skip

    @found.of("<advice>: over the years of the table ridge points {rose|moved} by a factor of <moved>.")
    def ridge_points(said: Said) -> Wanted:
        series = effects.ridge_series(cache)
        clear = [each for each in series if each.effect.side(conclusions.confidence)]
        return {"advice": Naming([]), "moved": Moved(clear or series, conclusions.confidence)}

    @found.of("<advice>: the sparse peak over the dense one is <effect> in the median of <dies> that have both.")
    def sparse_peaks(said: Said) -> Wanted:
        effect = effects.sparse_peaks(cache)
        told = {"effect": Factor(effect, CONFIDENCE), "dies": counted(effect.count, "die")}
        return {"advice": Naming([]), **told}


@dataclass(frozen=True, eq=False)
class Range:
    """The least and the largest ratio with their dies: ``2.00 (A1) to 16.0 times (GB1, NVIDIA B2)``."""

    pairs: pd.DataFrame

    def hold(self, text: str) -> Iterator[Held]:
        sure = self.pairs[self.pairs.verified == "yes"] if (self.pairs.verified == "yes").any() else self.pairs
        ends = [sure.loc[sure.ratio.idxmin()], sure.loc[sure.ratio.idxmax()]]
        if ends[0].ratio == ends[1].ratio:
            ends.pop()
        parts = re.findall(rf"({NUMBER})(?: times)? \(([^)]*)\)", text)
        if len(parts) != len(ends):
            yield Held(text, "the least and the largest ratio", False)
            return
        for end, (number, whose) in zip(ends, parts, strict=True):
            yield from Quantity(float(end.ratio)).hold(number)
            yield from Words(", ".join(filter(None, (end.die, end.chip)))).hold(whose)


@dataclass(frozen=True, eq=False)
class Moved:
    """Growth by kind: ``3.4 (1.8 to 6.0) for 15 dies of CPUs (2008 to 2024) and ...``."""

    series: Sequence[Series]
    confidence: float

    def hold(self, text: str) -> Iterator[Held]:
        parts = re.split(r"(?<=\d{4}\))(?:, | and )", text)
        if len(parts) != len(self.series):
            yield Held(text, f"growth of {len(self.series)} kinds", False)
            return
        for series, part in zip(self.series, parts, strict=True):
            factor, _, rest = part.partition(" for ")
            first, last = series.years
            dies = f"{counted(len(series.rows), 'die')} of {KINDS[series.kind]}s"
            yield from Factor(series.effect, self.confidence).hold(factor)
            yield from Words(f"{dies} ({first} to {last})").hold(rest)


SUBJECTS = (settings, estimates, operators, training, chips)
"""The functions that add the kinds of sentence of a subject each."""
