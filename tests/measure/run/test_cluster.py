"""Runs on a local Ray cluster of two nodes, and the parts that need none."""

import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.rows import ENVIRONMENT

from measure.__main__ import run as run_verb
from measure.cache.folders import MachineFolder, machine_names
from measure.domain.records import Run, Sample
from measure.errors import UserError
from measure.run import cluster as room
from measure.run.cluster import ClusterRun, DeviceActor, Place, connected, find_places
from measure.run.worker import FunctionCall
from measure.timing.sampling import Sampling

SMALL = "--device cpu --sections inference --variants eager --models alexnet vgg11 --batch-sizes 1 2 4"


def node(name, alive=True, **resources):
    """As ``ray.nodes()`` has it; ``T4=1`` is its ``accelerator_type:T4``."""
    named = {f"accelerator_type:{key}" if key in ("T4", "A100") else key: value for key, value in resources.items()}
    return {"NodeID": f"id-{name}", "NodeManagerHostname": name, "Alive": alive, "Resources": named}


HEAD = node("head", memory=1e9)
CPU = node("cpu", CPU=8.0)
T4 = node("t4", CPU=9.0, GPU=2.0, T4=1.0)
DEAD = node("dead", alive=False, CPU=4.0, GPU=1.0, A100=1.0)
UNNAMED = node("box", CPU=2.0, GPU=1.0)
A100 = node("big", CPU=4.0, GPU=1.0, A100=1.0)
T4S = [Place("t4", "id-t4", "cuda", number, 4, "T4") for number in (0, 1)]  # of 9 cores
CORES = Place("cpu", "id-cpu", "cpu", 0, 8)


@pytest.mark.parametrize(
    ("nodes", "flags", "places"),
    [
        ([T4, HEAD, DEAD, CPU], ("auto",), [CORES, *T4S]),  # GPUs, or else cores
        ([T4, CPU], ("cpu",), [CORES, Place("t4", "id-t4", "cpu", 0, 9)]),
        ([T4, CPU, UNNAMED], ("cuda",), [Place("box", "id-box", "cuda", 0, 2), *T4S]),
        ([T4, CPU, A100], ("auto", " A100 "), [Place("big", "id-big", "cuda", 0, 4, "A100")]),
    ],
)
def test_places_are_found_by_device_and_by_accelerator(nodes, flags, places):
    assert find_places(nodes, *flags) == places


NONE_ALIVE = "--cluster: no node alive has a device for --device"


@pytest.mark.parametrize(
    ("nodes", "device", "accelerators", "complaint"),
    [
        ([CPU], "cuda:1", None, "--device: with --cluster use auto, cpu or cuda, not 'cuda:1'"),
        ([T4], "cpu", "T4", f"{NONE_ALIVE} cpu --accelerators T4; see ray status"),
        ([T4, DEAD], "auto", "T4,A100", "--accelerators: the cluster has no 'A100'; use kinds of its own: T4"),
        ([DEAD], "auto", None, f"{NONE_ALIVE} auto; see ray status"),
    ],
)
def test_a_cluster_without_the_device_is_one_sentence(nodes, device, accelerators, complaint):
    with pytest.raises(UserError) as caught:
        find_places(nodes, device, accelerators)
    assert str(caught.value).startswith(complaint)


def test_an_address_without_an_answer_fails_before_ray_is_used(monkeypatch):
    addresses = []
    ray = SimpleNamespace(init=lambda address, **_: addresses.append(address), shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"ray://localhost:{port}", "auto"):
            with connected(address):
                assert addresses.pop() == address
    for address in (f"ray://127.0.0.1:{port}", "127.0.0.1:port"):
        with pytest.raises(UserError, match=r"^--cluster: no Ray cluster answers at "), connected(address):
            pass
    assert addresses == []


@pytest.mark.parametrize(("node", "gpus", "cores"), [(T4, 1.0, 4.0), (node("cores", CPU=8.0), 0.0, 8.0)])
def test_an_actor_reserves_its_device_and_one_that_fails_is_left_out(monkeypatch, capsys, node, gpus, cores):
    reserved, killed = [], []
    twin = node | {"NodeID": "id-twin", "NodeManagerHostname": "a twin"}

    def options(num_cpus, num_gpus, scheduling_strategy):
        reserved.append((num_cpus, num_gpus))
        begin = SimpleNamespace(remote=lambda *_: (scheduling_strategy, object()))  # stands for the result
        return SimpleNamespace(remote=lambda: SimpleNamespace(begin=begin))

    def get(result, timeout):
        if result[0] == "id-twin":
            raise RuntimeError("it lacks a driver")
        return ENVIRONMENT, 2**30

    ray = SimpleNamespace(
        nodes=lambda: [node, twin], remote=lambda _: SimpleNamespace(options=options), get=get, kill=killed.append,
        wait=lambda results, **_: (results, []),
    )  # fmt: skip
    strategies = SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node_id, soft: node_id)
    for name, module in (("ray", ray), ("ray.util", None), ("ray.util.scheduling_strategies", strategies)):
        monkeypatch.setitem(sys.modules, name, module)
    run = ClusterRun(None, Sampling(), "auto", None, None, Path(), None, 0)
    run._start_actors()
    assert set(reserved) == {(cores, gpus)}
    assert {device.place.node_id for device in run.ready} == {node["NodeID"]}
    assert len(run.ready) == len(killed) == len(reserved) / 2
    assert "a twin" in capsys.readouterr().out


def test_an_actor_has_a_local_environment_and_ends_in_time(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as Ray does
    actor = DeviceActor()
    environment, memory_byte = actor.begin("cpu", "1", Sampling())
    assert "OMP_NUM_THREADS" not in os.environ
    assert (environment.device, environment.threads) == ("cpu", 1)
    assert memory_byte == environment.memory_byte
    assert actor.run(FunctionCall(divmod, (7, 2)), 0.0) is None  # no time is left
    actor.close()


@pytest.fixture(scope="module")
def host():
    """The nodes' folder for temporary files; its path is short, as the paths of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def cluster(host):
    """A cluster with a head that measures nothing, and that soon notices the death of a node."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        patch.syspath_prepend(Path(__file__).parent)
        patch.setenv("TMPDIR", str(host))
        patch.setenv("RAY_health_check_initial_delay_ms", "0")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "2")
        patch.setenv("RAY_prestart_worker_first_driver", "0")
        head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": str(host / "ray")}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.of_kind = defaultdict(list)
        yield cluster
        cluster.shutdown()


def have(cluster, *kinds):
    """Add and remove nodes until there is one for each of these kinds; return them. Nodes start slowly."""
    wanted = Counter(kinds)
    for kind, nodes in cluster.of_kind.items():
        while len(nodes) > wanted[kind]:
            cluster.remove_node(nodes.pop())
    for kind, count in wanted.items():
        while len(cluster.of_kind[kind]) < count:
            node = cluster.add_node(num_cpus=2, resources={kind: 1}, object_store_memory=80_000_000)
            cluster.of_kind[kind].append(node)
    return [node for kind in wanted for node in cluster.of_kind[kind]]


@pytest.fixture
def run(cluster, tmp_path, monkeypatch):
    """Runs the command on the cluster with an actor that measures nothing."""

    def run(flags, actor="NullActor"):
        import cluster_actors

        monkeypatch.setattr(room, "DeviceActor", getattr(cluster_actors, actor))
        return run_verb([*flags.split(), "--cluster", cluster.address, "--data", str(tmp_path)])

    return run


def rounds(folder):
    return Counter((row.model, row.batch, row.round) for row in folder.rows(Run))


def once(*batches):
    return Counter(
        {(model, batch, number): 1 for model in ("alexnet", "vgg11") for batch in batches for number in range(3)}
    )


@pytest.mark.slow
def test_different_machines_measure_in_parallel_and_resume(cluster, run, tmp_path, capsys):
    have(cluster, "left", "right")
    assert run(SMALL + " 8 --plan") == 0
    assert "24 to measure on Chip left into" in capsys.readouterr().out
    assert not machine_names(tmp_path)
    assert run(SMALL + " 8 --budget 1s") == 0  # 24 tasks of 50 ms take longer
    assert "To go on with what is left: " in capsys.readouterr().out
    assert run(SMALL + " 8") == 0
    names = machine_names(tmp_path)
    assert [name.rpartition("-")[2] for name in names] == ["left", "righ"]  # four letters of the hardware's hash
    for name, kind in zip(names, ("left", "right"), strict=True):
        folder = MachineFolder(tmp_path, name)
        assert rounds(folder) == once(1, 2, 4, 8)
        assert {row.environment_id for row in folder.rows(Run)} == {f"e-{kind}"}
        assert [row.latency_s for row in folder.rows(Sample)] == [0.25] * 24
    assert "done, 0 left" in capsys.readouterr().out
    assert run(SMALL + " 8") == 0
    assert "Nothing left to measure" in capsys.readouterr().out


@pytest.mark.slow
def test_when_a_node_dies_another_does_each_task_once(cluster, run, host, tmp_path, capsys):
    nodes = have(cluster, "left", "left")

    def kill_a_busy_node():
        while True:
            for node in nodes if any(machine_names(tmp_path)) else ():
                if (host / f"at-{node.node_id}").exists():
                    cluster.of_kind["left"].remove(node)
                    return cluster.remove_node(node, allow_graceful=False)
            time.sleep(0.005)

    threading.Thread(target=kill_a_busy_node, daemon=True).start()
    assert run(SMALL + " 8 13 16", "DeadlyActor") == 0
    printed = capsys.readouterr().out
    assert "is lost; its task goes to another device" in printed
    (name,) = machine_names(tmp_path)
    folder = MachineFolder(tmp_path, name)
    deadly = {row.model: (row.round, row.status, row.reason) for row in folder.rows(Run) if row.batch == 13}
    assert deadly == dict.fromkeys(("alexnet", "vgg11"), (0, "error", "2 nodes died while they ran it"))
    assert rounds(folder) == once(1, 2, 4, 8, 16) + Counter({(model, 13, 0): 1 for model in deadly})
