"""The output of ``--list`` and ``--plan``. ``docs/json.md`` documents the JSON; a key that does not apply is null."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from measure.cache.records import Environment
from measure.cache.workload_records import Workload
from measure.domain.models import Model
from measure.domain.values import duration, si
from measure.domain.words import shape_name
from measure.run.plan import Part
from measure.run.task import Task
from measure.verbs.terminal import aligned

TASK_KEYS: dict[str, Any] = {  # the keys of every task, with the value where a key does not apply
    "model": None, "batch_sizes": [], "phase": None, "precision": None, "variant": None, "round": None,
    "autocast": None, "roof_kernel": None, "size": None, "pace": None,
}  # fmt: skip


def models_as_rows(models: Iterable[Model], counted: Iterable[Workload]) -> list[dict[str, Any]]:
    """Return the models, with their counts for one input, as ``--list --json`` prints them."""
    counts = {(row.model, row.input_shape): row for row in counted if row.batch == 1}
    rows = []
    for model in models:
        named = {"model": model.name, "source": model.source, "family": model.family}
        named["input_shape"] = shape_name(model.input_shape)
        row = counts.get((model.name, named["input_shape"]))
        rows.append(named | {name: getattr(row, name, None) for name in ("parameter_count", "forward_flop")})
    return rows


def models_as_lines(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Align the rows of models under heads."""
    lines = [["model", "source", "family", "input", "parameters", "FLOP"]]
    for row in rows:
        *named, parameters, flop = row.values()
        counts = zip((parameters, flop), ("", "FLOP"), strict=True)
        lines.append([*named, *("" if count is None else si(count, unit) for count, unit in counts)])
    return aligned(lines, ("parameters", "FLOP"))


def plan_as_json(tasks: Iterable[Task], environment: Environment, folder: str) -> dict[str, Any]:
    """Return the machine, and its tasks in their order."""
    machine = {name: getattr(environment, name) for name in ("name", "device", "environment_id")} | {"folder": folder}
    rows = [{"section": task.section, "label": task.label, **TASK_KEYS, **task.columns} for task in tasks]
    return {"machine": machine, "tasks": rows}


def parts_as_lines(parts: Sequence[Part], ends_s: Sequence[float], budget_s: float) -> list[str]:
    """Return the tasks part by part, with how many end within the budget by their expected ends from the start."""
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
