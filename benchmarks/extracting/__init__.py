"""An extract of published kernel timings in the columns of ``data/published``: words, choice of rows, tables."""
