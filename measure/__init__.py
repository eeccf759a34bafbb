"""Measure deep networks on this machine and keep the results as CSV.

Importing this package alone imports neither torch nor pandas.
"""
