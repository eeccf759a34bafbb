"""The answer about one model: demands, cells under the roof, layers and advice, and its text."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from measure.domain import cautions
from measure.domain.advice import Advice, advise
from measure.domain.cell import Cell
from measure.domain.latency import TimedCell
from measure.domain.model_work import CellWork, LayerWork, Reached, beyond_weights, cell_work, layer_work, reached
from measure.domain.records import Environment, OperatorTime, Profile
from measure.domain.roofs import Roof, throttle_note
from measure.domain.values import latency, percent, plain, si
from measure.domain.workload_records import Layer, Workload
from measure.errors import as_called
from measure.verbs.terminal import Line, Table, aligned, text

NUMBERS = (  # the columns that are aligned to the right
    "batch", "FLOP", "bytes", "FLOP/B", "memory", "latency", "±", "inputs/s", "energy/input", "reached", "attainable",
    "share", "calls", "parameters", "time", "FLOP before", "FLOP now", "latency before", "latency now", "ratio",
)  # fmt: skip


class Lines(str):
    """A text that a notebook prints as it is, not in quotes."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclass(frozen=True)
class ModelAnswer:
    """The demands and results of a model at some batch sizes and precisions; the keys of ``model --json``.

    ``layers`` and ``advice`` belong to the first cell. Layers have times if it was profiled.
    """

    model: str
    input_shape: str
    environment: Environment
    rates: Roof
    demands: list[CellWork]
    cells: list[Reached]
    layers: list[LayerWork]
    advice: Advice | None

    def __str__(self) -> str:
        return "\n".join([*heading(self, aligned), "", *result_lines(self, aligned)])

    __repr__ = __str__

    def as_json(self) -> dict[str, Any]:
        """Return the keys of ``docs/json.md``: a roof has the name of its stream, and not the rows behind it."""
        stream = None if self.rates.stream is None else self.rates.stream.roof_kernel
        rates = {"flop_per_s": self.rates.flop_per_s, "byte_per_s": self.rates.byte_per_s, "stream": stream}
        return asdict(self) | {"rates": rates | {"load": self.rates.load}}

    @property
    def layer_table(self) -> Lines:
        """The layers in running order."""
        return Lines("\n".join(layer_lines(self.layers, aligned)))


def make_answer(
    first: Cell,
    input_shape: str,
    environment: Environment,
    roof: Roof,
    precisions: Sequence[str],
    counts: Iterable[Workload],
    layers: Iterable[Layer],
    cells: Sequence[TimedCell],
    profile: Profile | None = None,
    operators: Iterable[OperatorTime] = (),
) -> ModelAnswer:
    """Compare a model's counts and cells with a roof. Layers, profile and operators belong to the first cell."""
    of_cells, of_layers = cell_work(counts, roof, precisions), layer_work(layers, first.precision, roof, operators)
    base = next((cell for cell in cells if Cell.of(cell) == first and cell.latency_s is not None), None)
    advice = None if base is None else advise(base, cells, profile, of_layers, environment)
    return ModelAnswer(
        first.model, input_shape, environment, roof, of_cells, reached(cells, of_cells), of_layers, advice
    )


def _rate(flop_per_s: float) -> str:
    return si(flop_per_s, "FLOP/s")


def heading(found: ModelAnswer, table: Table) -> list[str]:
    rows: list[Line] = [("batch", "precision", "FLOP", "bytes", "FLOP/B", "memory")]
    for each in found.demands:
        amounts = si(each.flop, "FLOP"), si(each.byte, "B"), plain(each.intensity_flop_per_byte)
        rows.append((str(each.batch), each.precision, *amounts, si(each.peak_byte, "B")))
    title = f"{found.model} on {found.environment.label}, inputs of {found.input_shape}"
    notes = []
    if uncounted := dict.fromkeys(name for each in found.demands for name in each.uncounted):
        notes.append(f"The FLOP leave out operators without a formula: {', '.join(uncounted)}.")
    if any(each.path for each in found.demands):
        notes.append("The values decide which operators run: the counts are one run's path.")
    return [title, "", *table(rows, NUMBERS), *notes, *_cache_lines(found)]


def _cache_lines(found: ModelAnswer) -> list[str]:
    """Name the source of most FLOP of one more token, unless it is the weights."""
    flop = sum(each.flop for each in found.layers)
    beyond = beyond_weights(found.layers, found.demands[0].batch) if found.input_shape == "1" else 0
    if 2 * beyond <= flop:
        return []
    by_name: dict[str, int] = defaultdict(int)
    for each in found.layers:
        by_name[each.path.rpartition(".")[2]] += beyond_weights([each], found.demands[0].batch)
    name, most = max(by_name.items(), key=lambda pair: pair[1])
    return [
        f"Only {percent(1 - beyond / flop)} of the FLOP come from the weights, at 2 for each weight and token. "
        f"The rest is attention to the cache, or projects the cache anew: {percent(most / flop)} in {name}."
    ]


def result_lines(found: ModelAnswer, table: Table, *, with_layers: bool = False, data_flag: str = "") -> list[str]:
    """Return the timed cells under their roof, the costliest layers (or all), the advice and the warnings."""
    by_cell = {(each.batch, each.precision): each for each in found.demands}
    has_energy = any(cell.timed.joule_per_input is not None for cell in found.cells)
    energy = ["energy/input"] if has_energy else []
    head = "batch", "precision", "latency", "±", "inputs/s", *energy, "reached", "attainable", "share", "bound by"
    rows: list[Line] = [head]
    failed: list[str] = []
    flagged: dict[str, list[str]] = defaultdict(list)
    for cell in found.cells:
        timed, demand = cell.timed, by_cell[cell.timed.batch, cell.timed.precision]
        for flag in timed.flags:
            flagged[flag].append(f"{timed.batch} at {timed.precision}")
        if timed.latency_s is None:
            failed.append(f"Batch size {timed.batch} at {timed.precision}: {timed.status}, {timed.reason}")
            continue
        low_s, high_s = timed.latency_low_s, timed.latency_high_s
        width = None if low_s is None or high_s is None else (high_s - low_s) / 2 / timed.latency_s
        times = latency(timed.latency_s), text(width, percent), text(timed.inputs_per_s, plain)
        rates = text(cell.flop_per_s, _rate), text(demand.attainable_flop_per_s, _rate), text(cell.roof_share, percent)
        spent = [text(timed.joule_per_input, partial(si, unit="J"))] if has_energy else []
        rows.append((str(timed.batch), timed.precision, *times, *spent, *rates, demand.bound or ""))
    lines = [*(table(rows, NUMBERS) if len(rows) > 1 else []), *failed, "", roof_line(found)]
    batch, advice = found.demands[0].batch, found.advice
    costliest = sorted((each for each in found.layers if each.time_s), key=lambda each: -(each.time_s or 0.0))
    if costliest:
        named = [f"{each.path} ({each.layer_kind}) {text(each.time_share, percent)}" for each in costliest[:3]]
        lines.append(f"Costliest layers at batch size {batch}: {', '.join(named)} of the operators' time.")
    if advice and advice.gain is not None:
        gain = f"{advice.gain:.3g} times as fast as batch size {batch}"
        lines.append(f"Try first: {advice.remedy}, measured to be {gain}.")
    elif advice:
        lines.append(f"Try first: {advice.remedy}. That is a hypothesis: {advice.why}. To test it:")
        lines.append(f"  {as_called('measure')} {advice.flags}{data_flag}")
    lines += [cautions.loaded_roof(found.rates.load)] * (found.rates.load > 0)
    lines += [cautions.FLAGS[flag].line(f"batch size {', '.join(cells)} ({flag})") for flag, cells in flagged.items()]
    return [*lines, "", *layer_lines(found.layers, table)] if with_layers else lines


def layer_lines(layers: Iterable[LayerWork], table: Table) -> list[str]:
    """Return a table of the layers in running order, with times if the cell was profiled."""
    rows: list[Line] = [("layer", "type", "calls", "parameters", "FLOP", "bytes", "bound by", "time", "share")]
    for each in layers:
        amounts = si(each.parameter_count, ""), si(each.flop, "FLOP"), si(each.byte, "B"), each.bound or ""
        times = text(each.time_s, latency), text(each.time_share, percent)
        rows.append((each.path, each.type, str(each.calls), *amounts, *times))
    return table(rows, NUMBERS)


def roof_line(found: ModelAnswer) -> str:
    roof = found.rates
    precisions = [each for each in dict.fromkeys(each.precision for each in found.demands) if each in roof.flop_per_s]
    if not precisions or roof.byte_per_s is None:
        return "The roof was not measured."
    notes = {precision: throttle_note(row) for precision, row in roof.arithmetic.items()}
    peaks = " and ".join(f"{_rate(roof.flop_per_s[each])} at {each}{notes.get(each, '')}" for each in precisions)
    memory = si(roof.byte_per_s, "B/s") + (throttle_note(roof.stream) if roof.stream else "")
    return f"The roof: {peaks}, and {memory} from memory, as measured here."
