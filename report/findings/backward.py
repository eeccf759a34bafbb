"""What a training step asks for beside inference."""

from report.analysis import available
from report.analysis.available import DataMissingError, finding
from report.load.paper import Paper
from report.load.steps import MEMORY_PARTS
from report.text.frame_rows import extremes, highest, lowest
from report.text.quantities import by_number, number, percent, si, significant


@finding
def ratios(paper: Paper) -> str:
    """Say the backward pass's FLOP over the forward pass's, and why the ratio is below two."""
    rows = available.trained(paper)
    rows = rows.assign(ratio=rows.backward_flop / rows.forward_flop)
    least, most = extremes(rows, "ratio")
    text = f"The backward pass takes {significant(rows.ratio.median(), 4)} times the FLOP of the forward pass in the "
    text += f"median of {number(len(rows), 'model')}"
    if most.ratio > least.ratio:
        text += f", from {significant(least.ratio, 4)} ({least.model}) to {significant(most.ratio, 4)} ({most.model})"
    other = (rows.backward_other_flop / rows.backward_flop).median()
    return f"{text}; everything but products adds {percent(other)} to its FLOP in the median. {_lacking_to_two(paper)}"


def _lacking_to_two(paper: Paper) -> str:
    """Say in how many models the products that a ratio of two lacks are those of the first layer's input."""
    rows = available.trained(paper).set_index("model")
    try:
        layers = available.layers(paper, int(rows.batch.iloc[0]))
    except DataMissingError as gap:
        return str(gap)
    working = layers[layers.forward_flop > 0].sort_values("position")
    first = working.drop_duplicates("model").set_index("model").forward_flop
    lacking = (2 * rows.forward_flop - rows.backward_flop).reindex(first.index)
    return (
        f"In {int((lacking == first).sum()) or 'none'} of {number(len(first), 'model')} what it lacks to two is, to "
        "the last FLOP, the work of the first layer, whose input needs no gradient."
    )


@finding
def recomputation(paper: Paper) -> str:
    """Say which models compute parts of the forward pass again in the backward pass."""
    rows = available.trained(paper)
    again = rows[rows.recompute_flop > 0]
    if again.empty:
        return "No model computes a part of the forward pass again."
    most = highest(again.assign(share=again.recompute_flop / again.forward_flop), "share")
    return (
        f"In the backward pass {number(len(again), 'model')} {by_number(len(again), 'computes', 'compute')} parts of "
        f"the forward pass again (fused attention its scores, a checkpoint what it did not keep), at most "
        f"{percent(most.share)} of the forward FLOP ({most.model}); they are in no ratio here."
    )


@finding
def memory(paper: Paper) -> str:
    """Say what fills the memory of a training step, and how that compares with inference."""
    rows = available.trained(paper)
    peak = rows.training_peak_byte
    rows = rows.assign(growth=peak / rows.inference_peak_byte, share=rows.saved_byte / peak)
    kept = sum(rows[column] for column in MEMORY_PARTS.values()) / peak
    most, widest, least = highest(rows, "training_peak_byte"), highest(rows, "growth"), lowest(rows, "share")
    return (
        f"At batch size {rows.batch.iloc[0]} a training step's peak is {significant(rows.growth.median())} times that "
        f"of inference in the median, at most {significant(widest.growth)} times ({widest.model}); the highest is "
        f"{si(most.training_peak_byte, 'B')} ({most.model}). Activations saved for the backward pass are "
        f"{percent(rows.share.median())} of the peak in the median, least in {least.model} ({percent(least.share)}). "
        f"The sum of parameters, gradients, momentum and saved activations is between {percent(kept.min(), 3)} and "
        f"{percent(kept.max(), 3)} of the peak."
    )


@finding
def optimisers(paper: Paper) -> str:
    """Say what the optimisers' state adds, against the parameters."""
    rows = available.trained(paper)
    momentum = significant((rows.momentum_byte / rows.parameter_byte).median())
    adam = significant((rows.adam_byte / rows.parameter_byte).median())
    return (
        f"The state of SGD with momentum is {momentum} times the parameters in the median, that of Adam {adam} times."
    )
