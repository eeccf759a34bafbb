"""The computed prose, a module a subject.

A function marked ``finding`` gives the sentences that a chapter prints inline; what it is made of gives one sentence
each. Where the cache cannot support a sentence, the finding says what is missing and which command fills it.
"""

from report.findings import (
    abstract,
    backward,
    benchmarks,
    bounds,
    chips,
    claims,
    comparisons,
    counters,
    exceptions,
    generations,
    kernels,
    layer_costs,
    layers,
    machines,
    precisions,
    predictors,
    published,
    roofs,
    speed_ups,
    steps,
    training_memory,
    utilisation,
    waterfall,
    workload,
)

__all__ = [
    "abstract",
    "backward",
    "benchmarks",
    "bounds",
    "chips",
    "claims",
    "comparisons",
    "counters",
    "exceptions",
    "generations",
    "kernels",
    "layer_costs",
    "layers",
    "machines",
    "precisions",
    "predictors",
    "published",
    "roofs",
    "speed_ups",
    "steps",
    "training_memory",
    "utilisation",
    "waterfall",
    "workload",
]
