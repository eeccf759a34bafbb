"""Runs on a Ray cluster: one actor for each device, one queue of tasks for each kind of machine, rows written here.

Ray starts the actors and reports their death. The task of a dead node goes to the next device of its kind.
"""

import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from measure.cache.folders import Workloads
from measure.domain.records import Environment
from measure.errors import UserError, in_short
from measure.machine import devices
from measure.machine.environment import current
from measure.run.estimate import MemoryFit
from measure.run.plan import further_tasks, tasks_to_do
from measure.run.request import Request, parse_threads
from measure.run.runner import Summary, keep
from measure.run.sections import describe, put
from measure.run.storing import RunCache, machine_folder
from measure.run.tasks import Failure, Task
from measure.run.worker import BudgetSpent, Worker
from measure.timing.sampling import Sampling

ACCELERATOR = "accelerator_type:"  # the prefix of Ray's resources that name a node's accelerators
PATIENCE_S = 60.0  # ready devices wait so long for those that Ray cannot place yet
TRIES = 2  # a task that was running on so many nodes when they died is taken to be the cause

_say = partial(print, flush=True)


class Place(NamedTuple):
    """One device of a node. ``number`` counts the node's GPUs; ``cores`` are reserved with the device."""

    host: str
    node_id: str
    device: str
    number: int
    cores: int
    accelerator: str | None = None

    @property
    def name(self) -> str:
        number = f"{self.accelerator or 'GPU'} {self.number}"
        return f"{self.host} {'processor' if self.device == 'cpu' else number}"


def find_places(nodes: Iterable[dict[str, Any]], device: str, accelerators: str | None = None) -> list[Place]:
    """Return the places among ``ray.nodes()``, sorted. ``auto`` takes a node's GPUs, or its cores if it has none.

    ``accelerators`` are the kinds of GPUs to take, as in ``T4,L4``; None takes all.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UserError(f"--device: with --cluster use auto, cpu or cuda, not {device!r}: Ray chooses the GPUs")
    places, kinds = [], set()
    for node in nodes:
        if node["Alive"]:
            resources, where = node["Resources"], (node["NodeManagerHostname"], node["NodeID"])
            named = sorted(name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR))
            kinds |= set(named[:1])
            cores, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
            if gpus and device != "cpu":
                places += [Place(*where, "cuda", number, cores // gpus, *named[:1]) for number in range(gpus)]
            elif cores and device != "cuda":
                places.append(Place(*where, "cpu", 0, cores))
    if accelerators is not None:
        wanted = [part.strip() for part in accelerators.split(",")]
        if missing := [kind for kind in wanted if kind not in kinds]:
            there = ", ".join(sorted(kinds)) or "no named GPUs"
            raise UserError(f"--accelerators: the cluster has no {missing[0]!r}; use kinds of its own: {there}")
        places = [place for place in places if place.accelerator in wanted]
    if not places:
        flags = f"--device {device}" + (f" --accelerators {accelerators}" if accelerators else "")
        raise UserError(f"--cluster: no node alive has a device for {flags}; see ray status")
    return sorted(places)


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to a Ray cluster; ``auto`` is the cluster of this machine."""
    try:
        import ray
    except ImportError:
        raise UserError("--cluster: needs Ray; install it with pip install 'roofwright[cluster]'") from None
    try:
        host, _, port = address.rpartition("//")[2].rpartition(":")
        if host:  # fail soon: Ray would try for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=5.0).close()
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except Exception as problem:  # its type depends on Ray's version and the address
        remedy = "start one with ray start --head, or give the address of one"
        raise UserError(f"--cluster: no Ray cluster answers at {address!r} ({in_short(problem)}); {remedy}") from None
    try:
        yield
    finally:
        ray.shutdown()


class DeviceActor:
    """Measures on one device of a node. Ray makes an actor of it, in a process that sees only this GPU."""

    def begin(self, device_name: str, threads: str | None, sampling: Sampling) -> tuple[Environment, int]:
        """Return the row of ``machine.csv``, and the device's memory (B)."""
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray sets it, a local run would not have it
        device, count = devices.find(device_name), parse_threads(threads)
        self._worker = Worker(device.torch_name, count, sampling)
        return current(device, count), device.memory_byte()

    def run(self, task: Task, seconds: float) -> Any:
        """Run a task; return None if it did not end within so many seconds (clocks of nodes differ)."""
        try:
            return self._worker.run(task, time.monotonic() + seconds)
        except BudgetSpent:
            return None

    def facts(self) -> dict[str, Any]:
        return self._worker.facts

    def close(self) -> None:
        self._worker.close()


@dataclass
class MachineKind:
    """The machines of one environment. They share a folder and a queue of tasks."""

    cache: RunCache
    tasks: list[Task] = field(default_factory=list)
    done: set[Task] = field(default_factory=set)
    summary: Summary = field(default_factory=Summary)


class ReadyDevice(NamedTuple):
    place: Place
    actor: Any  # Ray's handle of a DeviceActor
    environment: Environment
    memory_byte: int

    def end(self) -> None:
        """End the actor, even on a dead node, so that the device is free."""
        import ray

        with suppress(Exception):  # its node may be dead
            ray.get(self.actor.close.remote(), timeout=10)
        ray.kill(self.actor)


@dataclass
class ClusterRun:
    """A run on the devices of the connected cluster. Use ``open``, ``plan``, ``run``, then ``close``."""

    request: Request
    sampling: Sampling
    device: str
    threads: str | None
    accelerators: str | None
    data: Path
    machine: str | None
    seed: int
    deadline: float = inf
    try_anyway: bool = False
    ready: list[ReadyDevice] = field(default_factory=list)
    kinds: dict[str, MachineKind] = field(default_factory=dict)  # by environment
    deaths: Counter[Task] = field(default_factory=Counter)  # of nodes, by the task that they ran

    def open(self) -> None:
        """Start the actors, and find the kinds of machine."""
        self._start_actors()
        for name, environment in {each.environment.environment_id: each.environment for each in self.ready}.items():
            folder = machine_folder(self.data, self.machine, environment)
            cache = RunCache(Workloads(self.data), folder, environment, self.seed)
            self.kinds[name] = MachineKind(cache)
        hardware = {kind.cache.environment.hardware_id for kind in self.kinds.values()}
        if self.machine and len(hardware) > 1:
            raise UserError(f"--machine: the cluster has {len(hardware)} kinds of machine; leave {self.machine!r} out")

    def plan(self) -> None:
        """Plan for each kind of machine; the first counts workloads that several lack."""
        taken: set[Task] = set()
        for kind in self.kinds.values():
            kind.tasks = [task for task in tasks_to_do(self.request, kind.cache) if task not in taken]
            taken |= {task for task in kind.tasks if not task.is_of_machine}

    @property
    def tasks(self) -> list[Task]:
        return [task for kind in self.kinds.values() for task in kind.tasks]

    def run(self) -> Summary:
        """Do all tasks, and the further rounds that their results call for, until the deadline."""
        kinds = self.kinds.values()
        with ExitStack() as locks:
            for folder in {kind.cache.folder.folder: kind.cache.folder for kind in kinds}.values():
                locks.enter_context(folder.locked(_say))
            while self.tasks:
                self._hand_out()
                if self.tasks:
                    break
                for kind in kinds:
                    kind.tasks = further_tasks(self.request, kind.cache, kind.done)
        statuses = sum((kind.summary.statuses for kind in kinds), Counter())
        return Summary(statuses, [failure for kind in kinds for failure in kind.summary.failures], len(self.tasks))

    def _hand_out(self) -> None:
        """Hand tasks out, counts first, until none is left, no device can do one, or time is up."""
        import ray
        from ray.exceptions import RayActorError

        busy: dict[Any, tuple[ReadyDevice, Task]] = {}
        while True:
            running = {device.place: task for device, task in busy.values()}
            is_counting = any(not task.is_of_machine for task in [*self.tasks, *running.values()])
            for device in self.ready:
                if device.place not in running and (task := self._next_task(device, is_counting)):
                    left_s = max(0.0, self.deadline - time.monotonic())
                    busy[device.actor.run.remote(task, left_s)] = device, task
            if not busy and not self._has_device(is_counting):
                return
            for result in ray.wait(list(busy), timeout=1.0)[0] if busy else ():
                device, task = busy.pop(result)
                try:
                    outcome, facts = ray.get([result, device.actor.facts.remote()])
                except RayActorError:
                    self.ready.remove(device)
                    device.end()
                    self.deaths[task] += 1
                    _say(f"{device.place.name} is lost; its task goes to another device")
                    is_cause = self.deaths[task] >= TRIES
                    outcome = Failure("error", f"{TRIES} nodes died while they ran it") if is_cause else None
                    facts = {}
                if outcome is None:
                    self.kinds[device.environment.environment_id].tasks.insert(0, task)
                else:
                    self._keep(device, task, outcome, facts)

    def _next_task(self, device: ReadyDevice, is_counting: bool) -> Task | None:
        """Take the next task for a device; skip later rounds of failed cells, and refuse cells that cannot fit."""
        kind = self.kinds.get(device.environment.environment_id)
        if kind is None or time.monotonic() >= self.deadline:
            return None
        memory = MemoryFit(device.memory_byte, kind.cache.workloads)
        for task in [task for task in kind.tasks if task.is_of_machine is not is_counting]:
            kind.tasks.remove(task)
            if kind.summary.is_hopeless(task):
                continue
            if self.try_anyway or not (refusal := memory.refusal(task)):
                return task
            self._keep(device, task, refusal, {})
        return None

    def _keep(self, device: ReadyDevice, task: Task, outcome: Any, facts: dict[str, Any]) -> None:
        kind = self.kinds[device.environment.environment_id]
        outcome = keep(partial(put, kind.cache, facts=facts), task, outcome)
        kind.done.add(task)
        kind.summary.count(task, outcome)
        ended = sum(len(each.done) for each in self.kinds.values())
        _say(f"[{ended} of {ended + len(self.tasks)}] {device.place.name}: {task.label}: {describe(task, outcome)}")

    def _has_device(self, is_counting: bool) -> bool:
        """Start actors on places without one; return whether a ready device can do a task that is left in time."""
        if time.monotonic() >= self.deadline or not self.tasks:
            return False
        try:
            self._start_actors()
        except UserError as problem:
            _say(str(problem))
        kinds = [self.kinds.get(device.environment.environment_id) for device in self.ready]
        return any(kind and any(task.is_of_machine is not is_counting for task in kind.tasks) for kind in kinds)

    def _start_actors(self) -> None:
        """Start an actor on each free place; wait for one, and a while for others. Raises UserError if none begins."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        places = find_places(ray.nodes(), self.device, self.accelerators)
        opening = {}
        for place in sorted(set(places) - {each.place for each in self.ready}):
            actor = ray.remote(DeviceActor).options(
                num_cpus=place.cores,
                num_gpus=1 if place.device == "cuda" else 0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(place.node_id, soft=False),
            ).remote()  # fmt: skip
            opening[actor.begin.remote(place.device, self.threads, self.sampling)] = place, actor
        if not opening:
            return
        if not self.ready:
            _say(f"Waiting for the first of {len(opening)} devices")
            ray.wait(list(opening))  # however long other work of the cluster has them
        done = ray.wait(list(opening), num_returns=len(opening), timeout=PATIENCE_S)[0]
        for beginning, (place, actor) in opening.items():
            try:
                environment, memory_byte = ray.get(beginning, timeout=10 if beginning in done else 0)
            except Exception as problem:  # a node may lack anything
                cause = getattr(problem, "cause", None) or problem  # Ray wraps the actor's exception
                why = str(cause) if isinstance(cause, UserError) else in_short(cause)
                if isinstance(problem, TimeoutError):
                    why = "other work of the cluster has it; the same command tries again"
                _say(f"{place.name} is left out: {why}")
                ray.kill(actor)
            else:
                self.ready.append(ReadyDevice(place, actor, environment, memory_byte))
        if not self.ready:
            raise UserError(f"--cluster: none of its {len(places)} devices can be measured now; fix the problems above")

    def close(self) -> None:
        for device in self.ready:
            device.end()
