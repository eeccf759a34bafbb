"""The least times of collectives within a node and between nodes, by hand."""

import pytest

from measure.domain.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, SEND
from measure.planning.fabric import Fabric

H100 = Fabric(450e9, 8, 50e9)


def test_an_all_reduce_within_a_node_sends_nearly_twice_its_message():
    # 2 x 7 / 8 x 1 GB = 1.75 GB at 450 GB/s
    assert H100.least_s(ALL_REDUCE, 1e9, 8) == pytest.approx(1.75 / 450)
    assert H100.least_s(ALL_GATHER, 1e9, 8) == H100.least_s(REDUCE_SCATTER, 1e9, 8) == pytest.approx(0.875 / 450)
    assert H100.least_s(ALL_REDUCE, 1e9, 1) == 0


def test_between_nodes_the_gpus_of_a_node_share_its_networks():
    # 64 GPUs, 8 nodes: a node sends 2 x 7 / 8 x 1 GB by 8 networks, 1.75 / 8 / 50 s; the link 2 x 63 / 64 / 450 s
    assert H100.least_s(ALL_REDUCE, 1e9, 64) == pytest.approx(max(1.75 / 8 / 50, 2 * 63 / 64 / 450))
    # one GPU of each of 8 nodes, so the same with one network
    assert H100.least_s(ALL_REDUCE, 1e9, 8, stride=8) == pytest.approx(1.75 / 50)
    # of a message to 16 GPUs, half goes to the other node
    assert H100.least_s(ALL_TO_ALL, 1e9, 16) == pytest.approx(0.5 / 50)
    assert H100.least_s(SEND, 1e9, 4, stride=8) == pytest.approx(1 / 50)


def test_without_a_network_the_link_stands_for_it():
    unknown = Fabric(450e9, 8)
    assert unknown.crosses(2, 8)
    assert not unknown.crosses(2, 4)
    assert unknown.least_s(SEND, 1e9, 2, stride=8) == pytest.approx(1 / 450)
