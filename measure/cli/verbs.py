"""The commands beside measuring."""

VERBS = {
    "model": "model NAME   counts, roof, latency, costliest layers of one model, and what to try first",
    "show": "show         the cells in the cache, with their latencies and intervals",
    "compare": "compare A B  what changed between two caches or environments, cell by cell",
    "import-ncu": "import-ncu FILE  put into the cache what Nsight Compute counted elsewhere",
    "pack": "pack FILE.zip  put what a machine measured into a zip, for somebody who adds it",
    "add-machine": "add-machine FOLDER|ZIP  check what another person's machine measured, and add it to the cache",
    "add-published": "add-published FILE  check a table of what others measured of GPUs, and add it to the cache",
    "fit": "fit          fit how latencies are predicted to all that was timed, and check it",
    "predict": "predict MODEL  the least and the likely time of a model on chips that were not measured",
    "count-published": "count-published  count the models that others timed, at the sizes they were timed at",
    "forget": "forget MODEL  remove from the cache what was measured and counted of a model",
    "doctor": "doctor       what would spoil a measurement on this machine, and what to do about it",
}
"""What each does."""


def module_of(verb: str) -> str:
    """Return the module whose ``main`` takes a verb's arguments; ``measure.model`` is a function, and none."""
    return "measure.one_model" if verb == "model" else f"measure.{verb.replace('-', '_')}"
