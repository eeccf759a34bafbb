"""Tables of the chapter on utilisation: what networks achieve, the gains of each setting, and the measured roofs."""

from typing import Any

from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from measure.domain.words import EAGER, PEAK_KERNELS
from report import display
from report.chapters.utilisation.figures import command
from report.chapters.utilisation.gap import KEPT, base_cells, batch_sizes, devices, gains_of, short_name, shown_batches
from report.markdown import escape
from report.markdown_table import NONE, markdown_table
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import each, spread
from report.paper.roofs import STREAMS
from report.stats.value import estimated, exact, median_of

SETTINGS = {
    KEPT: "`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1`",
    "jemalloc": "`LD_PRELOAD=libjemalloc.so.2`",
    "tcmalloc": "`LD_PRELOAD=libtcmalloc_minimal.so.4`",
    "channels_last": "`model.to(memory_format=torch.channels_last)`",
    "compile": "`torch.compile(model)`",
    "cuda_graph": "`torch.cuda.CUDAGraph`",
    "cudnn_benchmark": "`torch.backends.cudnn.benchmark = True`",
    "autocast": "`torch.autocast(device)`",
}
"""The user's setting for each variant. A precision is a cast of the network."""
CASTS = {BASE_PRECISION: "", "bf16": "`model.bfloat16()`", "fp16": "`model.half()`"}


@display.table
def achieved(paper: Paper) -> str:
    """List medians over networks on the processor and the GPU by batch size, at the base and the lower precision."""
    found = _roofs(paper)
    rows = []
    for machine in dict.fromkeys(machine for machine, *_ in found):
        ran = [_medians(machine, precision, roof) for each, precision, roof in found if each is machine]
        for batch in shown_batches(machine):
            medians = [of.get(batch, []) for of in ran] + [[]] * (2 - len(ran))
            networks = " and ".join(dict.fromkeys(str(each[0]) for each in medians if each))
            if networks:
                values = [value for each in medians for value in each[1:] or [NONE] * 3]
                rows.append([escape(short_name(machine)), batch, networks, *values])
    lower = " or ".join(dict.fromkeys(each for _, each, _ in found if each != BASE_PRECISION)) or "a lower precision"
    columns = (f"At {each} > | Of its peak > | Of its bound >" for each in (BASE_PRECISION, lower))
    header = " | ".join(["Device | Batch > | Networks >", *columns])
    return markdown_table(header, display.required(rows, command("inference roofs workload")))


def _medians(machine: Machine, precision: str, roof: Roofline) -> dict[int, list[Any]]:
    """Return by batch size the number of networks, and the medians of their performance and its shares."""
    cells = base_cells(machine, EAGER, precision).dropna(subset="operator_bound_s")
    found: dict[Any, list[Any]] = {}
    for batch, rows in cells.groupby("batch"):
        shares, rates = rows.operator_bound_s / rows.latency_s, rows.flop_per_s / roof.peak_flop_per_s
        bound = median_of(shares, "%")
        found[batch] = [
            len(rows), exact(rows.flop_per_s.median(), "FLOP/s"),
            NONE if rates.max() > 1 else exact(rates.median(), "%"),
            NONE if bound.is_missing or shares.max() > 1 else bound.interval,
        ]  # fmt: skip
    return found


@display.table
def networks(paper: Paper) -> str:
    """List what each network achieves, as ``achieved`` does: a row for a network on a device at a precision."""
    found = _roofs(paper)
    batches = sorted({batch for machine, *_ in found for batch in shown_batches(machine)})
    rows: list[list[str]] = []
    for machine, precision, roof in found:
        cells = base_cells(machine, EAGER, precision).dropna(subset="operator_bound_s")
        names = cells.model.map(model_name)
        listed = spread(
            names.drop_duplicates().sort_values(key=lambda name: name.str.lower()).to_frame(), display.LISTED
        )
        for network in listed.model:
            at = {
                cell.batch: "{} ({}, {})".format(
                    exact(cell.flop_per_s, "FLOP/s"),
                    exact(cell.flop_per_s / roof.peak_flop_per_s, "%"),
                    exact(cell.operator_bound_s / cell.latency_s, "%"),
                )
                for cell in each(cells[names == network])
            }
            rows.append(
                [escape(network), escape(short_name(machine)), precision, *(at.get(batch, NONE) for batch in batches)]
            )
    header = " | ".join(["Network", "Device", "Precision", *(f"Batch {batch} >" for batch in batches)])
    return markdown_table(header, display.required(rows, command("inference roofs workload")))


def _roofs(paper: Paper) -> list[tuple[Machine, str, Roofline]]:
    """Return the processor and the GPU, at each precision at which their roof was measured."""
    return [
        (machine, precision, roof)
        for machine in filter(None, devices(paper))
        for precision in dict.fromkeys((BASE_PRECISION, machine.lower_precision))
        if (roof := machine.roof(precision))
    ]


@display.table
def gains(paper: Paper) -> str:
    machine = display.required(paper.at_hand, command("inference"))
    batches = sorted({batch for batch in batch_sizes(machine) if batch})
    lower = machine.lower_precision
    tried = [(EAGER, lower), *((variant, BASE_PRECISION) for variant in machine.variants.variant.unique())]
    tried += [(variant, lower) for variant in machine.variants.variant.unique()]
    rows = []
    for variant, precision in tried:
        parts = [] if variant == EAGER else variant.split("+")
        words = [*(part.replace(KEPT, "memory kept") for part in parts), precision if CASTS[precision] else ""]
        settings = [*(SETTINGS.get(part, "") for part in parts), CASTS[precision]]
        values = [median_of(gains_of(machine, variant, precision, batch)) for batch in batches]
        if not all(value.is_missing for value in values):
            cells = [NONE if value.is_missing else value.interval for value in values]
            rows.append([" and ".join(filter(None, words)), ", ".join(filter(None, settings)), *cells])
    sizes = (f"Batch {batch} >" for batch in batches)
    header = " | ".join([f"Remedy on the {escape(machine.name)}", "Setting", *sizes])
    untried = "eager kept_memory" if machine.chip_kind == "cpu" else "eager compile channels_last cuda_graph"
    return markdown_table(header, display.required(rows[1:] and rows, command(f"inference --variants {untried}")))


@display.table
def roofs(paper: Paper) -> str:
    machine = display.required(paper.at_hand, command("roofs"))
    rows = [
        [
            roof.precision, PEAK_KERNELS[roof.peak_kernel] + escape(roof.peak_note),
            estimated(roof, "peak_flop_per_s", "FLOP/s").interval,
        ]
        for roof in each(display.required(machine.roofs, command("roofs")))
    ]  # fmt: skip
    rows += [[level.name, level.fastest, exact(level.bandwidth_byte_per_s, "B/s")] for level in machine.levels[:-1]]
    roof = machine.roofs.iloc[0]
    bandwidth = estimated(roof, "bandwidth_byte_per_s", "B/s")
    rows.append(["memory", STREAMS[roof.bandwidth_kernel] + escape(roof.bandwidth_note), bandwidth.interval])
    return markdown_table("Roof | Kernel | Rate >", rows)
