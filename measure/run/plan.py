"""The tasks still to do, section by section: what was asked for, less what the cache holds."""

import logging

from measure.cache.discovery import import_modules
from measure.run import sections
from measure.run.task import Cache, Request, Task

_log = logging.getLogger(__name__)

import_modules(sections.__name__)

SECTIONS: dict[str, type[Task]] = dict(sorted(Task.sections.items(), key=lambda pair: pair[1].order))
"""All sections by name, in the order of a plan."""

USUAL_SECTIONS = tuple(name for name, each in SECTIONS.items() if each.is_usual)
"""The sections of a run that names none."""

QUICK_SECTIONS = tuple(name for name in USUAL_SECTIONS if SECTIONS[name].is_quick)
"""The sections of a quick run."""


def tasks_to_do(request: Request, cache: Cache) -> list[Task]:
    """Return the tasks of the request that the cache does not hold, or all of them by force."""
    tasks: list[Task] = []
    for name, section in SECTIONS.items():
        if name in request.sections:
            missing = section.missing(request, cache)
            tasks += missing
            _log.info("%s: %d to do, what else was asked for is in the cache", name, len(missing))
    return tasks


def measures(request: Request) -> bool:
    """Return whether the request asks for anything of a machine, and not for counts alone."""
    return any(SECTIONS[name].is_of_machine for name in request.sections)
