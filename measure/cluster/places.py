"""The places of a Ray cluster that can be measured: each GPU of a node, or all its cores."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from measure.errors import UserError

ACCELERATOR = "accelerator_type:"
"""The prefix of Ray's resources that name the kind of a node's accelerators, such as ``accelerator_type:T4``."""

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, order=True)
class Place:
    """One device of a node, to be had alone: ``number`` counts the GPUs of a node.

    ``cores`` are those that Ray is asked to keep free for it: all of the node, or its GPU's share.
    """

    host: str
    node_id: str
    device: str
    number: int
    cores: int
    accelerator: str | None = None

    @property
    def name(self) -> str:
        what = "processor" if self.device == "cpu" else f"{self.accelerator or 'GPU'} {self.number}"
        return f"{self.host} {what}"


def parse_accelerators(text: str) -> list[str]:
    """Return the kinds in ``T4,L4,A100``, each once."""
    kinds = list(dict.fromkeys(part.strip() for part in text.split(",")))
    if not all(re.fullmatch(r"[A-Za-z0-9_.-]+", kind) for kind in kinds):
        raise UserError(f"--accelerators: {text!r} is not a list of kinds; write it as T4,L4,A100")
    return kinds


def find(nodes: Iterable[dict[str, Any]], device: str, accelerators: Sequence[str] = ()) -> list[Place]:
    """Return the places among ``ray.nodes()``, in a fixed order.

    ``auto`` takes a node's GPUs, or its cores where it has none. Raises UserError where nothing can be measured.
    """
    if device not in DEVICES:
        raise UserError(f"--device: with --cluster use auto, cpu or cuda, not {device!r}: Ray chooses the GPUs")
    if accelerators and device == "cpu":
        raise UserError("--accelerators: names kinds of GPUs; leave it out, or use --device cuda")
    alive = [node for node in nodes if node["Alive"]]
    kinds = {kind for node in alive if (kind := _accelerator(node["Resources"]))}
    if missing := [kind for kind in accelerators if kind not in kinds]:
        there = f"there are {', '.join(sorted(kinds))}" if kinds else "no node names the kind of its GPUs"
        raise UserError(f"--accelerators: the cluster has no {missing[0]}; {there}")
    found = [place for node in alive for place in _places(node, device)]
    found = [place for place in found if not accelerators or place.accelerator in accelerators]
    if not found:
        what = {"auto": "CPUs or GPUs", "cpu": "CPUs", "cuda": "GPUs"}[device]
        raise UserError(f"--cluster: none of its {len(alive)} nodes has {what}; see ray status")
    return sorted(found)


def _places(node: dict[str, Any], device: str) -> list[Place]:
    resources = node["Resources"]
    cores, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
    host, node_id = node["NodeManagerHostname"], node["NodeID"]
    if gpus and device != "cpu":
        kind = _accelerator(resources)
        return [Place(host, node_id, "cuda", number, cores // gpus, kind) for number in range(gpus)]
    if cores and device != "cuda":
        return [Place(host, node_id, "cpu", 0, cores)]
    return []


def _accelerator(resources: dict[str, float]) -> str | None:
    """Return the kind of a node's GPUs, where Ray knows it."""
    kinds = sorted(name.removeprefix(ACCELERATOR) for name in resources if name.startswith(ACCELERATOR))
    return kinds[0] if kinds else None
