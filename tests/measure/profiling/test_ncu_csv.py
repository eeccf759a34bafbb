"""``tests/data/ncu-raw-format.csv`` is written by hand to the format that NVIDIA documents; no GPU was at hand."""

import pytest
from helpers.places import TESTS

from measure.errors import UserError
from measure.profiling import ncu_csv
from measure.profiling.ncu_csv import sum_tensor_operations, tensor_kinds

FORMAT = TESTS / "data" / "ncu-raw-format.csv"
LINES = FORMAT.read_text().splitlines()
START = next(place for place, line in enumerate(LINES) if line.startswith('"ID"'))
CONVOLUTION, PRODUCT = "sm80_xmma_fprop", "void at::native::vectorized_elementwise_kernel"
PRODUCT_NAME = LINES[START + 3].split('","')[4]


def parsed(lines=LINES, steps=1):
    counted = ncu_csv.parse(lines, "some.csv", steps, "ncu")
    return counted, *counted.kernels


def changed(old, new):
    """The lines with some text in place of other, which is there."""
    text = "\n".join(LINES)
    assert old in text
    return text.replace(old, new).splitlines()


def test_the_launches_of_a_kernel_are_summed_in_base_units():
    counted, convolution, product = parsed()
    assert convolution.kernel.startswith(CONVOLUTION)
    assert product.kernel.startswith(PRODUCT)
    assert (counted.capability, counted.tensor_gap) == ("8.0", None)
    assert (convolution.calls, product.calls) == (2, 2)
    assert convolution.time_s == pytest.approx(104e-6)  # 50 + 54 us
    assert convolution.dram_read_byte == pytest.approx(84e6)  # 40,000 + 44,000 Kbyte
    assert convolution.dram_write_byte == pytest.approx(40e6)
    assert convolution.l2_byte == pytest.approx(400e6)
    assert convolution.l1_byte == pytest.approx(800e6)  # Mbyte
    assert convolution.fp32_flop == 2 * (1000 + 2 * 2000 + 3000)  # add + 2 fma + mul
    assert (convolution.fp64_flop, convolution.fp16_flop) == (0, 0)
    assert convolution.tensor_flop == pytest.approx(4.096e9)
    assert convolution.tensor_instruction == 2e6
    assert (product.fp32_flop, product.tensor_flop) == (2e6, 0)


def test_several_steps_are_averaged():
    _, convolution, _ = parsed(steps=2)
    assert (convolution.calls, convolution.time_s) == (1, pytest.approx(52e-6))
    assert convolution.fp32_flop == 8000


def test_a_metric_that_the_gpu_lacks_is_unknown():
    _, convolution, product = parsed(changed('"lts__t_bytes.sum"', '"something_else.sum"'))
    assert convolution.l2_byte is product.l2_byte is None
    _, convolution, _ = parsed([line.replace('"3,000"', '"n/a"') for line in LINES])
    assert convolution.fp32_flop is None
    renamed = changed("dram__bytes_read.sum", "dram__bytes_op_read.sum")
    assert parsed(renamed)[1].dram_read_byte == pytest.approx(84e6)


def test_tensor_cores_of_volta_are_counted_by_their_instructions_and_those_of_turing_are_not():
    tensor = [line.replace("sm__ops_path_tensor", "not_there") for line in LINES]
    counted, convolution, product = parsed([line.replace('"8.0"', '"7.0"') for line in tensor])
    assert convolution.tensor_flop == 512 * 2e6
    assert counted.tensor_gap is None
    counted, convolution, product = parsed([line.replace('"8.0"', '"7.5"') for line in tensor])
    assert convolution.tensor_flop is None
    assert product.tensor_flop == 0  # it ran no instruction of theirs
    assert "compute capability 7.5" in counted.tensor_gap
    counted, *_ = parsed([line.replace("sm__inst_executed_pipe_tensor", "not_there") for line in tensor])
    assert counted.tensor_gap


BF16, TF32 = (f"sm__ops_path_tensor_src_{source}_dst_fp32.sum" for source in ("bf16", "tf32"))


def test_tensor_cores_of_hopper_are_counted_by_metrics_of_other_names():
    # What cuBLAS runs there are warp-group products: HGMMA, not HMMA.
    lines = changed(TF32, "sm__ops_path_tensor_op_hgmma_src_tf32_dst_fp32_sparsity_off.sum")
    lines = [line.replace(BF16, "sm__ops_path_tensor_op_hmma_src_tf32_dst_fp32_sparsity_off.sum") for line in lines]
    counted, convolution, product = parsed(lines)
    assert (convolution.tensor_flop, product.tensor_flop) == (4.096e9, 0)
    assert counted.tensor_gap is None


def test_a_metric_and_its_parts_are_counted_once():
    lines = [line.replace('"0","0","0","n/a","2,048', '"2,048,000,000","0","0","n/a","2,048') for line in LINES]
    lines = [line.replace(BF16, TF32.replace(".sum", "_sparsity_off.sum")) for line in lines]
    assert lines[-2].count("2,048,000,000") == 2
    assert parsed(lines)[1].tensor_flop == 4.096e9


def test_instructions_of_tensor_cores_without_operations_are_a_gap_and_not_0():
    counted, convolution, product = parsed([line.replace("2,048,000,000", "0") for line in LINES])
    assert (convolution.tensor_flop, product.tensor_flop) == (None, 0)
    assert counted.tensor_gap == ("the GPU (compute capability 8.0) does not count every operation of its tensor cores")


def test_packed_instructions_of_blackwell_are_twice_the_work():
    packed = [f"smsp__sass_thread_inst_executed_op_f{name}2_pred_on.sum" for name in ("add", "mul", "fma")]
    kernels = [line + ',"10","100","1,000"' for line in LINES[START + 2 :]]
    header, units = LINES[START : START + 2]
    _, convolution, product = parsed([f"{header},{','.join(packed)}", f'{units},"inst","inst","inst"', *kernels])
    # Two launches: additions and multiplications of two numbers are 2 FLOP, multiply-adds 4
    assert convolution.fp32_flop == 2 * (1000 + 2 * 2000 + 3000) + 2 * (2 * 10 + 2 * 100 + 4 * 1000)
    assert product.fp32_flop == 2e6 + 2 * (2 * 10 + 2 * 100 + 4 * 1000)


def test_a_kernel_that_runs_in_few_of_the_steps_is_called_once():
    assert [each.calls for each in parsed(steps=8)[1:]] == [1, 1]


def test_a_long_name_is_cut():
    _, convolution, _ = parsed([line.replace("sm80_xmma_fprop", "sm80_" + 5000 * "x") for line in LINES])
    assert (len(convolution.kernel), convolution.calls) == (4000, 2)


@pytest.mark.parametrize(
    ("unit", "text", "second"),
    [("ns", "50,000.00", 50e-6), ("nsecond", "50000", 50e-6), ("second", "5.0e-05", 50e-6), ("msecond", "0.05", 50e-6)],
)
def test_units_of_all_versions(unit, text, second):
    lines = [line.replace('"us"', f'"{unit}"').replace('"50.00"', f'"{text}"').replace('"54.00"', f'"{text}"')
             for line in LINES]  # fmt: skip
    assert parsed(lines)[1].time_s == pytest.approx(2 * second)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (LINES[:4], "some.csv: no table of kernels; export it with ncu --csv --page raw"),
        ([], "some.csv: no table of kernels"),
        (changed("gpu__time_duration.sum", "something.sum"), "--csv --page raw and --metrics gpu__time_duration.sum"),
        ([line.replace(PRODUCT_NAME, "") for line in LINES], "kernel 2 is incomplete"),
        *(
            (changed('"54.00"', f'"{text}"'), f"kernel 3, column gpu__time_duration.sum: '{text}' in 'us' cannot be")
            for text in ("nan", "inf", "-1", "1e400", "1,5", "1.234,5", "1,23,456", "٣")
        ),
        (changed('"54.00"', '"fast"'), "kernel 3, column gpu__time_duration.sum: 'fast' in 'us' cannot be read"),
        (changed('"us"', '"fortnight"'), "'50.00' in 'fortnight' cannot be read; export it with --print-units base"),
        (changed('"54.00"', '"n/a"'), "kernel 3 is incomplete"),
        ([*LINES[:-1], LINES[-1].rpartition(",")[0]], "kernel 4 is incomplete"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_one_sentence(lines, words):
    with pytest.raises(UserError, match=r"some\.csv: ") as problem:
        parsed(lines)
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


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
