from dataclasses import replace

import pytest
from helpers.rows import layer, operator, operator_time

from measure.domain.operator_work import family, operator_work, product_shares

ATTENTION = {"layer_kind": "attention"}


@pytest.mark.parametrize(
    ("profiled", "counted", "name"),
    [
        ("linear", "addmm", "matrix product"),
        ("matmul", "bmm", "matrix product"),
        ("baddbmm", "addbmm", "matrix product"),
        ("inner", "_scaled_mm", "matrix product"),
        ("einsum", "mm", "matrix product"),
        ("softmax", "_softmax", "softmax"),
        ("_softmax_backward_data", "_softmax_backward_data", "softmax"),
        ("log_softmax", "_log_softmax", "log_softmax"),
        ("layer_norm", "native_layer_norm", "layer_norm"),
        ("native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm"),
        ("conv2d", "convolution", "convolution"),
        ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "fused attention"),
        ("add_", "add", "add"),
        ("embedding", "embedding_dense_backward", "embedding"),
    ],
)
def test_a_profile_and_a_count_name_an_operator_alike(profiled, counted, name):
    assert family(profiled) == family(counted) == name


def test_softmax_and_products_inside_attention_stand_apart():
    layers = [replace(layer(), path="block.attention", layer_kind="attention"), layer()]
    times = [
        replace(operator_time(path="block.attention", name="matmul"), calls=2),
        replace(operator_time(path="block.attention", name="baddbmm"), calls=3),
        operator_time(path="block.attention", name="softmax", time_s=0.25),
        operator_time(name="linear", time_s=0.25),
        replace(operator_time(path=None, name="add_", time_s=1.0), stage="update"),
    ]
    counted = [
        operator(name="bmm", flop=20, other_flop=0, calls=2, **ATTENTION),
        operator(name="baddbmm", flop=15, other_flop=5, calls=1, **ATTENTION),
        operator(name="_softmax", flop=0, other_flop=5, calls=1, **ATTENTION),
        operator(name="mm", flop=35, other_flop=0, calls=1),
    ]
    rows = operator_work(times, layers, counted)
    assert [(row.layer_kind, row.operator, row.time_s, row.share, row.flop) for row in rows] == [
        ("optimiser", "add", 1.0, 0.5, None),  # the whole takes 2 s; the optimiser is not counted
        ("attention", "matrix product", 0.5, 0.25, 60),
        ("attention", "softmax", 0.25, 0.125, 5),
        ("linear", "matrix product", 0.25, 0.125, 35),
    ]
    assert rows[1].calls == 5
    assert [row.flop_per_s for row in rows] == [None, 120, 20, 140]
    assert product_shares(rows) == (0.375, 0.95)  # 0.75 of 2 s, 95 of 100 FLOP


def test_without_counts_the_products_have_a_share_of_the_time_alone():
    rows = operator_work([operator_time()], [layer()], [])
    assert product_shares(rows) == (1.0, None)
    assert operator_work([], [layer()], [operator()]) == []
