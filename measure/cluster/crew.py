"""Opens the stations of a run on the places of a Ray cluster, and closes them."""

import importlib.metadata
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from measure.cache.project import DISTRIBUTION
from measure.cache.records import Environment
from measure.cluster.places import Place
from measure.cluster.station import Station
from measure.errors import UserError, in_short
from measure.timing.sampling import Sampling

if TYPE_CHECKING:
    from ray.actor import ActorHandle

PATIENCE_S = 60.0
"""How long open stations wait for those that Ray cannot place yet."""

KNOCK_S = 5.0
"""How long the head of a cluster has to take a connection."""


@dataclass(frozen=True)
class Manned:
    """A place with a station on it that is ready to measure."""

    place: Place
    station: "ActorHandle[Any]"
    environment: Environment
    memory_byte: int


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to a Ray cluster; ``auto`` is the one that this machine belongs to."""
    try:
        import ray
    except ImportError:
        raise UserError("--cluster: needs Ray; install it with pip install 'roofwright[cluster]'") from None
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except Exception as problem:  # by version and address it raises this or that
        raise UserError(
            f"--cluster: no Ray cluster answers at {address!r} ({in_short(problem)}); start one with "
            "ray start --head, or give the address of one"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError where nothing answers at HOST:PORT, at once: Ray would ask again for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if host:
        with socket.create_connection((host.strip("[]"), int(port)), KNOCK_S):
            pass


def manned(
    places: Sequence[Place],
    threads: str | None,
    sampling: Sampling,
    say: Callable[[str], None],
    station: type = Station,
    patience_s: float = PATIENCE_S,
) -> list[Manned]:
    """Open a station on each place, and wait until one is ready and the others had time to be.

    A place whose device another process uses, or where Ray has no room, is left out with a line that says so.
    """
    import ray

    opening = {}
    for place in places:
        actor = _actor(place, threads, sampling, station)
        opening[actor.begin.remote()] = (place, actor)
    ready: list[Manned] = []
    while opening:
        done, _ = ray.wait(list(opening), timeout=patience_s)
        if not done and ready:
            break
        if not done:
            say(f"Waiting: other work of the cluster has {_names(place for place, _ in opening.values())}")
            continue
        place, actor = opening.pop(done[0])
        try:
            environment, memory_byte = ray.get(done[0])
        except Exception as problem:  # a node may lack anything
            say(f"{place.name} is left out: {_reason(problem)}")
            ray.kill(actor)
        else:
            ready.append(Manned(place, actor, environment, memory_byte))
    if opening:
        left_out = _names(place for place, _ in opening.values())
        say(f"Other work of the cluster has {left_out}: left out; the same command tries again")
    for _, actor in opening.values():
        ray.kill(actor)
    return sorted(ready, key=lambda each: each.place)


def _names(places: Iterable[Place]) -> str:
    return ", ".join(place.name for place in sorted(places))


def _actor(place: Place, threads: str | None, sampling: Sampling, station: type) -> "ActorHandle[Any]":
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alone = ray.remote(station).options(
        num_cpus=place.cores,
        num_gpus=1 if place.device == "cuda" else 0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(place.node_id, soft=False),
        max_restarts=0,
    )
    return alone.remote(place.device, threads, sampling)


def _reason(problem: Exception) -> str:
    """Say why a station did not begin; Ray keeps the original exception as the cause."""
    cause = getattr(problem, "cause", None) or problem
    if isinstance(cause, UserError):
        return str(cause)
    if "No module named" in str(problem):
        version = importlib.metadata.version(DISTRIBUTION)
        return f"its Python lacks a package that is here; install {DISTRIBUTION}[cluster] {version} there"
    return in_short(cause)


def dismiss(crew: Sequence[Manned]) -> None:
    """Close stations, including those whose node is gone, so that their devices are free."""
    import ray
    from ray.exceptions import RayActorError

    for each in crew:
        with suppress(RayActorError, TimeoutError):
            ray.get(each.station.close.remote(), timeout=10)
        ray.kill(each.station)
