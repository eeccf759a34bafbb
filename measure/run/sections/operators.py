"""The section that times the operators of cells under torch's profiler."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Self

from measure.cache.records import KernelTime, OperatorTime, Profile
from measure.cache.words import INFERENCE
from measure.cli.quantities import latency
from measure.machine.device import Device
from measure.profiling import profile
from measure.profiling.profile import Profiled
from measure.run.cell_tasks import LookTask
from measure.run.task import Cache, Failure, Request, Tier
from measure.timing.sampling import Sampling

SHORT_BUDGET_S = 600.0
"""Shorter budgets begin with profiles at the smallest batch size."""


@dataclass(frozen=True)
class ProfileTask(LookTask):
    """Time its operators under torch's profiler."""

    section, order = "operators", 5
    help = "time each operator of both under torch's profiler"

    block = 0  # in the same sitting as a plain round of its cell

    @classmethod
    def missing(cls, request: Request, cache: Cache) -> list[Self]:
        tasks = super().missing(request, cache)
        return [task for task in tasks if task.tier(request) == Tier.PROFILES] if request.quick else tasks

    def tier(self, request: Request) -> Tier:
        """Begin with one profile of inference a model, and one of a training step of the leading models.

        Inference is profiled at the smallest batch size in a quick run or a short budget, else at one that fills most
        devices: a profile of a large batch takes long.
        """
        if not request.is_base(self.cell):
            return Tier.REST
        is_leading = self.model in request.leading
        if self.cell.phase != INFERENCE:
            is_first = self.cell.batch == min(request.training_batch_sizes)
            return Tier.PROFILES if is_leading and is_first else Tier.REST
        is_short = request.quick or (request.budget_s or inf) < SHORT_BUDGET_S
        batch = min(request.batch_sizes) if is_short else request.second_batch or min(request.batch_sizes)
        if self.cell.batch != batch:
            return Tier.REST
        return Tier.PROFILES if is_leading else Tier.OTHER_CELLS

    @classmethod
    def looked_into(cls, cache: Cache) -> Sequence[Profile]:
        return cache.folder.profiles()

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Profiled:
        return profile.measure(device, self.model, self.cell, sampling, beat)

    def store(self, cache: Cache, outcome: Profiled | Failure) -> None:
        row, key = cache.row(self.model, self.cell, outcome), cache.key(self.cell)
        if isinstance(outcome, Failure):
            cache.folder.put_profile(Profile(**row), [])
            return
        use = outcome.system_use._asdict() if outcome.system_use else {}
        cache.folder.put_profile(
            Profile(
                **row,
                **use,
                steps=outcome.steps,
                plain_s=outcome.plain_s,
                profiled_s=outcome.profiled_s,
                busy_s=outcome.busy_s,
                load=outcome.load,
            ),
            [OperatorTime(**key, **each._asdict()) for each in outcome.operators],
            [KernelTime(**key, **each._asdict()) for each in outcome.kernels],
        )

    def summary(self, result: Profiled) -> str:
        share = sum(each.time_s for each in result.operators) / result.profiled_s
        times = f"{latency(result.plain_s)}, profiled {latency(result.profiled_s)}"
        return f"{times}, {share:.0%} of it in operators"
