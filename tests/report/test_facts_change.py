"""Every fact of the paper changes with the data: none is typed, none is stuck."""

import csv
import zlib
from collections import Counter, defaultdict
from functools import cache

import pytest
from helpers.world import CPU, GPU, WORLD, change_rows, mutated, world

from measure.domain.schema import MACHINE, TABLES
from measure.domain.trace_records import TRACE
from measure.domain.workload_records import WORKLOAD
from report import facts
from report.paper import published
from report.paper.workloads import SUMMED
from report.stats.value import Name

pytestmark = pytest.mark.slow

ORDERS = (CPU, GPU), (GPU, CPU)
"""Of a processor and of a GPU at hand the chapters say different things."""

RULES = {
    "latency.equal.high", "latency.equal.low", "method.protocol.block", "method.protocol.confidence",
    "method.protocol.fewest", "method.protocol.heat", "method.protocol.most_rounds", "method.protocol.rounds",
    "method.protocol.target", "prediction.calculation.batch", "published.agreement",
    "published.likeness", "remedies.threshold", "training.problems.memory", "training.step.tolerance",
}  # fmt: skip
"""Limits of the program's own that the text names."""

COUNTED = {
    "tokens.puzzle.sparse_active", "tokens.puzzle.dense_active", "tokens.puzzle.sparse_byte",
    "tokens.puzzle.dense_byte", "tokens.puzzle.byte_ratio", "tokens.decode.byte", "tokens.bits.promised",
    "tokens.bits.four_promised", "tokens.kernels.beyond_byte", "tokens.experts.promised",
    "tokens.problems.longer_ratio",
}  # fmt: skip
"""Work and bytes that follow from the shapes of models and kernels alone."""

PAIRED = (
    "cause.memory.", "bound.own_first.", "bound.own_step.",
    "cause.host.base.", "cause.host.other.", "cause.host.launched.", "cause.host.compiled.",
    "cause.host.lowered.", "cause.interventions.", "energy.", "cause.graph.",
    "training.pair.", "training.idle.", "training.batches.", "training.embeddings.",
    "utilisation.gpu_lower.", "utilisation.gpu_gain.", "utilisation.kernels_lower.", "puzzle.gpu.", "tokens.here.",
    "several.", "prediction.served.", "cause.traces.images.batch", "cause.traces.images.torch_",
)  # fmt: skip
"""Of two GPUs, precisions, batches, compiled networks, graphs, joules, decode, ranks, servers: not in the world."""

UNMOVED = 119
"""So many counts and names the changes below leave alone: chosen by the chapters, or none; facts by hand hold them."""

IDENTITY = {
    "batch", "round", "sample", "position", "rank", "device", "step", "world_size", "year", "family", "models",
    "cpu_family", "cpu_model", "input_size", "size", "torch", "software", "version", "cuda", "capability",
    "input_shape", "seed", "m", "n", "k", "tokens", "cached_tokens", "heads", "kv_heads", "head_size", "value_size",
    "window", "hidden", "inner", "experts", "top_k", "matrices", "tensor_parallel", "pipeline_parallel",
    "data_parallel", "expert_tensor_parallel", "expert_parallel", "gpus", "concurrency", "input_tokens",
    "output_tokens", "message_byte",
}  # fmt: skip
"""Columns that say what a row is about."""


@cache
def tables():
    """Return the paths of each record's tables in the world, with their columns of numbers."""
    found = {}
    for record, about in TABLES.items():
        paths = sorted(WORLD.glob(about.path.replace(MACHINE, "machines/*").replace(TRACE, "traces/*")))
        rows = [row for path in paths for row in csv.DictReader(path.open(encoding="utf-8"))]
        if rows:
            names = [name for name in rows[0].keys() - IDENTITY if any(is_number(row[name]) for row in rows)]
            found[record] = [str(path.relative_to(WORLD)) for path in paths], sorted(names)
    return found


def is_number(text):
    return text.replace(".", "", 1).replace("e+", "e", 1).replace("e-", "e", 1).replace("e", "", 1).isdigit()


def grown(path, record, names, factor):
    """Return a change that multiplies the numbers in some columns by ``factor(words)``, where words tell them apart.

    The ends of an interval grow with its content, a sparse peak more than the dense one.
    """

    def change(row):
        for name in filter(lambda name: is_number(row[name]), names):
            stem = "_".join(part for part in name.split("_") if part not in ("low", "high", "min", "max", "sparse"))
            number = float(row[name]) * (1.5 if name.startswith("sparse") else 1)
            number *= factor((path, stem), {each: row[each] for each in TABLES[record].key})
            row = row | {name: str(max(round(number), int(row[name] != "0"))) if row[name].isdigit() else repr(number)}
        return row

    return change


def random(*words):
    """Return a number from 0 to 1 that these words determine."""
    return zlib.crc32(":".join(words).encode()) % 1999 / 1999


def by_row(column, key):
    """Return 1 to 9. The cell decides a part of it, whatever the round and sample."""
    cell = [word for name, word in key.items() if name not in ("round", "sample")]
    return (1 + 2 * random(*column, *key.values())) * (1 + 2 * random(*column, *cell))


def slightly(column, key):
    return 1 + random(*column, *key.values()) / 50


def by_column(column, key):
    return 20 ** (2 * random(*column) - 1)


GONE = {
    "tokens", "timm:oak3", "timm:oak7", "timm:resnet50", "vgg11", "Abacus 1", "NVIDIA D4 (SXM)", "fvcore", "LSTM",
    "A",
}  # fmt: skip
UNTOLD = {"mobilenet_v2", "resnet18", "Cog 3"}
NAMES = {
    "Bead 2": "Bead 5", "NVIDIA B2": "NVIDIA B5", "NVIDIA T4": "NVIDIA T5", "Example": "Sample", "2.14.1": "2.15.1",
    "3.12.1": "3.13.1", "KVM": "Xen", "H100": "H101", "Abacus": "Counter",
}  # fmt: skip


def fewer(row):
    return None if GONE & set(row.values()) else row


def others(row):
    """Return a row with other names and three times the batch; None for the networks of the story."""
    for old, new in NAMES.items():
        row = {name: text.replace(old, new) for name, text in row.items()}
    row |= {"batch": str(3 * int(row["batch"]))} if row.get("batch", "").isdigit() else {}
    return None if UNTOLD & set(row.values()) else row


def sum_layers(data):
    """Make the networks of a changed world the sums of their layers again."""
    sums = defaultdict(Counter)
    for row in csv.DictReader((data / "workload/layers.csv").open(encoding="utf-8")):
        sums[tuple(row[name] for name in WORKLOAD)].update({name: int(row[name]) for name in SUMMED if row[name]})
    change_rows(
        data / "workload/models.csv",
        lambda row: row | {name: str(number) for name, number in sums[tuple(row[name] for name in WORKLOAD)].items()},
    )
    return data


def known(data=WORLD, orders=ORDERS):
    """Return all facts with either machine at hand, by machine and key."""
    return {
        (chosen[0], key): value
        for chosen in orders
        for name in facts.CHAPTERS
        for key, value, _ in facts.entries(name, facts.of_chapter(name, world(data, chosen)))
    }


def told(value):
    return value.text if isinstance(value, Name) else value.number


@pytest.fixture(scope="module", autouse=True)
def small_libraries():
    """Twenty networks are a library here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "LIBRARY", published.FEWEST)
        yield


@pytest.fixture(scope="module")
def before():
    return known()


def changed(before, after):
    """Return the keys of the facts that have another value, not none."""
    return {key for (at, key), value in after.items() if told(value) not in (None, told(before[at, key]))}


def test_every_fact_changes_with_the_data(before, tmp_path):
    paths = [(path, record, names) for record, (own, names) in tables().items() for path in own]
    found = set()
    for factor, orders in ((by_row, ORDERS), (slightly, ORDERS[:1]), (by_column, ORDERS[1:])):
        changes = {path: grown(path, record, names, factor) for path, record, names in paths}
        found |= changed(before, known(sum_layers(mutated(tmp_path / factor.__name__, changes)), orders))
    measured = {key for (_, key), value in before.items() if isinstance(told(value), float)}
    assert measured - found - RULES - COUNTED == set()
    found |= changed(before, known(mutated(tmp_path / "fewer", {path: fewer for path, *_ in paths}), [(CPU,), (GPU,)]))
    found |= changed(before, known(mutated(tmp_path / "others", {path: others for path, *_ in paths})))
    unmoved = {key for _, key in before if not key.startswith(PAIRED)} - found - RULES - COUNTED
    assert len(unmoved) <= UNMOVED, sorted(unmoved)
