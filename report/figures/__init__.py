"""The figures, a module a subject: functions from the paper's frames to a chart, or to the sentence in its place."""

from report import import_modules

__all__ = import_modules(__name__)
