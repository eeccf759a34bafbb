"""``tests/data/ncu-raw-format.csv`` is written by hand to the format that NVIDIA documents; no GPU was at hand."""

import pytest
from helpers.places import TESTS

from measure.errors import UserError
from measure.hardware_counters import raw_csv

FORMAT = TESTS / "data" / "ncu-raw-format.csv"
LINES = FORMAT.read_text().splitlines()
CONVOLUTION, PRODUCT = "sm80_xmma_fprop", "void at::native::vectorized_elementwise_kernel"


def parsed(lines=LINES, steps=1):
    counted = raw_csv.parse(lines, "some.csv", steps)
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
    assert "of compute capability 7.5" in counted.tensor_gap
    counted, *_ = parsed([line.replace("sm__inst_executed_pipe_tensor", "not_there") for line in tensor])
    assert counted.tensor_gap == "the instructions of tensor cores were not counted"


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
        (LINES[:4], "some.csv: holds no kernel; export it with ncu --csv --page raw"),
        ([], "holds no kernel"),
        (['"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"', '"0","sgemm","dram__bytes.sum","byte","1"'],
         "this is the page of details; export it with ncu --csv --page raw"),
        (changed("gpu__time_duration.sum", "something.sum"), "add --metrics gpu__time_duration.sum to ncu"),
        (changed('"54.00"', '"fast"'), "kernel 3, column gpu__time_duration.sum: 'fast' in 'us' cannot be read"),
        (changed('"us"', '"fortnight"'), "'50.00' in 'fortnight' cannot be read; export it with --print-units base"),
        (changed('"54.00"', '"n/a"'), "kernel 3 has no gpu__time_duration.sum"),
        ([*LINES[:-1], LINES[-1].rpartition(",")[0]], "kernel 4 has 30 cells where the header has 31"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_one_sentence(lines, words):
    with pytest.raises(UserError, match=r"some\.csv: ") as problem:
        parsed(lines)
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)
