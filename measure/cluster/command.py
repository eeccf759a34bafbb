"""``python -m measure --cluster``: measures on the stations of a Ray cluster."""

import argparse
import time
from collections.abc import Sequence

from measure.cluster import places
from measure.cluster.crew import Manned, connected, dismiss, manned
from measure.cluster.fleet import Fleet, Kind, kinds_of
from measure.cluster.station import Station
from measure.errors import UserError
from measure.run.plan import SECTIONS, further_tasks
from measure.run.progress import lines, resumption
from measure.run.request import check_writable, make_fresh_request, make_sampling, make_seed
from measure.run.runner import Summary
from measure.run.task import Request
from measure.timing.sampling import Sampling
from measure.verbs.flags import data_flag
from measure.verbs.terminal import INTERRUPTED


class Crew:
    """The open stations, and how to get more."""

    def __init__(self, arguments: argparse.Namespace, sampling: Sampling, station: type) -> None:
        self._arguments, self._sampling, self._station = arguments, sampling, station
        self._accelerators = places.parse_accelerators(arguments.accelerators) if arguments.accelerators else []
        self.open: list[Manned] = []

    def fill(self) -> None:
        """Open stations on all places without one. Raises UserError where none is open in the end."""
        import ray

        found = places.find(ray.nodes(), self._arguments.device, self._accelerators)
        taken = {each.place for each in self.open}
        free = [place for place in found if place not in taken]
        self.open += manned(free, self._arguments.threads, self._sampling, _say, self._station)
        if not self.open:
            raise UserError(
                f"--cluster: none of its {len(found)} devices can be measured now; fix what the lines above name"
            )

    def replace(self, lost: Sequence[Manned]) -> bool:
        """Replace lost stations by others where there are any; return whether any station is open."""
        dismiss(lost)
        self.open = [each for each in self.open if each not in lost]
        try:
            self.fill()
        except UserError as problem:
            _say(str(problem))
        return bool(self.open)


def measure(arguments: argparse.Namespace, station: type = Station) -> int:
    """Plan for every kind of machine in the cluster, and measure what is missing."""
    began = time.monotonic()
    request, sampling = make_fresh_request(arguments), make_sampling(arguments)
    _check(request)
    deadline = None if request.budget_s is None else began + request.budget_s
    crew = Crew(arguments, sampling, station)
    with connected(arguments.cluster):
        crew.fill()
        try:
            seed = make_seed(arguments.seed)
            kinds = kinds_of(crew.open, request, arguments.data, arguments.machine, seed)
            if arguments.plan:
                _show(kinds)
            elif any(kind.tasks for kind in kinds.values()):
                check_writable(arguments.data)
                left = _do(kinds, crew, request, deadline, arguments.try_anyway)
                _sum_up(kinds, left, arguments)
            else:
                print(f"Nothing left to measure on the cluster: see {arguments.data}")
        except KeyboardInterrupt:
            print(f"\nStopped. Everything measured so far is kept.\n{resumption(arguments.command, arguments.force)}")
            return INTERRUPTED
        finally:
            dismiss(crew.open)
    return 0


def _do(kinds: dict[str, Kind], crew: Crew, request: Request, deadline: float | None, try_anyway: bool) -> int:
    """Do the tasks of all kinds, then those that their results call for; return how many are left."""
    while True:
        fleet = Fleet(kinds, _say, deadline, try_anyway)
        while (lost := fleet.work(crew.open)) and fleet.left and crew.replace(lost):
            pass
        if fleet.left:
            return fleet.left
        for kind in kinds.values():
            kind.done.update(kind.tasks)
            kind.tasks = further_tasks(request, kind.cache, kind.done)
        if not any(kind.tasks for kind in kinds.values()):
            return 0


def _sum_up(kinds: dict[str, Kind], left: int, arguments: argparse.Namespace) -> None:
    whole = Summary(left=left)
    for kind in kinds.values():
        whole.add(kind.summary)
    folders = sorted({str(kind.cache.folder.folder) for kind in kinds.values()})
    report = f"python -m report{data_flag(arguments.data)}"
    resume = [resumption(arguments.command, arguments.force)] if left else []
    print("\n".join([*lines(whole, folders), *resume, f"Next: {report}"]))


def _check(request: Request) -> None:
    for name in request.sections:
        if gap := SECTIONS[name].cluster_gap:
            raise UserError(f"--sections: {gap}; leave them out, or leave out --cluster")


def _show(kinds: dict[str, Kind]) -> None:
    for kind in kinds.values():
        folder = kind.cache.folder
        for task in kind.tasks:
            print(f"{folder.name}: {task.label}")
        print(f"{len(kind.tasks)} to measure on {kind.cache.environment.name} into {folder.folder}")


def _say(text: str) -> None:
    print(text, flush=True)
