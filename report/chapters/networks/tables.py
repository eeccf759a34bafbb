"""Tables of the networks: their demands, and their side of the ridge points."""

from typing import Any

from measure.domain.values import significant
from measure.domain.workload_records import ONE_RUN
from report import display
from report.chapters.networks import facts
from report.markdown import escape, si
from report.markdown_table import NONE, cited, markdown_table
from report.paper import Paper
from report.paper.frames import each, spread

CHOSEN = (
    "shufflenet_v2_x1_0", "mobilenet_v2", "resnet18", "alexnet", "densenet121", "resnet50", "vit_b_16", "wav2vec2_base",
    "gpt2_decode_512", "bert_base_encode_128", "efficientnet_b0", "vgg16", "swin_t", "googlenet", "squeezenet1_0",
)  # fmt: skip
"""The networks of the short table, one of each family first; uncounted ones give way to others."""
MOST = 10

SOURCES = {
    "alexnet": "krizhevsky2014", "vgg": "simonyan2015", "resnet": "he2016", "wide_resnet": "zagoruyko2016",
    "densenet": "huang2017", "regnet": "radosavovic2020", "convnext": "liu2022convnext", "googlenet": "szegedy2015",
    "inception_v3": "szegedy2016", "squeezenet": "iandola2016", "shufflenet": "ma2018", "mobilenet_v2": "sandler2018",
    "mobilenet_v3": "howard2019", "mnasnet": "tan2019mnasnet", "efficientnet": "tan2019efficientnet",
    "vit": "dosovitskiy2021", "swin": "liu2021swin", "fcn": "long2015", "wav2vec2": "baevski2020",
    "gpt2": "radford2019", "bert": "devlin2019", "llama": "grattafiori2024",
}  # fmt: skip
"""Keys of the bibliography by the beginning of a model's name."""


def chosen_models(paper: Paper) -> list[str]:
    """Return at most ``MOST`` models, fewest FLOP first."""
    models = facts.at_batch(paper).model.tolist()
    first = sorted(models, key=lambda model: CHOSEN.index(model) if model in CHOSEN else len(CHOSEN))[:MOST]
    return [model for model in models if model in first]


def _demands(row: Any, beyond: frozenset[str] = frozenset()) -> list[str]:
    flop = si(row.forward_flop, "FLOP") + (f" ({ONE_RUN})" if row.path == ONE_RUN else "")
    flop += " ‡" if row.model in beyond else ""
    return [si(row.parameter_count, ""), flop, si(row.activation_byte, "B"), si(row.inference_peak_byte, "B")]


def _intensities(row: Any) -> list[str]:
    return [significant(row.compulsory_intensity), significant(row.traffic_intensity)]


DEMANDS = "Parameters > | FLOP > | Activations > | Memory >"
INTENSITIES = "FLOP/B, whole > | FLOP/B, layers >"


@display.table
def chosen(paper: Paper) -> str:
    rows = display.required(facts.at_batch(paper), facts.COUNTS.command)
    rows = rows[rows.model.isin(chosen_models(paper))]
    lines = [[escape(row.name), *_demands(row), *_intensities(row)] for row in each(rows)]
    return markdown_table(f"Network | {DEMANDS} | {INTENSITIES}", lines)


@display.table
def everything(paper: Paper) -> str:
    lines, beyond = [], facts.mostly_beyond_weights(paper)
    for row in each(spread(display.required(facts.at_batch(paper), facts.COUNTS.command), display.LISTED)):
        name = row.model.rpartition(":")[2]
        keys = [key for start, key in SOURCES.items() if name.startswith(start)]
        source = cited(keys[-1]) if keys else NONE
        shape = row.input_shape.replace("x", " × ")
        byte = si(row.compulsory_byte, "B"), si(row.traffic_byte, "B")
        about = escape(row.name), escape(row.family), shape
        lines.append([*about, *_demands(row, beyond), *byte, *_intensities(row), source])
    header = f"Network | Family | Input > | {DEMANDS} | Bytes, whole > | Bytes, layers > | {INTENSITIES} | Source"
    return markdown_table(header, lines)


@display.table
def sides(paper: Paper) -> str:
    lines, large = [], set()
    for kind in ("cpu", "gpu"):
        found = facts.on_roof(paper, kind)
        if not found.whole.is_missing:
            batch = facts.large_batch(paper, facts.counted_at(paper, str(found.precision)))
            large |= {batch} - {1}
            small = [f"{some} of {found.networks}" for some in (found.whole, found.layers)]
            most = [f"{some} of {found.networks_large}" for some in (found.whole_large, found.layers_large)]
            most = most if batch > 1 else [NONE, NONE]
            lines.append([f"{escape(str(found.name))}, {found.precision}", *small, *most])
    size = f"batch {max(large)}" if len(large) == 1 else "largest batch"
    header = f"Processor | Whole, batch 1 > | Layers, batch 1 > | Whole, {size} > | Layers, {size} >"
    return markdown_table(header, display.required(lines, facts.ROOFS.command))
