"""The tables, a module a subject: functions from the paper's frames to a pipe table, or to the sentence instead."""

from report import import_modules

__all__ = import_modules(__name__)
