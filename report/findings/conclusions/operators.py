"""What the operators of a model cost beyond what the roof allows: in all, by running one by one, by their kind."""

from measure.cache.records import INFERENCE
from report.analysis import available, operator_shares, remedies
from report.analysis.available import DataMissingError, Missing, or_missing
from report.findings.conclusions.conclusion import LITTLE, Conclusion, by_batch, largest, told
from report.load.paper import Machine, Paper
from report.text.quantities import number

FIRST = "before buying a faster chip"

ADVICE = {
    remedies.LARGER_BATCH: f"collect inputs into batches {FIRST}",
    remedies.FUSION: f"fuse operators {FIRST}",
    remedies.LOWER_PRECISION: f"lower the precision {FIRST}",
    remedies.OTHER_LAYOUT: f"try another layout of the convolutions {FIRST}",
    remedies.NOTHING: "look for a faster chip or a leaner model",
    remedies.AGAIN: "measure again before drawing a conclusion",
}
"""What follows where most profiled cells have a remedy."""


def distance(paper: Paper, of: Machine) -> Conclusion:
    """How many times as long as the roof allows a call takes, and the remedy of most profiled cells."""
    available.roof(of)
    cells, title = available.cells(of), available.title(of)
    effects = by_batch(cells.assign(factor=1 / cells.attained), "factor")
    batch = largest(effects)
    profiled = or_missing(remedies.largest)(paper, of)
    advice, why = f"look at the software {FIRST}", ""
    if not isinstance(profiled, Missing):
        terms, ways = profiled.term.value_counts(), profiled.remedy.value_counts()
        advice = ADVICE[str(ways.index[0])]
        why = (
            f" In {terms.iloc[0]} of {number(len(profiled), 'profiled cell')} the largest term is {terms.index[0]}; in "
            f"{ways.iloc[0]} the remedy by rule is {ways.index[0]}."
        )
    if effects[batch].side < 0:
        advice = ADVICE[remedies.NOTHING]
    return Conclusion(
        "Distance from the roof",
        effects[batch],
        title,
        f"{advice}: the time of a call over the least that the measured roof allows is {told(effects)}.{why}",
        f"a call takes {effects[batch]} times the least time that the measured roof allows at batch size {batch}",
        ("fig-attained", "fig-waterfall", "tbl-remedies"),
    )


def fusion(paper: Paper, of: Machine) -> Conclusion:
    """The least time of the operators one by one over that of the model as a whole: what fusing saves at most."""
    available.roof(of)
    cells, title = available.cells(of), available.title(of)
    cells = cells[cells.operator_bound_s.notna() & cells.model_bound_s.notna()]
    if cells.empty:
        raise DataMissingError(
            f"The operators of the models measured on the {title} have not been counted; python -m measure --sections "
            "workload counts them."
        )
    effects = by_batch(cells.assign(factor=cells.operator_bound_s / cells.model_bound_s), "factor")
    batch = largest(effects)
    advice = "fuse operators" if effects[batch].factor > LITTLE else "do not expect much of fusing operators"
    return Conclusion(
        "Fusion",
        effects[batch],
        title,
        f"{advice}: under the roof, the least time of operators run one by one over that of the model as a whole is "
        f"{told(effects)}, and no less traffic of memory can save more than that.",
        f"operators run one by one take at least {effects[batch]} times the least time of the model as a whole at "
        f"batch size {batch}",
        ("sec-waterfall", "tbl-waterfall"),
    )


def depthwise(paper: Paper, of: Machine) -> Conclusion:
    """How many times as long a FLOP takes in a depthwise convolution as in the others of the same model."""
    rows, title = operator_shares.on_roof(paper, of), available.title(of)
    rows = rows[rows.phase == INFERENCE]
    pairs = rows[rows.group == "convolution"].merge(
        rows[rows.group == "depthwise convolution"], on=["model", "batch"], suffixes=("", "_depthwise")
    )
    if pairs.empty:
        raise DataMissingError(
            f"No model with depthwise convolutions was profiled on the {title}; python -m measure --device "
            f"{of.environment.device} --sections workload operators --models mobilenet_v2 profiles one."
        )
    effects = by_batch(pairs.assign(factor=pairs.flop_per_s / pairs.flop_per_s_depthwise), "factor")
    batch = largest(effects)
    advice = "do not trust" if effects[batch].factor > LITTLE else "trust"
    return Conclusion(
        "Depthwise convolution",
        effects[batch],
        title,
        f"{advice} the few FLOP of depthwise convolutions: the time for one of them over that for one of the same "
        f"model's other convolutions is {told(effects)}.",
        f"a FLOP in a depthwise convolution takes {effects[batch]} times as long as in another one",
        ("fig-groups-on-roof", "fig-kernel-shares"),
    )
