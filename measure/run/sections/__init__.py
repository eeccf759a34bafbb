"""The sections of a run, a class each; ``measure/run/plan.py`` finds their modules."""
