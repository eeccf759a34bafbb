"""A station that measures nothing, for tests of the cluster; its node's processes find it through PYTHONPATH."""

import dataclasses
import os
import tempfile
import time
from pathlib import Path

import ray

from measure.cluster.station import Station
from measure.run.task import Failure
from measure.timing.sampling import TimedSample, Timing


class NullStation(Station):
    """Takes 50 ms a task, and says that its machine is of the kind that its node's custom resource names."""

    def begin(self):
        environment, memory_byte = super().begin()
        kind = _kind()
        # Tells the test which node is at work
        (Path(tempfile.gettempdir()) / f"at-{ray.get_runtime_context().get_node_id()}").touch()
        return dataclasses.replace(
            environment, environment_id=f"e-{kind}", hardware_id=f"{kind}-hardware", name=f"Chip {kind}"
        ), memory_byte

    def lock(self):
        """As if each node were a host of its own."""
        return super().lock().with_suffix(f".{_kind()}")

    def run(self, task, seconds):
        time.sleep(0.05)
        if not task.is_of_machine:
            return Failure("unsupported", "not counted here")
        return Timing(1, (TimedSample(0.25),), (), 0.04)


class DeadlyStation(NullStation):
    """Takes its process down with the task of batch size 13."""

    def run(self, task, seconds):
        if task.is_of_machine and task.cell.batch == 13:
            os._exit(1)
        return super().run(task, seconds)


def _kind():
    """The custom resource of this process's node, such as ``left``."""
    node_id = ray.get_runtime_context().get_node_id()
    (node,) = [node for node in ray.nodes() if node["NodeID"] == node_id]
    return next(name for name in ("left", "right") if name in node["Resources"])
