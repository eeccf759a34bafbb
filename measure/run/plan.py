"""The tasks still to do, section by section: what was asked for, less what the cache holds."""

import logging
from collections.abc import Hashable
from dataclasses import replace
from random import Random

from measure.cache.discovery import import_modules
from measure.run import sections
from measure.run.estimate import Estimate
from measure.run.task import AFTER, BEFORE, Cache, Request, Task, Tier

_log = logging.getLogger(__name__)

import_modules(sections.__name__)

SECTIONS: dict[str, type[Task]] = dict(sorted(Task.sections.items(), key=lambda pair: pair[1].order))
"""All sections by name, in the order of a plan."""

USUAL_SECTIONS = tuple(name for name, each in SECTIONS.items() if each.is_usual)
"""The sections of a run that names none."""

QUICK_SECTIONS = tuple(name for name in USUAL_SECTIONS if SECTIONS[name].is_quick)
"""The sections of a quick run."""

LONG_SHARE, LONG_S = 1 / 40, 15.0
"""A cell that is expected to take more than this share of a budget, and more than so many seconds, is a long one."""


def tasks_to_do(request: Request, cache: Cache) -> list[Task]:
    """Return the tasks of the request that the cache does not hold, or all of them by force, block by block.

    A block has a round of every cell, in an order that the sitting's seed draws across batch sizes, precisions,
    variants, phases and profiles: what drifts with the hours is in every cell's interval then, and in no comparison
    (R. A. Fisher, The Design of Experiments, 1935). A run that is cut short still makes a paper.

    With a budget tasks come tier by tier, in each block by block. In the tiers of first rounds they come model by
    model, so that one that is cut short leaves whole models; the seed draws the order of the models, and of a model's
    cells. What takes long comes the shortest first: one long step would cost the latencies of several models.
    """
    tasks: list[Task] = []
    request = request.on(cache.environment)
    for name, section in SECTIONS.items():
        if name in request.sections:
            missing = section.missing(request, cache)
            tasks += missing
            _log.info("%s: %d to do, what else was asked for is in the cache", name, len(missing))
    if request.budget_s is None:
        return _block_by_block(tasks, cache)
    estimate = Estimate(request, cache)
    tiers: dict[Tier, list[Task]] = {tier: [] for tier in Tier}
    for task in tasks:
        tiers[tier_of(task, request, estimate)].append(task)
    return [task for tier, chosen in tiers.items() for task in _of_tier(tier, chosen, cache, estimate)]


def further_tasks(request: Request, cache: Cache) -> list[Task]:
    """Return what is called for by the results of the tasks that were done, none of which is done again by force.

    Counts are called for by no result.
    """
    return [task for task in tasks_to_do(replace(request, force=False), cache) if task.is_of_machine]


def tier_of(task: Task, request: Request, estimate: Estimate) -> Tier:
    """Return when a task has its turn within the request's budget: what takes long waits until others had theirs."""
    assert request.budget_s is not None
    tier = task.tier(request)
    if not task.is_of_machine or estimate.seconds(task) <= max(LONG_S, LONG_SHARE * request.budget_s):
        return tier
    return Tier.LONG if tier == Tier.FIRST else Tier.REST


def _of_tier(tier: Tier, tasks: list[Task], cache: Cache, estimate: Estimate) -> list[Task]:
    if tier not in (Tier.FIRST, Tier.LONG, Tier.OTHERS):
        return _block_by_block(tasks, cache)
    draw = Random(f"{cache.sitting.seed} {tier.name}")
    if tier == Tier.LONG:
        return sorted(_drawn(tasks, draw, cache), key=estimate.seconds)
    models = list(dict.fromkeys(task.columns["model"] for task in tasks))
    draw.shuffle(models)
    place = {model: number for number, model in enumerate(models)}
    drawn = _drawn(tasks, draw, cache)
    return sorted(drawn, key=lambda task: (place[task.columns["model"]], task.is_of_machine))


def _block_by_block(tasks: list[Task], cache: Cache) -> list[Task]:
    """Return what is done before the rounds and after them section by section, and each round in random order."""
    ordered: list[Task] = []
    for block in sorted({task.block for task in tasks}):
        chosen = [task for task in tasks if task.block == block]
        is_round = BEFORE < block < AFTER
        ordered += _drawn(chosen, Random(f"{cache.sitting.seed} {block}"), cache) if is_round else chosen
    return ordered


def _drawn(tasks: list[Task], draw: Random, cache: Cache) -> list[Task]:
    """Return tasks in random order; those that share a process stay together, in a random order of their own."""
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
    """Return whether the request asks for anything of a machine, and not for counts alone."""
    return any(SECTIONS[name].is_of_machine for name in request.sections)
