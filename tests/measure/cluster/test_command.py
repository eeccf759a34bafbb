"""Whole runs on Ray's cluster of several nodes on one machine."""

import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from helpers import cluster_stations
from helpers.places import ROOT

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cluster import command
from measure.errors import UserError
from measure.run.request import parser

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

pytestmark = pytest.mark.long
SMALL = "--device cpu --sections inference --variants eager --models alexnet vgg11 --batch-sizes 1 2 4"


def test_no_cluster_is_one_sentence(tmp_path, monkeypatch):
    """Before any test starts one."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    words = f"{SMALL} --cluster auto --data {tmp_path}".split()
    with pytest.raises(UserError, match=r"--cluster: no Ray cluster answers at 'auto' .*; start one with ray start"):
        command.measure(parser().parse_args(words))


def test_counters_are_for_one_machine(tmp_path):
    words = f"--sections hardware-counters --cluster auto --data {tmp_path}".split()
    with pytest.raises(UserError, match="--sections: counters are read on one machine at a time"):
        command.measure(parser().parse_args(words))


@pytest.fixture(scope="module")
def host():
    """The nodes' folder for temporary files, locks among them; its path is short, as those of sockets have to be."""
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def head(host):
    """A cluster of a head that measures nothing, and that sees soon when a node is dead."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "tests"))
        patch.setenv("TMPDIR", str(host))
        patch.setenv("RAY_health_check_initial_delay_ms", "0")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("RAY_health_check_failure_threshold", "2")
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # processes that no station runs in
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "include_dashboard": False, "temp_dir": str(host / "ray")},
        )
        yield cluster
        cluster.shutdown()


@pytest.fixture(scope="module")
def cluster(head):
    """The cluster and, by kind, its nodes that measure, which one test leaves to the next since they start slowly."""
    head.of_kind = defaultdict(list)
    return head


def have(cluster, *kinds):
    """Add and remove nodes until there is one for each of these kinds; return them."""
    wanted = Counter(kinds)
    for kind, nodes in cluster.of_kind.items():
        while len(nodes) > wanted[kind]:
            cluster.remove_node(nodes.pop())
    for kind, count in wanted.items():
        nodes = cluster.of_kind[kind]
        while len(nodes) < count:
            nodes.append(cluster.add_node(num_cpus=2, resources={kind: 1}, object_store_memory=80_000_000))
    return [node for kind in wanted for node in cluster.of_kind[kind]]


def run(cluster, data, flags=SMALL, station=cluster_stations.NullStation):
    words = [*flags.split(), "--cluster", cluster.address, "--data", str(data)]
    return command.measure(parser().parse_args(words), station)


def rounds(folder):
    return Counter((row.model, row.batch, row.round) for row in folder.runs())


ALL = Counter(
    {(model, batch, number): 1 for model in ("alexnet", "vgg11") for batch in (1, 2, 4) for number in range(3)}
)


def test_machines_of_different_kinds_measure_side_by_side(cluster, tmp_path, capsys):
    have(cluster, "left", "right")
    assert run(cluster, tmp_path) == 0
    names = machine_names(tmp_path)
    assert [name.rpartition("-")[2] for name in names] == ["left", "righ"]  # of the hardware's hash, four letters
    for name, kind in zip(names, ("left", "right"), strict=True):
        folder = MachineFolder(tmp_path, name)
        assert [row.name for row in folder.environments()] == [f"Chip {kind}"]
        assert rounds(folder) == ALL
        assert {row.environment_id for row in folder.runs()} == {f"e-{kind}"}
        assert [row.latency_s for row in folder.samples()] == [0.25] * 18
    assert "[36/36]" in capsys.readouterr().out
    # All is measured: the same command finds nothing to do.
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.csv")}
    assert run(cluster, tmp_path) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.csv")} == before


def test_when_a_node_dies_another_of_its_kind_goes_on(cluster, host, tmp_path, capsys):
    """Both nodes lie on this host and say that they are one machine, so that one at a time may measure."""
    nodes = have(cluster, "left", "left")
    for mark in host.glob("at-*"):  # of earlier tests
        mark.unlink()
    began = threading.Thread(target=_kill_the_busy_one, args=(cluster, nodes, host, tmp_path), daemon=True)
    began.start()
    assert run(cluster, tmp_path, SMALL + " 8 16 32") == 0
    said = capsys.readouterr().out
    assert "is left out: process" in said
    assert "is measuring on this device of" in said
    assert "is lost; its task goes to another station" in said
    (name,) = machine_names(tmp_path)
    expected = {
        (model, batch, number)
        for model in ("alexnet", "vgg11")
        for batch in (1, 2, 4, 8, 16, 32)
        for number in range(3)
    }
    assert rounds(MachineFolder(tmp_path, name)) == Counter(dict.fromkeys(expected, 1))


def _kill_the_busy_one(cluster, nodes, host, data):
    """When the first rows are there."""
    while not any(machine_names(data)):
        time.sleep(0.02)
    (node,) = [node for node in nodes if (host / f"at-{node.node_id}").exists()]
    cluster.of_kind["left"].remove(node)
    cluster.remove_node(node, allow_graceful=False)


def test_a_task_that_kills_its_stations_becomes_a_row(cluster, tmp_path, capsys):
    have(cluster, "left")
    flags = "--device cpu --sections inference --variants eager --models alexnet --batch-sizes 1 13 14"
    assert run(cluster, tmp_path, flags, cluster_stations.DeadlyStation) == 0
    (name,) = machine_names(tmp_path)
    runs = MachineFolder(tmp_path, name).runs()
    assert [(row.status, row.reason, row.round) for row in runs if row.batch == 13] == [
        ("error", "2 nodes died while they ran it", 0)
    ]
    assert Counter(row.batch for row in runs if row.status == "ok") == {1: 3, 14: 3}


def test_a_real_station_counts_as_the_command_does_at_home(cluster, tmp_path):
    have(cluster, "plain")
    flags = "--device cpu --sections workload --models alexnet --batch-sizes 1"
    assert run(cluster, tmp_path, flags, command.Station) == 0
    (row,) = Workloads(tmp_path).models()
    assert (row.model, row.status) == ("alexnet", "ok")
    # 714 188 480 multiply-adds: torchvision prints 0.71 GFLOPS and means MACs.
    assert row.forward_flop == 2 * 714_188_480


def test_the_plan_names_each_kind(cluster, tmp_path, capsys):
    have(cluster, "left")
    assert run(cluster, tmp_path, SMALL + " --plan") == 0
    said = capsys.readouterr().out
    assert "18 to measure on Chip left into" in said
    assert not machine_names(tmp_path)
