"""What timings that others published say of claims about GPUs, where no measurement of ours does.

A time decides under the conditions of the claim alone: a forward pass in eager mode and full precision, all rows of one
source, on the GPU that the study names. A chip of that GPU's die with its ridge point (``kin``) may stand in for it
where the claim is of shares, orders or trends, which a factor common to all times leaves as they are. What a study that
names no GPU says is held against every GPU, each with the models of one file. And one time has no interval: a claim is
decided by the spread of models, or by a trend over batch sizes, else it stays open with what was timed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from measure.domain.statistics import is_drifting
from measure.domain.values import significant
from measure.domain.words import INFERENCE, STEP, TF32
from report.analysis import available, correlations, elsewhere, elsewhere_sweeps
from report.analysis.available import DataMissingError
from report.analysis.correlations import Correlation
from report.analysis.effect import median_of
from report.analysis.elsewhere import ADD, CONDITIONS, FEWEST
from report.analysis.predictors import COUNTED
from report.load.paper import BASE_PRECISION, Paper
from report.published.agreement import TOLERANCE, near, of_effect, together
from report.published.claims import coursework, madani
from report.published.claims.coursework import Correlations
from report.published.claims.ruling import ELSEWHERE, Ruling, claim
from report.published.claims.sides import BATCHES, STUDIED_GPU
from report.published.models import USUAL_SHAPE
from report.published.steps import chip_roof
from report.text.frame_rows import highest, lowest, matching
from report.text.prose import by_number, listing, number

WHERE = "data/published/measurements"

PIXELS = int(USUAL_SHAPE.rpartition("x")[2])
"""The side of the studies' inputs."""

SIDE = "A time does not tell on which side of the ridge point a model lies, so timings of others do not decide."
LAYERS = "Others timed whole models, whose layers are not apart."
PASSES = "Others timed whole steps, whose passes are not apart."


@claim("madani2026-1b", SIDE, rules=ELSEWHERE)
@claim("daugherty-4a", SIDE, rules=ELSEWHERE)
@claim("a1rooflines-1", SIDE, rules=ELSEWHERE)
@claim("a1rooflines-2a", SIDE, rules=ELSEWHERE)
@claim("a1rooflines-2b", SIDE, rules=ELSEWHERE)
@claim("pham2024-4a", SIDE, rules=ELSEWHERE)
@claim("pham2024-4b", SIDE, rules=ELSEWHERE)
@claim("madani2026-9", LAYERS, rules=ELSEWHERE)
@claim("hw1part2-4b", LAYERS, rules=ELSEWHERE)
@claim("madani2026-8", PASSES, rules=ELSEWHERE)
@claim("a1rooflines-7", PASSES, rules=ELSEWHERE)
@claim("hw1part2-1", PASSES, rules=ELSEWHERE)
@claim("hw1part2-3", PASSES, rules=ELSEWHERE)
def beyond_a_time(paper: Paper, why: str) -> Ruling:
    """Leave what no time of a whole call decides."""
    return Ruling(None, why)


def sources(rows: pd.DataFrame) -> tuple[str, ...]:
    """Return the keys of the bibliography that rows are of."""
    return tuple(sorted(set(";".join(rows.source).split(";"))))


@dataclass(frozen=True)
class Timed:
    """What others timed on a GPU, and how, in words: rows that differ in model and batch size."""

    gpu: str
    how: str
    rows: pd.DataFrame

    @property
    def where(self) -> str:
        """The beginning of a sentence."""
        return f"On the {self.gpu}, {self.how},"

    def rules(self, ruling: Ruling) -> Ruling:
        """Return a ruling that names the sources."""
        return replace(ruling, sources=sources(self.rows))


def in_full_precision(paper: Paper, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the forward passes on GPUs in eager mode and full precision at the studies' size of input.

    A chip that multiplies in TF32 is left out: torch lets convolutions do so, and no source says whether they did.
    NVIDIA's have had it since they have had bf16 (Ampere), though not every datasheet prints its rate.
    """
    chips = matching(paper.chips, chip_kind="gpu")
    may_cast = (chips.precision == TF32) | ((chips.vendor == "NVIDIA") & (chips.precision == "bf16"))
    full = set(chips.chip) - set(chips[may_cast].chip)
    rows = matching(rows, phase=INFERENCE, precision=BASE_PRECISION, autocast="", compiler="")
    usual = rows.input_size.isna() | (rows.input_size == PIXELS)
    return rows[rows.device.isin(full) & usual]


def kin(paper: Paper, chip: str) -> set[str]:
    """Return the other chips of a chip's die that have its ridge point: by the roofline a factor tells both apart."""
    dies = paper.chips.drop_duplicates("chip").set_index("chip").die
    roof = chip_roof(paper, chip)
    if roof is None or not dies[chip]:
        return set()
    others = {str(name): chip_roof(paper, str(name)) for name in dies[dies == dies[chip]].index if name != chip}
    ridge = roof.ridge_flop_per_byte
    return {name for name, other in others.items() if other and near(ridge, 0, other.ridge_flop_per_byte)}


def timed_on(paper: Paper, chip: str, rows: pd.DataFrame, absolute: bool = False) -> Timed:
    """Return what one source timed on a chip, of several sources' or settings' rows those of most models.

    Where the chip was not timed, a chip of its ``kin`` stands in, unless the claim is of ``absolute`` times.
    """
    full = in_full_precision(paper, rows)
    found = matching(full, device=chip)
    if found.empty and not absolute:
        found = full[full.device.isin(kin(paper, chip))]
    if found.empty:
        instead = "" if absolute else ", nor on a chip of its die and ridge point"
        raise DataMissingError(f"No forward pass at {BASE_PRECISION} on the {chip} is in {WHERE}{instead}; {ADD}.")
    sets = [alike for _, alike in found.groupby(["device", *CONDITIONS], dropna=False)]
    most = max(sets, key=lambda alike: alike.model.nunique()).drop_duplicates(["model", "batch"])
    device = str(most.device.iloc[0])
    stands_in = "" if device == chip else f", of the {chip}'s die and ridge point"
    copied = " with the copy of the input" if set(most.input_copied) == {"yes"} else ""
    return Timed(f"{device}{stands_in}", f"as others timed it{copied}", most)


def _rises(throughputs: Sequence[float]) -> bool | None:
    """Return whether throughputs rise with the batch sizes that they are in the order of; None where chance may do it.

    It is the test for a trend by which our samples are said to drift.
    """
    if not is_drifting(throughputs, TOLERANCE):
        return None
    middle = len(throughputs) // 2
    return sum(throughputs[-middle:]) > sum(throughputs[:middle])


@claim("madani2026-6b", madani.VISION, rules=ELSEWHERE)
@claim("madani2026-7b", (madani.SPEECH,), rules=ELSEWHERE)
def trend(paper: Paper, names: tuple[str, ...]) -> Ruling:
    """Rule on throughput rising with the batch size, in each model: those not timed over a full sweep leave it open."""
    timed = timed_on(paper, STUDIED_GPU, elsewhere.timings(paper))
    sweeps = elsewhere_sweeps.sweeps(timed.rows)
    swept = {name: found for name in names if not (found := matching(sweeps, model=name)).empty}
    absent = [name for name in names if name not in swept]
    if not swept:
        raise DataMissingError(f"{timed.where} a full sweep of batch sizes is not known of {listing(names)}.")
    parts = []
    for name, found in swept.items():
        first, last = lowest(found, "batch"), highest(found, "batch")
        factor = significant(last.throughput_per_s / first.throughput_per_s)
        parts.append(f"{factor} times as high at batch size {last.batch} as at {first.batch} ({name})")
    gap = f"; {listing(absent)} {by_number(len(absent), 'was', 'were')} not timed" if absent else ""
    holds = [_rises(list(found.throughput_per_s)) for found in swept.values()]
    text = f"{timed.where} throughput is {listing(parts)}{gap}."
    return timed.rules(Ruling(together([*holds, *(None for _ in absent)]), text))


@claim("a1rooflines-3", rules=ELSEWHERE)
def saturates(paper: Paper) -> Ruling:
    """Rule by the batch size with 95 % of the best throughput, if the models are enough for the median's interval."""
    timed = timed_on(paper, STUDIED_GPU, elsewhere.timings(paper))
    found = elsewhere_sweeps.saturations(elsewhere_sweeps.sweeps(timed.rows))
    if found.empty:
        raise DataMissingError(f"{timed.where} no model's full sweep of batch sizes is known.")
    ruling = timed.rules(coursework.saturated(timed.where, found))
    if median_of(found.batch).interval is None:
        return replace(ruling, holds=None, text=f"{ruling.text} Of so few models the median has no interval.")
    return ruling


def _on_both(timed: Timed, cpu: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at batch size 1 of the models that we measured on a CPU; at least one."""
    rows = timed.rows[(timed.rows.batch == 1) & timed.rows.model.isin(cpu.model)]
    if rows.empty:
        raise DataMissingError(f"{timed.where} no model that we measured on the CPU is known at batch size 1.")
    return rows


@claim("madani2026-5a", rules=ELSEWHERE)
def correlated_devices(paper: Paper) -> Ruling:
    """Rule on the rank correlation of our CPU's latencies with those that others timed on the GPU."""
    timed, cpu = timed_on(paper, STUDIED_GPU, elsewhere.timings(paper)), madani.cells(paper, "cpu")
    gpu = _on_both(timed, cpu)
    ruling = madani.of_devices(cpu, gpu)
    known = f"{listing(sorted(gpu.model))} {by_number(len(gpu), 'is', 'are')} known"
    return timed.rules(replace(ruling, text=f"{ruling.text} {timed.where} {known} at batch size 1."))


@claim("a1rooflines-5", rules=ELSEWHERE)
def small_gap(paper: Paper) -> Ruling:
    """Rule on a small gap between our CPU and the GPU of the study at batch size 1, which is of absolute times."""
    timed = timed_on(paper, STUDIED_GPU, elsewhere.timings(paper), absolute=True)
    cpu = available.cells(available.machine(paper, "cpu"))
    ruling = coursework.cpu_over_gpu(cpu, _on_both(timed, cpu))
    return timed.rules(replace(ruling, text=f"{ruling.text} The GPU is the {timed.gpu}, {timed.how}."))


def _correlations(paper: Paper) -> tuple[Timed, Correlations]:
    """Return what was timed on the study's GPU, and the rank correlations there, each with an interval."""
    timed = timed_on(paper, STUDIED_GPU, elsewhere.counted(paper))
    found: Correlations = []
    for predictor in COUNTED:
        by_batch = {batch: _correlation(matching(timed.rows, batch=batch), predictor.column) for batch in BATCHES}
        known = {batch: coefficient for batch, coefficient in by_batch.items() if coefficient}
        if len(known) < len(BATCHES):
            count = timed.rows.model.nunique()
            models = f"{number(count, 'model')} {by_number(count, 'is', 'are')} known"
            sizes = listing([str(batch) for batch in BATCHES])
            raise DataMissingError(
                f"{timed.where} {models}, too few at batch sizes {sizes} for the interval of a correlation."
            )
        found.append(known)
    return timed, found


def _correlation(rows: pd.DataFrame, column: str) -> Correlation | None:
    """Return the rank correlation of a counted quantity with latency; None of too few models for an interval."""
    found = correlations.correlation(rows[column].astype(float), rows.latency_s, rows.model)
    return found if found and found.interval else None


@claim("a1rooflines-6a", rules=ELSEWHERE)
def low_at_batch_1(paper: Paper) -> Ruling:
    """Rule on low correlations with every counted quantity at batch size 1."""
    timed, found = _correlations(paper)
    return timed.rules(coursework.low(timed.where, found))


@claim("a1rooflines-6b", rules=ELSEWHERE)
def equal_at_large_batches(paper: Paper) -> Ruling:
    """Rule on correlations at the two larger batch sizes of the studies."""
    timed, found = _correlations(paper)
    return timed.rules(coursework.equal(timed.where, found))


@claim("daugherty-1b", rules=ELSEWHERE)
def flop_and_latency(paper: Paper) -> Ruling:
    """Rule on the correlation on every GPU: the study names none, so that one on which it is otherwise leaves it open.

    Of a GPU the file with most models counts, at one batch size, if these are enough for a comparison. The copy of the
    inputs, which some clocks enclose, is the same for all models there and leaves their order.
    """
    rows = in_full_precision(paper, elsewhere.counted(paper))
    found: dict[str, tuple[Correlation, pd.DataFrame]] = {}
    for (name, _, _), alike in rows.groupby(["device", "file", "batch"]):
        device, coefficient = str(name), _correlation(alike, "forward_flop")
        fewest = found[device][0].models + 1 if device in found else FEWEST
        if coefficient and coefficient.models >= fewest:
            found[device] = coefficient, alike
    if not found:
        raise DataMissingError(
            f"On no GPU did others time {FEWEST} counted models at {BASE_PRECISION} and one batch size; {ADD}."
        )
    holds = {coursework.uncorrelated(coefficient) for coefficient, _ in found.values()}
    ordered = sorted(found, key=lambda device: found[device][0].value)
    ends = [_told(device, *found[device]) for device in dict.fromkeys((ordered[0], ordered[-1]))]
    span = f"from {' to '.join(ends)}" if len(ends) > 1 else ends[0]
    return Ruling(
        holds.pop() if len(holds) == 1 else None,
        f"On {number(len(found), 'GPU')}, as others timed {by_number(len(found), 'it', 'them')}, the rank "
        f"correlation of FLOP with latency is {span}.",
        sources=sources(pd.concat([alike for _, alike in found.values()])),
    )


def _told(device: str, coefficient: Correlation, rows: pd.DataFrame) -> str:
    models = number(coefficient.models, "model")
    return f"{coefficient} on the {device} ({models} at batch size {rows.batch.iloc[0]})"


@claim("pham2024-7", rules=ELSEWHERE)
def slower_on_l4(paper: Paper) -> Ruling:
    """Rule on the steps that a source timed on both GPUs, all else alike; what is of times has no kin."""
    l4, t4, model = "NVIDIA L4", "NVIDIA T4", "resnet50"
    rows = matching(
        elsewhere.timings(paper), model=model, phase=STEP, precision=BASE_PRECISION, autocast="", compiler=""
    )
    pairs = elsewhere.generations(rows[rows.device == l4], rows[rows.device == t4])
    if pairs.empty:
        raise DataMissingError(
            f"No training steps of {model} on both the {l4} and the {t4}, all else alike, are in {WHERE}."
        )
    factor = median_of(pairs.speed_up)
    return Ruling(
        of_effect(factor).above(1),
        f"On the {l4} a step of {model} takes {factor} times as long as on the {t4} in the median of "
        f"{number(len(pairs), 'pair')}, as others timed them.",
        sources=sources(pairs),
    )
