"""The tasks still to do, section by section: what was asked for, less what the cache holds."""

import logging
from collections.abc import Hashable
from dataclasses import replace
from random import Random

from measure.cache.discovery import import_modules
from measure.run import sections
from measure.run.task import AFTER, BEFORE, Cache, Request, Task

_log = logging.getLogger(__name__)

import_modules(sections.__name__)

SECTIONS: dict[str, type[Task]] = dict(sorted(Task.sections.items(), key=lambda pair: pair[1].order))
"""All sections by name, in the order of a plan."""

USUAL_SECTIONS = tuple(name for name, each in SECTIONS.items() if each.is_usual)
"""The sections of a run that names none."""

QUICK_SECTIONS = tuple(name for name in USUAL_SECTIONS if SECTIONS[name].is_quick)
"""The sections of a quick run."""


def tasks_to_do(request: Request, cache: Cache) -> list[Task]:
    """Return the tasks of the request that the cache does not hold, or all of them by force, block by block.

    A block has a round of every cell, in an order that the sitting's seed draws across batch sizes, precisions,
    variants, phases and profiles: what drifts with the hours is in every cell's interval then, and in no comparison
    (R. A. Fisher, The Design of Experiments, 1935). A run that is cut short still makes a paper.
    """
    tasks: list[Task] = []
    request = request.on(cache.environment)
    for name, section in SECTIONS.items():
        if name in request.sections:
            missing = section.missing(request, cache)
            tasks += missing
            _log.info("%s: %d to do, what else was asked for is in the cache", name, len(missing))
    return [task for block in sorted({task.block for task in tasks}) for task in _in_order(block, tasks, cache)]


def further_tasks(request: Request, cache: Cache) -> list[Task]:
    """Return what is called for by the results of the tasks that were done, none of which is done again by force.

    Counts are called for by no result.
    """
    return [task for task in tasks_to_do(replace(request, force=False), cache) if task.is_of_machine]


def _in_order(block: int, tasks: list[Task], cache: Cache) -> list[Task]:
    """Return the tasks of a block: before the rounds and after them section by section, a round in random order.

    Tasks that share a process stay together, in a random order of their own.
    """
    chosen = [task for task in tasks if task.block == block]
    if not BEFORE < block < AFTER:
        return chosen
    groups: dict[Hashable, list[Task]] = {}
    for task in chosen:
        shared = task.process(cache.environment.device)
        groups.setdefault(task if shared is None else shared, []).append(task)
    draw = Random(f"{cache.sitting.seed} {block}")
    order = list(groups.values())
    draw.shuffle(order)
    for group in order:
        draw.shuffle(group)
    return [task for group in order for task in group]


def measures(request: Request) -> bool:
    """Return whether the request asks for anything of a machine, and not for counts alone."""
    return any(SECTIONS[name].is_of_machine for name in request.sections)
