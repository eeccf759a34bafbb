"""The sections of a run, one class in one module each; ``measure/run/plan.py`` finds them."""
