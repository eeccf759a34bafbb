"""Tables of the chapter on utilisation: the gains of each setting, and the measured roofs."""

from measure.domain.words import EAGER, PEAK_KERNELS
from report import display
from report.chapters.utilisation.figures import command
from report.chapters.utilisation.gap import KEPT, base_cells, batch_sizes, devices, gains_of, shown_batches
from report.markdown import escape
from report.markdown_table import NONE, markdown_table
from report.paper import BASE_PRECISION, Paper
from report.paper.frames import each
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
    """List what networks achieve on the processor and the GPU, by precision and batch size."""
    rows = []
    for machine in filter(None, devices(paper)):
        for precision in dict.fromkeys((BASE_PRECISION, machine.lower_precision)):
            cells, roof = base_cells(machine, EAGER, precision), machine.roof(precision)
            for batch in shown_batches(machine) if roof else []:
                found = cells[(cells.batch == batch) & cells.operator_bound_s.notna()]
                shares = found.operator_bound_s / found.latency_s
                if len(found) and roof:
                    median = median_of(shares, "%")
                    rows.append([
                        escape(machine.name), precision, batch, len(found),
                        exact(found.flop_per_s.median(), "FLOP/s"),
                        exact(found.flop_per_s.median() / roof.peak_flop_per_s, "%"),
                        NONE if median.is_missing else median.interval, exact(shares.min(), "%"),
                        exact(shares.max(), "%"),
                    ])  # fmt: skip
    header = "Device | Precision | Batch > | Networks > | Performance > | Of peak > | Of bound > | Least > | Most >"
    return markdown_table(header, display.required(rows, command("inference roofs workload")))


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
    header = " | ".join(["Remedy", "Setting", *(f"Batch {batch} >" for batch in batches)])
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
