"""Published figures beside ours, a module a table of ``data/published``: a verdict on each by rule, none by hand."""

from report import import_modules

__all__ = import_modules(__name__)
