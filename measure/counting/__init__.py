"""Counts a network operator by operator: FLOP by formulas, bytes, live memory, layers."""
