"""The models that can be measured and the tasks that are left, for ``--list`` and ``--plan``: as lines, or as JSON.

``docs/json.md`` says what stands in the JSON; a key that does not apply is null.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from measure.cache.models import Model
from measure.cache.records import Environment
from measure.cache.words import shape_name
from measure.cache.workload_records import Workload
from measure.cli.quantities import duration, si
from measure.run.plan import Part
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
    lines = [f"{'model':{width}}{'source':13}{'family':14}{'input':12}{'parameters':>12}{'FLOP':>12}"]
    for row in rows:
        parameters, flop = row["parameter_count"], row["forward_flop"]
        numbers = "" if None in (parameters, flop) else f"{si(parameters, ''):>12}{si(flop, 'FLOP'):>12}"
        named = f"{row['model']:{width}}{row['source']:13}{row['family']:14}{row['input_shape']:12}"
        lines.append(f"{named}{numbers}".rstrip())
    return lines


def plan_as_json(tasks: Iterable[Task], environment: Environment, folder: str) -> dict[str, Any]:
    """Return what ``--plan --json`` prints: the machine, and its tasks in their order."""
    machine = {name: getattr(environment, name) for name in ("name", "device", "environment_id")} | {"folder": folder}
    return {"machine": machine, "tasks": [task.as_json() for task in tasks]}


def parts_as_lines(parts: Sequence[Part], ends_s: Sequence[float], budget_s: float) -> list[str]:
    """Return the tasks of a run with a budget, part by part, with what is expected to be reached within it.

    ``ends_s`` are the times at which the tasks are expected to end.
    """
    lines: list[str] = []
    began_s, ends = 0.0, iter(ends_s)
    for part in parts:
        done_s = list(islice(ends, len(part.tasks)))
        reached = sum(end_s <= budget_s for end_s in done_s)
        how_many = "all" if reached == len(part.tasks) else reached or "none"
        took = duration(done_s[-1] - began_s)
        lines.append(f"{part.title}, about {took}; {how_many} of {len(part.tasks)} within {duration(budget_s)}:")
        lines += [f"  {task.label}" for task in part.tasks]
        began_s = done_s[-1]
    return lines
