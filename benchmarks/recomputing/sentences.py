"""Every kind of sentence with a number in the abstract and the conclusions, and what each number should be."""

import re
from collections.abc import Mapping
from typing import Any

from recomputing import advice, effects
from recomputing.advice import counted, listing, named, numbers_in, share
from recomputing.cache import EAGER, FULL, KINDS, STREAMS, TARGET, Cache
from recomputing.effects import FIRST_EFFECTS, FIRST_MARGINS, LARGE, LISTED, Conclusions
from recomputing.printed_figures import PrintedFigures
from recomputing.statistics import CONFIDENCE
from recomputing.text import Given, Kinds, Naming, Parts, Quantity

Said = dict[str, str]
Wanted = Mapping[str, Any]

REASONS = {
    "oom": "ran out of memory",
    "timeout": "ran out of time",
    "unsupported": "not supported",
    "killed": "killed from outside",
    "error": "failed",
}


def kinds(cache: Cache, conclusions: Conclusions, printed: PrintedFigures) -> Kinds:
    """Return the kinds of sentence, recomputed from a cache."""
    found = Kinds()
    for add in (_scope, _machines, _summaries, *advice.SUBJECTS, _others):
        add(found, cache, conclusions)

    @found.of(
        "<advice>: <wrong> of <count> that can be compared {differs|differ}[, by a factor of <effect> in the median of "
        "<causes>].[ At the most it is <most> (<where>).]"
    )
    def printed_figures(said: Said) -> Wanted:
        return {"advice": Naming([]), **printed.wanted(CONFIDENCE)}

    return found


def _scope(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    @found.of(
        "We count what <models> models of <families> families ask for, and set it against the sourced roofs of <chips> "
        "chips (<kinds>)."
    )
    def scope(said: Said) -> Wanted:
        rows = cache.workloads[cache.workloads.precision == FULL]
        kinds = cache.chips.drop_duplicates("chip").chip_kind.value_counts()
        return {
            "models": int(rows.model.nunique()),
            "families": int(rows.family.nunique()),
            "chips": int(cache.chips.chip.nunique()),
            "kinds": listing([counted(int(kinds[kind]), name) for kind, name in KINDS.items() if kind in kinds]),
        }  # fmt: skip

    @found.of("Beside them stand <timings> timings of <models> models on <devices> devices that others published.")
    def published(said: Said) -> Wanted:
        rows = cache.timed_by_others
        return {
            "timings": f"{len(rows):,}",
            "models": f"{rows.model.nunique():,}",
            "devices": int(rows.device.nunique()),
        }


def _machines(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    @found.of(
        "On the <machine>[, a virtual machine under <hypervisor>,] "
        "{all <all> that were tried were measured|<measured> of <tried> {was|were} measured; <others>}. Of the "
        "measured ones <known> {has|have} a <confidence> interval within ±<target>, and <flagged> {carries|carry} a "
        "flag. The machine's measured <precision> roof is <peak> and, by <stream>, <bandwidth>. Of what it allows "
        "<models>, each in the median of its batch sizes, {achieves|achieve} <share> in the median."
    )
    def measured(said: Said) -> Wanted:
        machine = named(cache, said)
        cells, peak = machine.cells[machine.cells.variant == EAGER], machine.peaks[FULL].median
        ok, failed = cells[cells.status == "ok"], cells.status[cells.status != "ok"].value_counts()
        known = (ok.high_s - ok.low_s) / 2 / ok.latency_s <= TARGET
        shares = cache.asked(machine).groupby("model").attained.median()
        stream = machine.stream.roof_kernel
        return {
            "machine": machine.title,
            "hypervisor": machine.environment.hypervisor,
            "all": counted(len(cells), "cell") if failed.empty else f"not all {len(cells)}",
            "measured": len(ok) or "none",
            "tried": counted(len(cells), "cell"),
            "others": listing([f"{count} {REASONS[str(status)]}" for status, count in failed.items()]),
            "known": int(known.sum()) or "none",
            "confidence": share(CONFIDENCE),
            "target": share(TARGET),
            "flagged": int((ok["flags"] != "").sum()) or "none",
            "precision": FULL,
            "peak": Quantity(peak, "FLOP/s"),
            "stream": stream.removeprefix(STREAMS[0].removesuffix("read")),
            "bandwidth": Quantity(machine.byte_per_s, "B/s"),
            "models": counted(len(shares), "model"),
            "share": share(shares.median()),
        }


def _summaries(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    tested = [subject for subject in conclusions.subjects if not subject.is_margin]

    @found.of(
        "First stand the largest of <tested> tested, with intervals of <confidence> that allow for their number; then "
        "margins, which cannot be below one, with intervals of <usual>.",
        "On <subjects> the cache lets us test <tested>, one at each batch size and variant that was tried.",
        "Of these <clear> {is|are} more than chance.",
        "Of as many tests some succeed by chance, so each interval is of <confidence>: then no more than <missing> of "
        "those told are expected to miss.",
        "<large> {has|have} an effect of a factor of <least> or more.",
        "It has a size, with an interval of <usual> where it is a median, and nothing to test.",
        "Of <tested> that the cache lets us test none is clear of one and as large as a factor of <least>; python -m "
        "measure measures more.",
        "Of <looked_for> looked for none is clear of one and as large as a factor of <least>.",
    )
    def tests(said: Said) -> Wanted:
        margins = len(conclusions.subjects) - len(tested)
        return {
            "looked_for": margins if conclusions.clear else len(conclusions.tested),
            "tested": counted(len(conclusions.tested), "effect"),
            "subjects": counted(len({(subject.topic, subject.where) for subject in tested}), "subject"),
            "clear": sum(effect.side(conclusions.confidence) != 0 for effect in conclusions.tested),
            "confidence": share(conclusions.confidence),
            "usual": share(CONFIDENCE),
            "missing": share(1 - CONFIDENCE),
            "large": counted(len(conclusions.clear), "subject"),
            "least": LARGE,
        }


def _others(found: Kinds, cache: Cache, conclusions: Conclusions) -> None:
    rest = Kinds()

    @rest.of("<topics> on the <machine>", "<topics>")
    def subject(said: Said) -> Wanted:
        where = said.get("machine", "")
        topics = [each.topic for each in conclusions.subjects if each.where == where]
        are_known = set(re.split(r", | and ", said["topics"])) <= set(topics)
        return {"topics": said["topics"] if are_known else listing(topics), "machine": where}

    @found.of("Looked for but not listed, since they may be none or are smaller than those above: <list>.")
    def not_listed(said: Said) -> Wanted:
        return {"list": Parts(rest)}

    @found.of("<what>python -m measure<command>.")
    def gap(said: Said) -> Wanted:
        titles = [machine.title for machine in cache.machines if machine.title in said["what"]]
        return {"what": Naming(numbers_in(titles)), "command": Given("the flags of a command")}


def order(conclusions: Conclusions) -> list[list[str]]:
    """Return the topics of the lists in their order: of the first page, effects and margins, without an empty one."""
    effects, margins = _topics(conclusions.clear), _topics(conclusions.margins)
    first = effects[:FIRST_EFFECTS] + margins[:FIRST_MARGINS]
    return [topics for topics in (first, effects, margins) if topics]


def _topics(subjects: list[effects.Subject]) -> list[str]:
    return list(dict.fromkeys(subject.topic for subject in subjects))[:LISTED]
