"""A user measures a network that decides by values: counts, latency, the answer about it."""

import json

import pytest
from helpers.small_network import mixture

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.domain.records import Run
from measure.domain.workload_records import ONE_RUN, Workload

NAME = "helpers.small_network:mixture"
# 8 tokens by the gate, and each by two experts of 16 to 32 to 16
FLOP = 2 * 8 * 16 * 4 + 2 * 8 * 2 * (16 * 32 + 32 * 16)


@pytest.mark.usefixtures("forked_workers")
def test_a_mixture_of_experts_is_counted_timed_and_answered_for(tmp_path):
    data = tmp_path / "data"
    words = f"--device cpu --threads 1 --models {NAME} --batch-sizes 8 --variants eager --max-rounds 1 --data {data}"
    assert (
        command.main([*words.split(), "--sections", "workload", "inference", "training", "--training-batch-sizes", "8"])
        == 0
    )
    (counted,) = Workloads(data).rows(Workload)
    assert (counted.path, counted.forward_flop, counted.reason) == (ONE_RUN, FLOP, None)
    (name,) = machine_names(data)
    assert {row.status for row in MachineFolder(data, name).rows(Run)} == {"ok"}
    assert command.main([*words.split(), "--sections", "workload"]) == 0  # the code is as it was counted


@pytest.mark.usefixtures("roof")
def test_an_answer_about_a_network_at_hand_says_so():
    import torch

    from measure.verbs.model import model

    network, tokens = mixture(8)
    before, drawn = [each.clone() for each in network.parameters()], torch.get_rng_state()
    answer = model(network, tokens)
    assert answer.demands[0].flop == FLOP
    assert "one run's path" in str(answer)
    assert json.loads(json.dumps(answer.as_json()["demands"]))[0]["path"] == ONE_RUN
    assert all(map(torch.equal, before, network.parameters()))
    assert all(each.grad is None for each in network.parameters())
    assert torch.equal(drawn, torch.get_rng_state())
