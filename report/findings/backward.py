"""What a training step asks for beside inference."""

from report.analysis import available
from report.analysis.available import finding
from report.load.paper import Paper
from report.load.steps import MEMORY_PARTS
from report.text.frame_rows import highest, lowest
from report.text.quantities import number, percent, si, significant


@finding
def ratios(paper: Paper) -> str:
    """The backward pass's FLOP over the forward pass's, and why the ratio is below two."""
    rows = available.trained(paper)
    rows = rows.assign(ratio=rows.backward_flop / rows.forward_flop)
    least, most = lowest(rows, "ratio"), highest(rows, "ratio")
    text = f"The backward pass takes {significant(rows.ratio.median(), 4)} times the FLOP of the forward pass in the "
    text += f"median of {number(len(rows), 'model')}"
    if most.ratio > least.ratio:
        text += f", from {significant(least.ratio, 4)} ({least.model}) to {significant(most.ratio, 4)} ({most.model})"
    other = (rows.backward_other_flop / rows.backward_flop).median()
    text += f"; everything but products adds {percent(other)} to its FLOP in the median."
    return f"{text} {missing(paper)}"


def missing(paper: Paper) -> str:
    """In how many models the products that a ratio of two lacks are those of the first layer's input."""
    rows = available.trained(paper).set_index("model")
    try:
        layers = available.layers(paper, int(rows.batch.iloc[0]))
    except available.DataMissingError as gap:
        return str(gap)
    working = (
        layers[layers.forward_flop > 0].sort_values("position").drop_duplicates("model").set_index("model")
    )
    lacking = (2 * rows.forward_flop - rows.backward_flop).reindex(working.index)
    alike = int((lacking == working.forward_flop).sum())
    return (
        f"In {alike or 'none'} of {number(len(working), 'model')} what it lacks to two is, to the last FLOP, the work "
        "of the first layer, whose input needs no gradient."
    )


@finding
def recomputation(paper: Paper) -> str:
    """Which models compute parts of the forward pass again in the backward pass."""
    rows = available.trained(paper)
    again = rows[rows.recompute_flop > 0]
    if again.empty:
        return "No model computes a part of the forward pass again."
    share = again.assign(share=again.recompute_flop / again.forward_flop)
    most = highest(share, "share")
    verb = "computes" if len(again) == 1 else "compute"
    return (
        f"In the backward pass {number(len(again), 'model')} {verb} parts of the forward pass again (fused attention "
        f"its scores, a checkpoint what it did not keep), at most {percent(most.share)} of the forward FLOP "
        f"({most.model}); they are in no ratio here."
    )


@finding
def memory(paper: Paper) -> str:
    """What fills the memory of a training step, and how that compares with inference."""
    rows = available.trained(paper)
    saved = rows.assign(share=rows.saved_byte / rows.training_peak_byte)
    rows = rows.assign(growth=rows.training_peak_byte / rows.inference_peak_byte)
    kept = sum(rows[column] for column in MEMORY_PARTS.values()) / rows.training_peak_byte
    most, widest, least = (
        highest(rows, "training_peak_byte"),
        highest(rows, "growth"),
        lowest(saved, "share"),
    )
    return (
        f"At batch size {rows.batch.iloc[0]} a training step's peak is {significant(rows.growth.median())} times that "
        f"of inference in the median, at most {significant(widest.growth)} times ({widest.model}); the highest is "
        f"{si(most.training_peak_byte, 'B')} ({most.model}). Activations saved for the backward pass are "
        f"{percent(saved.share.median())} of the peak in the median, least in {least.model} ({percent(least.share)}). "
        f"The sum of parameters, gradients, momentum and saved activations is between {percent(kept.min(), 3)} and "
        f"{percent(kept.max(), 3)} of the peak."
    )


@finding
def optimisers(paper: Paper) -> str:
    """What the optimisers' state adds, against the parameters."""
    rows = available.trained(paper)
    momentum = (rows.momentum_byte / rows.parameter_byte).median()
    adam = (rows.adam_byte / rows.parameter_byte).median()
    return (
        f"The state of SGD with momentum is {significant(momentum)} times the parameters in the median, that of Adam "
        f"{significant(adam)} times."
    )
