"""``tests/data/ncu-raw-format.csv`` is written by hand to the format that NVIDIA documents. ncu 2025.3.1 wrote
``ncu-h200.csv`` on an H200: ResNet-18's first convolution and normalisation, for eight images.
"""

import pytest
from helpers.places import ROOT, TESTS

from measure.cache.folders import MachineFolder
from measure.domain.records import KernelCounters
from measure.errors import UserError
from measure.profiling import ncu_csv
from measure.profiling.ncu_csv import HALF_FMA, TENSOR_INSTRUCTIONS, sum_tensor_operations
from measure.published.loose_csv import decode

FORMAT = TESTS / "data" / "ncu-raw-format.csv"
LINES = FORMAT.read_text().splitlines()
START = next(place for place, line in enumerate(LINES) if line.startswith('"ID"'))
CONVOLUTION, PRODUCT = "sm80_xmma_fprop", "void at::native::vectorized_elementwise_kernel"
PRODUCT_NAME = LINES[START + 3].split('","')[4]


def parsed(lines=LINES, steps=1):
    counted = ncu_csv.parse(lines, "some.csv", steps, "ncu")
    return counted, *counted.kernels


def put(old, new, lines=LINES):
    """Lines with ``new`` in place of ``old``, which is there."""
    assert any(old in line for line in lines)
    return [line.replace(old, new) for line in lines]


VOLTA = put("sm__ops_path_tensor", "not_there")
PACKED = [
    LINES[START]
    + "".join(f",smsp__sass_thread_inst_executed_op_f{name}2_pred_on.sum" for name in ("add", "mul", "fma")),
    LINES[START + 1] + ',"inst","inst","inst"',
    *(line + ',"10","100","1,000"' for line in LINES[START + 2 :]),
]
CONSTANTS = [  # a quarter of the million instructions of each convolution's tensor pipe writes constants
    LINES[START] + ",sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum",
    LINES[START + 1] + ',"inst"',
    *(line + (',"250,000"' if '"1,000,000","0","0","0","n/a","2' in line else ',"0"') for line in LINES[START + 2 :]),
]
TIME = "gpu__time_duration.sum"
# ncu's default page: a line per metric of a launch. A copy reads and writes 1 MiB in 4 us.
LONG = [
    '"ID","Process ID","Kernel Name","CC","Section Name","Metric Name","Metric Unit","Metric Value"',
    *(
        f'"0","7","copy_kernel","8.0","Command line profiler metrics","{metric}","{unit}","{value}"'
        for metric, unit, value in (
            ("dram__bytes_read.sum", "byte", "1,048,576"), ("dram__bytes_write.sum", "byte", "1,048,576"),
            (TIME, "ns", "4,000"),
        )
    ),
]  # fmt: skip
FP32 = 2 * (1000 + 2 * 2000 + 3000)  # of two launches: add + 2 fma + mul
TWICE = 2 * (2 * 10 + 2 * 100 + 4 * 1000)  # packed additions and multiplications are 2 FLOP, multiply-adds 4
GAP_OF = "the GPU (compute capability {}) does not count every operation of its tensor cores"


@pytest.mark.parametrize(
    ("lines", "steps", "convolution", "product", "gap"),
    [
        (
            LINES, 1,
            {
                "calls": 2, "time_s": 104e-6, "dram_read_byte": 84e6, "dram_write_byte": 40e6, "l2_byte": 400e6,
                "l1_byte": 800e6, "fp32_flop": FP32, "fp64_flop": 0, "fp16_flop": 0, "tensor_flop": 4.096e9,
                "tensor_instruction": 2e6,
            },  # 50 + 54 us, 40,000 + 44,000 Kbyte, Mbyte
            {"calls": 2, "fp32_flop": 2e6, "tensor_flop": 0}, None,
        ),
        (LINES, 2, {"calls": 1, "time_s": 52e-6, "fp32_flop": FP32 / 2}, {}, None),
        (LINES, 8, {"calls": 1}, {"calls": 1}, None),  # in few of the steps
        # A metric that the GPU lacks is unknown, or has another name.
        (put('"lts__t_bytes.sum"', '"something_else.sum"'), 1, {"l2_byte": None}, {"l2_byte": None}, None),
        (put('"3,000"', '"n/a"'), 1, {"fp32_flop": None}, {}, None),
        (put("dram__bytes_read.sum", "dram__bytes_op_read.sum"), 1, {"dram_read_byte": 84e6}, {}, None),
        # Volta's tensor cores are counted by their instructions, Turing's are not; the product ran none.
        (put('"8.0"', '"7.0"', VOLTA), 1, {"tensor_flop": 512 * 2e6}, {}, None),
        (put('"8.0"', '"7.5"', VOLTA), 1, {"tensor_flop": None}, {"tensor_flop": 0}, "compute capability 7.5"),
        (put("sm__inst_executed_pipe_tensor", "not_there", VOLTA), 1, {}, {}, "pipe_tensor.sum was not counted"),
        (put("2,048,000,000", "0"), 1, {"tensor_flop": None}, {"tensor_flop": 0}, GAP_OF.format("8.0")),  # not 0
        (PACKED, 1, {"fp32_flop": FP32 + TWICE}, {"fp32_flop": 2e6 + TWICE}, None),  # Blackwell's
        (CONSTANTS, 1, {"tensor_instruction": 1.5e6}, {}, None),
        # An H200 ran 275,968 of them in a convolution of fp32, and no product of its tensor cores.
        (put("2,048,000,000", "0", put("250,000", "1,000,000", CONSTANTS)), 1, {"tensor_flop": 0}, {}, None),
    ],
)  # fmt: skip
def test_the_launches_of_a_kernel_are_summed_in_base_units(lines, steps, convolution, product, gap):
    counted, *kernels = parsed(lines, steps)
    assert counted.capability == next(each for each in ("7.0", "7.5", "8.0") if f'"{each}"' in "".join(lines))
    assert (counted.tensor_gap is None) if gap is None else gap in counted.tensor_gap
    for kernel, name, expected in zip(kernels, (CONVOLUTION, PRODUCT), (convolution, product), strict=True):
        assert kernel.kernel.startswith(name)
        assert {key: getattr(kernel, key) for key in expected} == pytest.approx(expected)


def test_a_line_per_metric():
    launches = [*LONG, *(line.replace('"0","7"', '"1","7"') for line in LONG[1:])]
    for lines, steps, calls in ((LONG, 1, 1), (launches, 2, 1), (launches, 1, 2)):
        counted, copy = parsed(["==PROF== Connected to process 7", *lines], steps)
        assert (counted.capability, copy.kernel, copy.calls) == ("8.0", "copy_kernel", calls)
        assert copy.time_s == pytest.approx(calls * 4e-6)
        assert (copy.dram_read_byte, copy.dram_write_byte) == (calls * 2**20, calls * 2**20)
        assert (copy.l2_byte, copy.fp32_flop, copy.dram_byte) == (None, None, None)


def test_missing_metrics_are_named():
    assert parsed()[0].missing == ()
    together = [line.replace("dram__bytes_read.sum", "dram__bytes.sum") for line in LONG if "write" not in line]
    for lines in (LONG, together):
        counted, _ = parsed(lines)
        assert {"lts__t_bytes.sum", "sm__inst_executed_pipe_tensor.sum"} <= {*counted.missing}
        assert not {name for name in counted.missing if name.startswith(("dram", TIME))}
    assert "dram__bytes_read.sum" in parsed([LONG[0], LONG[3]])[0].missing
    copy = parsed(together)[1]
    assert (copy.dram_byte, copy.dram_read_byte, copy.dram_write_byte) == (2**20, None, None)


def test_launches_that_the_steps_do_not_divide():
    launches = [line.replace('"0","7"', f'"{number}","7"') for number in range(8) for line in LONG[1:]]
    uneven = {steps: parsed([LONG[0], *launches], steps)[0].uneven for steps in (1, 2, 3, 8, 16)}
    assert uneven == {1: None, 2: None, 3: "copy_kernel", 8: None, 16: "copy_kernel"}


def test_constants_of_an_h200_are_no_products():
    """The ten kernels of ResNet-18 in ``data``. Six ran instructions of the tensor pipe: each is counted as 64 FLOP in
    fp16, of 32 threads' multiply-adds, so that all of them wrote constants.
    """
    rows = MachineFolder(ROOT / "data", "nvidia-h200-03df").rows(KernelCounters)
    assert sum(row.tensor_instruction > 0 for row in rows) == 6
    names = [f"sm__{ncu_csv.INSTRUCTIONS}_h{name}_pred_on.sum" for name in ("add", "mul")]
    none = dict.fromkeys([*names, *(f"sm__ops_path_tensor_op_hmma_src_{name}.sum" for name in ("fp16", "tf32"))], 0.0)
    for further, flop in ((0, 0.0), (1, None)):  # with one more instruction the operations are unknown again
        launches = [
            (row.kernel, {TIME: row.time_s, TENSOR_INSTRUCTIONS: row.tensor_instruction + further,
                          HALF_FMA: row.fp16_flop / 2, **none})
            for row in rows
        ]  # fmt: skip
        counted = ncu_csv.summarise(launches, "9.0", 1, "ncu")
        assert {each.tensor_flop for each in counted.kernels} == {flop}
        assert (counted.tensor_gap is None) == (further == 0)
        assert further or {(each.tensor_instruction, each.fp16_flop) for each in counted.kernels} == {(0.0, 0.0)}


def test_an_h200_counts_the_arithmetic_of_the_first_convolution():
    lines = (TESTS / "data" / "ncu-h200.csv").read_text().splitlines()
    counted, convolution, normalisation = parsed(lines)
    assert counted.capability == "9.0"
    # 8 images, 64 channels of 112 x 112, windows of 3 x 7 x 7; its blocks overlap the edges a little
    assert 1 <= convolution.fp32_flop / (2 * 8 * 64 * 112**2 * 3 * 7**2) < 1.05
    assert 1 <= convolution.dram_read_byte / (4 * 8 * 3 * 224**2) < 1.05  # the images
    assert (convolution.tensor_flop, convolution.fp16_flop, counted.tensor_gap) == (0, 0, None)
    # A normalisation reads the convolution's output from cache or memory, and writes it anew
    assert normalisation.l2_byte > 2 * 4 * 8 * 64 * 112**2


@pytest.mark.parametrize(("unit", "text"), [("ns", "50,000.00"), ("msecond", "0.05"), ("second", "5.0e-05")])
def test_units_of_all_versions(unit, text):
    lines = put('"54.00"', f'"{text}"', put('"50.00"', f'"{text}"', put('"us"', f'"{unit}"')))
    assert parsed(lines)[1].time_s == pytest.approx(2 * 50e-6)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (LINES[:4], "some.csv: no table of kernels; export it with ncu --csv --page raw"),
        (put("gpu__time_duration.sum", "something.sum"), "--csv --page raw and --metrics gpu__time_duration.sum"),
        ([line.replace(PRODUCT_NAME, "") for line in LINES], "kernel 2 is incomplete"),
        *(
            (put('"54.00"', f'"{text}"'), f"kernel 3, column gpu__time_duration.sum: '{text}' ")
            for text in ("nan", "-1", "1e400", "1,5", "1.234,5", "٣")
        ),
        (put('"us"', '"fortnight"'), "'50.00' in 'fortnight' cannot be read; export it with --print-units base"),
        (["==PROF== Connected", "==ERROR== ERR_NVGPUCTRPERM - no permission"], "failed: 'ERR_NVGPUCTRPERM - no perm"),
        ([*LINES[: START + 1], LINES[START + 1][:40], *LINES[START + 2 :]], f"line {START + 2}: units are missing"),
        (LONG[:1], "no table of kernels"), ([LONG[0], LONG[3].replace(TIME, "other")], "none of its metrics"),
        (LONG[:3], "kernel 1 is incomplete"), ([*LONG, LONG[3].replace('"ns"', '"us"')], "has several units"),
        ([*LINES[:-1], LINES[-1].rpartition(",")[0]], "kernel 4 is incomplete"),
    ],
)  # fmt: skip
def test_an_unreadable_table_is_one_sentence(lines, words):
    with pytest.raises(UserError, match=r"some\.csv[:,] ") as problem:
        parsed(lines)
    assert words in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    "content",
    [
        *(lambda text, name=name: f"\ufeff{text}".encode(name) for name in ("utf-8", "utf-16-le", "utf-16-be")),
        lambda text: f'ID, name\n"ID","step"\nID,Kernel Name\n{text}'.encode(),  # the program's own lines
    ],
)  # fmt: skip
def test_marks_and_lines_above_the_table_change_nothing(content):
    table = "\n".join(LINES[START:])  # its header is the first line
    assert parsed(decode(content(table)).splitlines()) == parsed()


@pytest.mark.parametrize(
    ("cells", "is_refused"),
    [
        (["1.000"], True), (["1.000", "1,234"], True), (["1.000", "12,5"], True), (["1.234,5"], True),
        (["1.000", "0.125"], False), (["1.000", "1,234.5"], False), (["1,000"], False),
    ],
)  # fmt: skip
def test_numbers_that_two_locales_read_differently_are_refused(cells, is_refused):
    launches = [LONG[3].replace('"0"', f'"{n}"').replace("4,000", cell) for n, cell in enumerate(cells)]
    if is_refused:
        with pytest.raises(UserError, match=r"some\.csv: .*English.*LC_ALL=C"):
            parsed([LONG[0], *launches])
    else:
        assert parsed([LONG[0], *launches])[1].time_s > 0


HOPPERS = {"op_hmma_src_fp16_dst_fp32_sparsity_off": 30, "op_hgmma_src_fp16_sparsity_off": 70}


@pytest.mark.parametrize(
    ("counted", "sum_"),
    [
        # A whole and its parts are one; parts alone are summed.
        ({"src_bf16_dst_fp32": 100, "src_bf16_dst_fp32_sparsity_off": 60, "src_bf16_dst_fp32_sparsity_on": 40}, 100),
        ({"src_fp16": 100, "src_fp16_dst_fp16": 30, "src_fp16_dst_fp32": 70}, 100),
        ({"src_fp8_dst_fp32": 100, "src_fp4_fp6_fp8_dst_fp32": 100}, 100),
        ({"src_fp16_dst_fp16": 30, "src_fp16_dst_fp32": 70, "src_tf32_dst_fp32": 5, "src_fp64": 1}, 106),
        # Of Hopper's instructions each counts its own. A metric that misses warp-group products has less than these.
        (HOPPERS, 100), ({"src_fp16": 100} | HOPPERS, 100), ({"src_fp16": 30} | HOPPERS, 100),
        ({"src_fp16_dst_fp32": 0} | HOPPERS, 100),
        ({"src_fp64": 0, "src_int8": 500}, 0), ({}, 0),
    ],
)  # fmt: skip
def test_operations_are_counted_once(counted, sum_):
    metrics = {f"sm__ops_path_tensor_{name}.sum": count for name, count in counted.items()}
    assert sum_tensor_operations(metrics) == sum_
