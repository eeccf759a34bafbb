"""The bytes of states under ZeRO, against the paper's own example."""

import pytest

from measure.planning.states import state_bytes, state_memory


@pytest.mark.parametrize(("zero", "gigabyte"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_example_of_the_zero_paper(zero, gigabyte):
    """Rajbhandari et al. 2020, arXiv:1910.02054, figure 1: 7.5 billion parameters on 64 GPUs, mixed precision, Adam."""
    held = state_memory(7.5e9, state_bytes("fp16", "adam"), zero, 64).byte
    assert held / 1e9 == pytest.approx(gigabyte, abs=0.05)


@pytest.mark.parametrize(
    ("precision", "optimizer", "parts"),
    [
        ("bf16", "adam", (2, 2, 4, 8)),
        ("fp16", "sgd", (2, 2, 4, 4)),
        ("fp32", "adam", (4, 4, 0, 8)),
        ("tf32", "sgd", (4, 4, 0, 4)),
    ],
)
def test_the_bytes_of_a_parameter(precision, optimizer, parts):
    of = state_bytes(precision, optimizer)
    assert (of.weight, of.gradient, of.master, of.moments) == parts
    assert of.total == sum(parts)


def test_a_stage_shards_its_part_and_those_of_earlier_stages():
    of = state_bytes("bf16", "adam")
    # 100 parameters on 4 GPUs: 200 B of weights, 200 of gradients, 1,200 of the optimiser; a quarter of what is sharded
    parts = [(200, 200, 1200), (200, 200, 300), (200, 50, 300), (50, 50, 300)]
    for zero, expected in enumerate(parts):
        held = state_memory(100, of, zero, 4)
        assert (held.weight_byte, held.gradient_byte, held.optimizer_byte) == expected
