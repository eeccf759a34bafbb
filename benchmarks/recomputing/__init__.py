"""Facts of the paper, computed from the CSV by pandas and SciPy alone, with no code of the paper."""
