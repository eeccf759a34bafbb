"""The figures, a module a subject: functions from the paper's frames to a chart, or to the sentence in its place."""

from report.figures import benchmarks, chips, efficiency, generations, precisions, utilisation, workload

__all__ = ["benchmarks", "chips", "efficiency", "generations", "precisions", "utilisation", "workload"]
