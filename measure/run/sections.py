"""The sections of a run, in their order: the help, the missing tasks and the storing of outcomes of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from measure.domain.words import INFERENCE, STEP
from measure.run import group_storing, missing, storing
from measure.run.group_tasks import SECTION as DISTRIBUTED
from measure.run.missing import Tier
from measure.run.request import Request
from measure.run.storing import RunCache
from measure.run.tasks import Failure, HardwareCounterTask, Task


@dataclass(frozen=True)
class Section:
    """A section of ``--sections``; its name is ``section`` of its tasks.

    ``missing`` returns the tasks that a request asks for and the cache lacks, by ``request.force`` all of them.
    ``store(cache, task, outcome)`` writes a result or a Failure. ``describe(task, result)`` puts a result into a few
    words. ``tier(task, request)`` is a task's turn in a run with a budget.
    """

    help: str
    missing: Callable[[Request, RunCache], Sequence[Task]]
    store: Callable[[RunCache, Any, Any], None]
    describe: Callable[[Any, Any], str]
    tier: Callable[[Any, Request], Tier] = lambda _task, _request: Tier.REST


SECTIONS = {
    "workload": Section(
        "count FLOP and bytes",
        missing.missing_counts, lambda cache, *ended: storing.store_counts(cache.workloads, *ended),
        storing.describe_counts, missing.count_tier,
    ),
    "roofs": Section(
        "measure the roofs, and a processor's clock",
        missing.missing_roofs, storing.store_roof, storing.describe_roof, missing.roof_tier,
    ),
    "inference": Section(
        "time the models' forward passes",
        partial(missing.missing_rounds, INFERENCE), storing.store_round, storing.describe_round, missing.round_tier,
    ),
    "training": Section(
        "time training steps: forward, backward, optimiser",
        partial(missing.missing_rounds, STEP), storing.store_round, storing.describe_round, missing.round_tier,
    ),
    "operators": Section(
        "time each operator of both under torch's profiler",
        missing.missing_profiles, storing.store_profile, storing.describe_profile, missing.profile_tier,
    ),
    "hardware-counters": Section(
        "read an NVIDIA GPU's hardware counters for both, with Nsight Compute's ncu",
        missing.missing_counters, storing.store_counters, storing.describe_counters,
    ),
    DISTRIBUTED: Section(
        "time collectives and data-parallel steps on groups of processes, one a GPU or on the processor",
        group_storing.missing_groups, group_storing.store_groups, group_storing.describe_groups,
    ),
}  # fmt: skip
UNUSUAL = (HardwareCounterTask.section, DISTRIBUTED)
USUAL_SECTIONS = tuple(name for name in SECTIONS if name not in UNUSUAL)  # of a run that names none


def tier(task: Task, request: Request) -> Tier:
    return SECTIONS[task.section].tier(task, request)


def put(cache: RunCache, task: Task, outcome: Any, facts: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Store an outcome, and with a first one the environment with these facts of its device."""
    if task.is_of_machine:
        cache.folder.put_environment(replace(cache.environment, **facts))
    SECTIONS[task.section].store(cache, task, outcome)


def describe(task: Task, outcome: Any) -> str:
    if isinstance(outcome, Failure):
        return f"{outcome.status}: {outcome.reason}"
    return SECTIONS[task.section].describe(task, outcome)
