"""Papers of many machines: the CPU of ``many``, again and again, each at its own pace."""

from dataclasses import replace

from helpers.papers import many
from report.paper import Paper


def fleet(*factors, peaks=(), others=()):
    """Return a paper of machines in folders student-k that take so many times the latencies of the CPU of ``many``.

    The peaks of their roofs are multiplied by ``peaks``, 1 where none is given. ``others`` stand behind them.
    """
    cpu = many().machine("cpu")
    times = ["latency_s", "latency_low_s", "latency_high_s"]
    machines = []
    for k, factor in enumerate(factors):
        peak = peaks[k] if k < len(peaks) else 1
        machines.append(
            replace(
                cpu,
                folder=f"student-{k + 1}",
                namesake=True,
                cells=cpu.cells.assign(**{name: cpu.cells[name] * factor for name in times}),
                roofs=cpu.roofs.assign(peak_flop_per_s=cpu.roofs.peak_flop_per_s * peak),
            )
        )
    paper: Paper = replace(many(), machines=(*machines, *others))
    return paper
