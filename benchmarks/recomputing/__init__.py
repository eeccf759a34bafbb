"""The parts of ``benchmarks/recompute.py``, which share no code with the paper that they check."""
