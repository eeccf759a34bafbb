"""The figures, a module a chapter: functions from the paper's frames to a chart, or to the sentence in its place."""

from report.figures import benchmarks, chips, utilisation, workload

__all__ = ["benchmarks", "chips", "utilisation", "workload"]
