import pytest

from measure.cluster.places import Place, find, parse_accelerators
from measure.errors import UserError


def node(name, alive=True, **resources):
    """As ``ray.nodes()`` has it; ``T4=1`` stands for its ``accelerator_type:T4``."""
    named = {f"accelerator_type:{key}" if key in ("T4", "A100") else key: value for key, value in resources.items()}
    return {"NodeID": f"id-{name}", "NodeManagerHostname": name, "Alive": alive, "Resources": named}


HEAD = node("head", memory=1e9)
CPU = node("cpu", CPU=8.0)
T4 = node("t4", CPU=9.0, GPU=2.0, T4=1.0)
DEAD = node("dead", alive=False, CPU=4.0, GPU=1.0, A100=1.0)


def test_each_gpu_is_a_place_and_so_are_the_cores_of_a_node_without():
    assert find([T4, HEAD, DEAD, CPU], "auto") == [
        Place("cpu", "id-cpu", "cpu", 0, 8),
        Place("t4", "id-t4", "cuda", 0, 4, "T4"),  # 9 cores between 2 GPUs
        Place("t4", "id-t4", "cuda", 1, 4, "T4"),
    ]


def test_a_kind_of_device_may_be_asked_for():
    assert [(each.host, each.device, each.cores) for each in find([T4, CPU], "cpu")] == [
        ("cpu", "cpu", 8),
        ("t4", "cpu", 9),
    ]
    assert [each.name for each in find([T4, CPU], "cuda")] == ["t4 T4 0", "t4 T4 1"]
    unnamed = node("box", CPU=2.0, GPU=1.0)
    assert [each.name for each in find([T4, CPU, unnamed], "auto")] == [
        "box GPU 0",
        "cpu processor",
        "t4 T4 0",
        "t4 T4 1",
    ]


def test_accelerators_leave_the_rest_out():
    a100 = node("big", CPU=4.0, GPU=1.0, A100=1.0)
    assert [each.name for each in find([T4, CPU, a100], "auto", ["A100"])] == ["big A100 0"]


@pytest.mark.parametrize(
    ("nodes", "device", "accelerators", "complaint"),
    [
        ([CPU], "cuda:1", [], "--device: with --cluster use auto, cpu or cuda, not 'cuda:1'"),
        ([CPU], "mps", [], "--device: with --cluster use auto, cpu or cuda, not 'mps'"),
        ([T4], "cpu", ["T4"], "--accelerators: names kinds of GPUs; leave it out, or use --device cuda"),
        ([T4, DEAD], "auto", ["A100"], "--accelerators: the cluster has no A100; there are T4"),
        ([CPU], "auto", ["A100"], "--accelerators: the cluster has no A100; no node names the kind of its GPUs"),
        ([CPU, HEAD], "cuda", [], "--cluster: none of its 2 nodes has GPUs; see ray status"),
        ([DEAD], "auto", [], "--cluster: none of its 0 nodes has CPUs or GPUs; see ray status"),
    ],
)
def test_what_is_not_there_is_said(nodes, device, accelerators, complaint):
    with pytest.raises(UserError) as caught:
        find(nodes, device, accelerators)
    assert complaint in str(caught.value)


def test_accelerators_are_a_list():
    assert parse_accelerators("T4, L4,A100-80G,T4") == ["T4", "L4", "A100-80G"]
    for text in ("", "T4,", "T4;L4"):
        with pytest.raises(UserError, match=r"--accelerators: .* is not a list of kinds"):
            parse_accelerators(text)
