"""The tables of the chapter on energy."""

from measure.domain.names import model_name
from report import display
from report.chapters.energy import facts as energy
from report.markdown import escape, si
from report.markdown_table import known, markdown_table
from report.options import gpu_command
from report.paper import BASE_PRECISION, Paper
from report.stats.value import Value


@display.table
def prices(paper: Paper) -> str:
    """List what a FLOP, a byte between layers and a second cost on each GPU that reports its energy."""
    rows = []
    for machine in energy.machines_with_energy(paper):
        for precision in (BASE_PRECISION, machine.lower_precision):
            fit = energy.fit_of(machine, precision)
            if fit.cells.number:
                costs = [_price(value) for value in (fit.flop, fit.byte, fit.constant, fit.busy)]
                ends = (fit.low, fit.high), (fit.unseen_low, fit.unseen_high)
                ratios = [f"{low.number:.2f}–{high.number:.2f}" for low, high in ends]
                rows.append([escape(machine.name), precision, fit.cells, *costs, *ratios])
    prices = "FLOP > | Byte > | Constant power > | Without single inputs >"
    header = f"GPU | Precision | Cells > | {prices} | Measured ÷ fitted > | Unseen >"
    return markdown_table(header, display.required(rows, gpu_command()))


def _price(value: Value) -> str:
    """Print a price with its interval; of one that may be near zero, the upper end."""
    if value.high is not None and (value.is_missing or not value.low):
        return f"≤ {si(value.high, value.unit, 2)}"
    return value.interval


@display.table
def joules(paper: Paper) -> str:
    """List the joules of an image by network, precision and batch size, on the GPU with the most."""
    machine = display.required(next(iter(energy.machines_with_energy(paper)), None), gpu_command())
    rows = energy.images(machine)
    sizes = sorted(set(rows.batch))
    columns = [(precision, size) for precision in (BASE_PRECISION, machine.lower_precision) for size in sizes]
    found = rows.set_index(["model", "precision", "batch"]).input_j
    lines = [
        [escape(model_name(model)), *(known(found.get((model, *column)), si, "J", 2) for column in columns)]
        for model in sorted(set(rows.model), key=model_name)
    ]
    header = " | ".join([escape(machine.name), *(f"{precision}, {size} >" for precision, size in columns)])
    return markdown_table(header, display.required(lines))
