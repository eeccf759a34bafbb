"""The figures, a module a subject: functions from the paper's frames to a chart, or to the sentence in its place."""

from report.figures import (
    benchmarks,
    bounds,
    chips,
    correlations,
    counters,
    efficiency,
    generations,
    kernels,
    layers,
    memory,
    precisions,
    predictors,
    roofs,
    utilisation,
    waterfall,
    workload,
)

__all__ = [
    "benchmarks",
    "bounds",
    "chips",
    "counters",
    "correlations",
    "efficiency",
    "generations",
    "kernels",
    "layers",
    "memory",
    "precisions",
    "predictors",
    "roofs",
    "utilisation",
    "waterfall",
    "workload",
]
