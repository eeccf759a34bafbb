"""The tasks that a request still needs, and their order."""

import logging
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from random import Random

from measure.domain.records import Run
from measure.domain.words import STEP
from measure.run import sections
from measure.run.estimate import DurationEstimate
from measure.run.missing import Tier
from measure.run.request import Request
from measure.run.storing import RunCache
from measure.run.tasks import AFTER, BEFORE, Task, WorkloadTask

_log = logging.getLogger(__name__)

LONG_SHARE = 1 / 20  # a cell is long if it is expected to take more than this share of a budget
MAY_BE_LONG = (Tier.SECOND_CELLS, Tier.STEPS, Tier.PROFILES, Tier.OTHER_CELLS)


@dataclass(frozen=True)
class Part:
    """Consecutive tasks of a plan, under the title that progress shows."""

    title: str
    tasks: list[Task]


def missing_tasks(request: Request, cache: RunCache) -> list[Task]:
    """Return the tasks of a request that the cache lacks; with ``request.force`` all of them."""
    tasks: list[Task] = []
    for name, section in sections.SECTIONS.items():
        if name in request.sections:
            missing = section.missing(request, cache)
            tasks += missing
            _log.info("%s: %d to do, the rest is in the cache", name, len(missing))
    return tasks


def in_parts(tasks: Sequence[Task], request: Request, cache: RunCache) -> list[Part]:
    """Order the tasks of a run.

    Without a budget they come block by block. A block has a round of every cell, in a random order (by the session's
    seed) across batch sizes, precisions, variants, phases and profiles: drift over hours then widens every cell's
    interval, and biases no comparison (R. A. Fisher, The Design of Experiments, 1935).

    With a budget they come tier by tier, long cells late. The first latency comes before the first roof.
    """
    if request.budget_s is None:
        return _blocks(tasks, cache)
    estimate = DurationEstimate(request, cache)
    tiers: dict[Tier, list[Task]] = {tier: [] for tier in Tier}
    needed, longest_s = _needed(tasks, request, estimate), LONG_SHARE * request.budget_s
    for task in tasks:
        tier = sections.tier(task, request)
        if tier in MAY_BE_LONG and task not in needed and estimate.seconds(task) > longest_s:
            tier = Tier.LONG
        tiers[tier].append(task)
    batches = {"first": min(request.batch_sizes, default=1), "second": request.second_batch}
    ordered = {tier: _order(tier, chosen, request, cache, estimate) for tier, chosen in tiers.items()}
    if ordered[Tier.FIRST_ROOF] and not cache.rows(Run):
        cells = ordered[Tier.FIRST_CELLS]
        timed = next((number for number, task in enumerate(cells, 1) if task.is_of_machine), 0)
        ordered[Tier.FIRST_LATENCY], ordered[Tier.FIRST_CELLS] = cells[:timed], cells[timed:]
    return [Part(tier.value.format(**batches), chosen) for tier, chosen in ordered.items() if chosen]


def tasks_to_do(request: Request, cache: RunCache) -> list[Task]:
    request = request.on(cache.environment)
    return [task for part in in_parts(missing_tasks(request, cache), request, cache) for task in part.tasks]


def further_tasks(request: Request, cache: RunCache, done: Collection[Task]) -> list[Task]:
    """Return the tasks that the results of ``done`` call for, such as further rounds of cells with wide intervals."""
    tasks = tasks_to_do(replace(request, force=False), cache)
    return [task for task in tasks if task.is_of_machine and task not in done]


def _needed(tasks: Sequence[Task], request: Request, estimate: DurationEstimate) -> list[Task]:
    """Return the tasks that keep their tier however long they take: without them a part of the paper is empty.

    These are the second cells and the inference profiles of the leading models, and their quickest training step and
    its profile as long as none was measured.
    """
    leading = {model.name for model in request.leading}
    trained = [model for model in request.leading if model in request.training_models]
    needed: list[Task] = []
    for tier in (Tier.SECOND_CELLS, Tier.STEPS, Tier.PROFILES):
        chosen = [task for task in tasks if sections.tier(task, request) == tier and task.columns["model"] in leading]
        steps = [task for task in chosen if task.columns["phase"] == STEP]
        needed += [task for task in chosen if task not in steps]
        needed += [min(steps, key=estimate.seconds)] if steps and len(steps) == len(trained) else []
    return needed


def _order(tier: Tier, tasks: list[Task], request: Request, cache: RunCache, estimate: DurationEstimate) -> list[Task]:
    """Order the tasks of a tier: long ones by duration, cells by model, others block by block."""
    draw = Random(f"{cache.seed} {tier.name}")
    if tier in (Tier.LONG, Tier.STEPS, Tier.PROFILES):
        return sorted(_drawn(tasks, draw, cache), key=estimate.seconds)
    if tier not in (Tier.FIRST_CELLS, Tier.SECOND_CELLS, Tier.NAMED_CELLS, Tier.OTHER_CELLS):
        return [task for part in _blocks(tasks, cache) for task in part.tasks]
    models = list({each.name: each for each in request.models}.values())
    draw.shuffle(models)
    place = {model.name: number for number, model in enumerate(sorted(models, key=request.rank))}

    def turn(task: Task) -> tuple[int, int, bool]:
        batch = task.columns["batch_sizes"][0] if tier == Tier.NAMED_CELLS else 0  # a size of all models, then the next
        return batch, place.get(task.columns["model"], 0), task.is_of_machine

    return sorted(_drawn(tasks, draw, cache), key=turn)


def _blocks(tasks: Sequence[Task], cache: RunCache) -> list[Part]:
    """Return each round in random order; before and after the rounds, the tasks come section by section."""
    parts: list[Part] = []
    for block in sorted({task.block for task in tasks}):
        chosen = [task for task in tasks if task.block == block]
        if BEFORE < block < AFTER:
            parts.append(Part(f"round {block + 1}", _drawn(chosen, Random(f"{cache.seed} {block}"), cache)))
        else:
            for name in dict.fromkeys(task.section for task in chosen):
                title = "counts" if name == "workload" else name.replace("-", " ")
                parts.append(Part(title, [task for task in chosen if task.section == name]))
    return parts


def _drawn(tasks: list[Task], draw: Random, cache: RunCache) -> list[Task]:
    """Return tasks in random order; tasks that share a process stay together, in random order."""
    groups: dict[Hashable, list[Task]] = {}
    for task in tasks:
        shared = task.process(cache.environment.device)
        groups.setdefault(task if shared is None else shared, []).append(task)
    order = list(groups.values())
    draw.shuffle(order)
    for group in order:
        draw.shuffle(group)
    return [task for group in order for task in group]


def measures(request: Request) -> bool:
    """Return whether the request needs a machine, and not only counts."""
    return any(name != WorkloadTask.section for name in request.sections)
