"""Actors that measure nothing, for tests of a cluster; the nodes' processes find them through PYTHONPATH."""

import dataclasses
import os
import tempfile
import time
from pathlib import Path

import ray

from measure.run.cluster import DeviceActor
from measure.run.tasks import Failure
from measure.timing.sampling import TimedSample, Timing


class NullActor(DeviceActor):
    """Takes 50 ms a task, on a machine of the kind that its node's custom resource names."""

    def begin(self, *arguments):
        environment, memory_byte = super().begin(*arguments)
        kind = _node()["Resources"]
        name = next(each for each in ("left", "right") if each in kind)
        return dataclasses.replace(
            environment, environment_id=f"e-{name}", hardware_id=f"{name}-hardware", name=f"Chip {name}"
        ), memory_byte

    def run(self, task, seconds):
        at = Path(tempfile.gettempdir()) / f"at-{_node()['NodeID']}"
        at.touch()  # a test kills a node at work
        time.sleep(0.05)
        at.unlink()
        if not task.is_of_machine:
            return Failure("unsupported", "not counted here")
        return Timing(1, (TimedSample(0.25),))


class DeadlyActor(NullActor):
    """Takes its process down with the task of batch size 13."""

    def run(self, task, seconds):
        if task.is_of_machine and task.cell.batch == 13:
            os._exit(1)
        return super().run(task, seconds)


def _node():
    """The entry of ``ray.nodes()`` for this process's node."""
    node_id = ray.get_runtime_context().get_node_id()
    return next(node for node in ray.nodes() if node["NodeID"] == node_id)
