"""Why it is so: causes that the data can bear or refute, each with a rule that turns its sentence when they do."""

from measure.domain.advice import KEPT_MEMORY
from measure.domain.values import significant
from report.analysis import available, elsewhere_pairs, speed_ups, waterfall
from report.analysis.available import Missing, finding, missing_on, on_each_machine, or_missing
from report.analysis.effect import median_of
from report.analysis.elsewhere import COMPILED
from report.analysis.predictors import comparable
from report.findings.conclusions.conclusion import by_batch
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching, of_models
from report.text.prose import number, percent


@finding
def kept_memory(paper: Paper) -> str:
    """Say whether memory that goes back to the operating system is what larger batches cost on the processor."""
    machine = available.machine(paper, "cpu")
    rows = or_missing(speed_ups.over_eager)(machine, BASE_PRECISION)
    tried = None if isinstance(rows, Missing) else matching(rows, variant=KEPT_MEMORY)
    kept = {} if tried is None or tried.empty else by_batch(tried, "speed_up")
    if not kept:
        what = f"Whether memory that is kept between operators helps on the {available.title(machine)} is not known"
        raise missing_on(machine, what, flags=f"--variants {KEPT_MEMORY}", does="tells")
    first, last = min(kept), max(kept)
    there = f"at batch size {last} in the median of {number(kept[last].count, 'model')}"
    if kept[last].side <= 0:
        return (
            f"Memory that goes back to the operating system does not explain what a larger batch costs on the "
            f"{available.title(machine)}: where it is kept, cells run {kept[last]} times as fast {there}."
        )
    grows = first < last and kept[last].factor > kept[first].factor
    text = (
        f"On the {available.title(machine)} memory is part of what a larger batch costs: where blocks are kept rather "
        f"than returned to the operating system, cells run {kept[last]} times as fast {there}"
    )
    text += f", against {kept[first]} at {first}." if grows else "."
    known = or_missing(waterfall.profiled)(machine)
    if isinstance(known, Missing):
        return text
    shares = comparable(known.dropna(subset="system_share")).groupby("batch").system_share.median()
    if len(shares) < 2 or shares.iloc[-1] <= shares.iloc[0]:
        return text
    return (
        f"{text} The system's part of the threads' time agrees: it grows from {percent(shares.iloc[0])} at batch size "
        f"{shares.index[0]} to {percent(shares.iloc[-1])} at {shares.index[-1]}."
    )


@on_each_machine
def lower_precision(paper: Paper, machine: Machine) -> str:
    """Say whether a lower precision brings models nearer to the roof, or only raises it."""
    lower = machine.lower_precision
    gains = of_models(speed_ups.at_lower_precision(machine), "gain")
    base, lowered = (available.roof(machine, precision) for precision in (BASE_PRECISION, lower))
    promised = lowered.peak_flop_per_s / base.peak_flop_per_s
    what = {
        1: "They come nearer to it, since tensors of half the length save traffic as well.",
        0: f"They come no nearer to it: what holds them back at {BASE_PRECISION} does so at {lower}.",
        -1: f"They fall further behind it: what {lower} does not shorten weighs more.",
    }[median_of(gains / promised).side]
    return (
        f"On the {available.title(machine)} models run {median_of(gains)} times as fast at {lower} as at "
        f"{BASE_PRECISION}, where the peak is {significant(promised)} times as high. {what}"
    )


GOOD_ORDER = 0.7
"""A rank correlation of as much explains most of an order."""


@finding
def fusing(paper: Paper) -> str:
    """Say whether a compiler helps most where layers that it fuses move most, on every device where it was timed."""
    known = elsewhere_pairs.fused(paper)
    most = known[0]
    where = f"on the {most.compiled.device} ({most.compiled.what})"
    rank = f"ρ = {most.coefficient} over {number(most.coefficient.models, 'model')}"
    if not all(each.coefficient.settled for each in known):
        return (
            f"Whether {COMPILED.name} helps most where layers that do not multiply move most of the bytes cannot be "
            f"told from chance: {rank} {where}."
        )
    if any(each.coefficient.value < 0 for each in known):
        return (
            f"What {COMPILED.name} fuses does not explain what it brings: it helps no more where layers that do not "
            f"multiply move most of the bytes ({rank} {where})."
        )
    part = "most of" if most.coefficient.value >= GOOD_ORDER else "a part of"
    return (
        f"{COMPILED.name} fuses layers that do not multiply, which saves what they read and write. The quarter of "
        f"models in which these move least of the bytes runs {significant(most.least)} times as fast with it {where}, "
        f"the quarter in which they move most {significant(most.most)} times. That is {part} its gain: {rank}."
    )


@finding
def compile_or_buy(paper: Paper) -> str:
    """Say whether compiling brings more than the newer device, where models were timed with both."""
    found = elsewhere_pairs.compiled_instead(paper)
    older, newer = found.newer.device.split(" to ", 1)
    verdict = {
        1: "Compile before you buy",
        0: "Whether to compile or to buy cannot be told from chance",
        -1: "Buy rather than compile, if you cannot do both",
    }[found.advantage.side]
    return (
        f"{verdict}: with {COMPILED.name} models run {found.advantage} times as fast on the {older} as without it on a "
        f"{newer} ({found.compiled.what}), in the median of {number(found.advantage.count, 'model')}."
    )
