"""The models that can be measured and the tasks that are left, for ``--list`` and ``--plan``: as lines, or as JSON.

``docs/json.md`` says what stands in the JSON; a key that does not apply is null.
"""

from collections.abc import Iterable
from typing import Any

from measure.cache.models import Model
from measure.cache.records import Environment
from measure.cache.words import shape_name
from measure.cache.workload_records import Workload
from measure.run.task import Task


def models_as_json(models: Iterable[Model], counted: Iterable[Workload]) -> dict[str, Any]:
    """Return what ``--list --json`` prints: the models, with what the workload table knows of one input."""
    known = {(row.model, row.input_shape): row for row in counted if row.batch == 1}
    rows = []
    for model in models:
        shape = shape_name(model.input_shape)
        row = known.get((model.name, shape))
        named = {"model": model.name, "source": model.source, "family": model.family, "input_shape": shape}
        counts = {name: getattr(row, name, None) for name in ("parameter_count", "forward_flop")}
        rows.append(named | counts)
    return {"models": rows}


def models_as_lines(models: Iterable[Model], counted: Iterable[Workload]) -> list[str]:
    """Return the same as a table."""
    rows = models_as_json(models, counted)["models"]
    width = max(18, *(len(row["model"]) for row in rows)) + 2
    lines = [f"{'model':{width}}{'source':13}{'family':14}{'input':12}{'parameters':>12}{'GFLOP':>8}"]
    for row in rows:
        parameters, flop = row["parameter_count"], row["forward_flop"]
        numbers = "" if None in (parameters, flop) else f"{parameters / 1e6:>10.2f} M{flop / 1e9:>8.2f}"
        named = f"{row['model']:{width}}{row['source']:13}{row['family']:14}{row['input_shape']:12}"
        lines.append(f"{named}{numbers}".rstrip())
    return lines


def plan_as_json(tasks: Iterable[Task], environment: Environment, folder: str) -> dict[str, Any]:
    """Return what ``--plan --json`` prints: the machine, and its tasks in their order."""
    machine = {name: getattr(environment, name) for name in ("name", "device", "environment_id")} | {"folder": folder}
    return {"machine": machine, "tasks": [task.as_json() for task in tasks]}
