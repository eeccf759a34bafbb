"""Names as ncu lists them: on Ampere and Ada with and without sparsity, on Hopper by instruction too."""

import pytest

from measure.profiling.ncu_csv import sum_tensor_operations, tensor_kinds

TENSOR = "sm__ops_path_tensor"


def of(**counted):
    return sum_tensor_operations({f"{TENSOR}_{name}.sum": count for name, count in counted.items()})


@pytest.mark.parametrize(
    "name", ["src_fp64", "src_bf16_dst_fp32", "src_fp16", "src_fp4_fp6_fp8_dst_fp32", "op_hgmma_src_fp16_sparsity_off"]
)
def test_metrics_of_floating_point_operations_are_known(name):
    assert tensor_kinds(f"{TENSOR}_{name}")
    assert tensor_kinds(f"{TENSOR}_{name}.sum")


@pytest.mark.parametrize(
    "metric",
    [
        f"{TENSOR}_src_int8",
        f"{TENSOR}_op_igmma_src_int8_sparsity_on",
        f"{TENSOR}_op_bmma_src_int1",
        f"{TENSOR}_src_fp64.avg",
        "sm__inst_executed_pipe_tensor",
        "dram__bytes_read",
    ],
)
def test_integers_and_other_metrics_are_none(metric):
    assert tensor_kinds(metric) is None


def test_a_whole_and_its_parts_are_one():
    assert of(src_bf16_dst_fp32=100, src_bf16_dst_fp32_sparsity_off=60, src_bf16_dst_fp32_sparsity_on=40) == 100
    assert of(src_fp16=100, src_fp16_dst_fp16=30, src_fp16_dst_fp32=70) == 100
    assert of(src_fp8_dst_fp32=100, src_fp4_fp6_fp8_dst_fp32=100) == 100


def test_parts_alone_are_summed():
    assert of(src_bf16_dst_fp32_sparsity_off=60, src_bf16_dst_fp32_sparsity_on=40) == 100
    assert of(src_fp16_dst_fp16=30, src_fp16_dst_fp32=70, src_tf32_dst_fp32=5, src_fp64=1) == 106


def test_of_hoppers_instructions_each_counts_its_own():
    parts = {"op_hmma_src_fp16_dst_fp32_sparsity_off": 30, "op_hgmma_src_fp16_sparsity_off": 70}
    assert of(**parts) == 100
    assert of(src_fp16=100, **parts) == 100
    # A metric that does not see warp-group products has less than these alone.
    assert of(src_fp16=30, **parts) == 100
    assert of(src_fp16_dst_fp32=0, **parts) == 100


def test_nothing_counted_is_nothing():
    assert of(src_fp64=0, src_int8=500) == 0
    assert sum_tensor_operations({}) == 0
