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
    "shufflenet_v2_x1_0", "mobilenet_v2", "resnet18", "efficientnet_b0", "alexnet", "densenet121", "resnet50", "vgg16",
    "vit_b_16", "wav2vec2_base", "gpt2_decode_512", "bert_base_encode_128", "swin_t", "googlenet", "squeezenet1_0",
)  # fmt: skip
"""The networks of the short table, one of each family first; uncounted ones give way to others."""
MOST = 12

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
    return [
        si(row.parameter_count, ""), flop, si(row.inference_peak_byte, "B"),
        si(row.compulsory_byte, "B"), si(row.traffic_byte, "B"), significant(row.compulsory_intensity),
        significant(row.traffic_intensity),
    ]  # fmt: skip


HEADER = "Parameters > | FLOP > | Memory > | Bytes, whole > | Bytes, layers > | FLOP/B, whole > | FLOP/B, layers >"


@display.table
def chosen(paper: Paper) -> str:
    rows = display.required(facts.at_batch(paper), facts.COUNTS.command)
    rows = rows[rows.model.isin(chosen_models(paper))]
    return markdown_table(f"Network | {HEADER}", [[escape(row.name), *_demands(row)] for row in each(rows)])


@display.table
def everything(paper: Paper) -> str:
    lines, beyond = [], facts.mostly_beyond_weights(paper)
    for row in each(spread(display.required(facts.at_batch(paper), facts.COUNTS.command), display.LISTED)):
        name = row.model.rpartition(":")[2]
        keys = [key for start, key in SOURCES.items() if name.startswith(start)]
        source = cited(keys[-1]) if keys else NONE
        shape = row.input_shape.replace("x", " × ")
        lines.append([escape(row.name), escape(row.family), shape, *_demands(row, beyond), source])
    return markdown_table(f"Network | Family | Input > | {HEADER} | Source", lines)


@display.table
def sides(paper: Paper) -> str:
    lines = []
    for kind in ("cpu", "gpu"):
        found = facts.on_roof(paper, kind)
        if not found.whole.is_missing:
            large = facts.large_batch(paper, facts.counted_at(paper, str(found.precision)))
            about = f"{escape(str(found.name))}, {found.precision}", found.ridge.interval
            lines.append([*about, 1, found.networks, found.whole, found.layers])
            if large > 1:
                lines.append(["", "", large, found.networks_large, found.whole_large, found.layers_large])
    header = "Processor | Ridge point > | Batch > | Networks > | Whole > | Layer by layer >"
    return markdown_table(header, display.required(lines, facts.ROOFS.command))
