"""A script plays Nsight Compute: it answers, or refuses."""

import os
import shlex
import sys
from types import SimpleNamespace

import pytest
from helpers.cells import cell
from helpers.places import ROOT
from helpers.watching import has_ended, wait_until

from measure.errors import UserError
from measure.machine import devices
from measure.models import catalog
from measure.profiling import ncu
from measure.profiling.ncu_csv import FIXED, OPTIONAL

PLAYED = """#!{python}
import pathlib, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1)")
elif words == ["--query-metrics"]:
    print("Device Example GPU\\ndram__bytes_read  Counter  byte\\nsm__ops_path_tensor_src_tf32_dst_fp32  Counter")
else:
    written = pathlib.Path(words[words.index("--log-file") + 1])
    written.write_text(pathlib.Path({answer!r}).read_text())
    sys.exit(subprocess.run(words[words.index("all", words.index("--target-processes")) + 1:]).returncode)
"""
REFUSED = "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access\n"
BROKEN = "==PROF== Connected to process 1\n==ERROR== LibraryNotLoaded\n==WARNING== No kernels were profiled.\n"


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Puts an ncu onto the PATH that answers with a file."""

    def put(answer=os.devnull):
        script = tmp_path / "ncu"
        script.write_text(PLAYED.format(python=sys.executable, answer=str(answer)))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return put


def count(code="", beat=lambda: None):
    return ncu.count([sys.executable, "-c", code], beat)


LAST_WORDS = {
    "forbidden": (REFUSED, "", NotImplementedError, "NVreg_RestrictProfilingToAdminUsers=0"),  # how it is allowed
    "broken": (BROKEN, "raise SystemExit(9)", RuntimeError, "^LibraryNotLoaded$"),
    "an error": ("", "print('run'); print('MyError: no'); raise SystemExit(1)", RuntimeError, "^MyError: no$"),
    "tf32": ("", "print('NotImplementedError: no tf32'); raise SystemExit(1)", NotImplementedError, "^no tf32$"),
}


@pytest.mark.parametrize(("answer", "code", "problem", "words"), LAST_WORDS.values(), ids=LAST_WORDS)
def test_failures_end_with_their_last_words(play, tmp_path, answer, code, problem, words):
    (tmp_path / "answer").write_text(answer)
    play(tmp_path / "answer")
    with pytest.raises(problem, match=words):
        count(code)


def test_a_program_that_never_ends_is_given_up(play, monkeypatch):
    play()
    monkeypatch.setattr(ncu, "LIMIT_S", 0.5)
    with pytest.raises(RuntimeError, match=r"longer than 0\.5 s"):
        count("import time; time.sleep(60)")


def test_the_program_that_is_counted_ends_with_ncu(play, tmp_path):
    play()
    written = tmp_path / "pid"

    def stop_once_it_runs():
        if written.exists() and written.read_text():
            raise InterruptedError("enough")

    program = f"import os, pathlib, time; pathlib.Path({str(written)!r}).write_text(str(os.getpid())); time.sleep(60)"
    with pytest.raises(InterruptedError, match="enough"):
        count(program, stop_once_it_runs)
    wait_until(lambda: has_ended(int(written.read_text())))


FP32, TWICE = "sm__sass_thread_inst_executed_op_ffma_pred_on", "smsp__sass_thread_inst_executed_op_ffma2_pred_on"
TENSOR = [
    f"sm__ops_path_tensor_{name}"
    for name in ("src_bf16_dst_fp32", "op_hgmma_src_fp16_sparsity_on", "src_fp16", "src_fp8_dst_fp32")
]
OF_INTEGERS = ["sm__ops_path_tensor_src_int8", "sm__ops_path_tensor_op_igmma_src_int8_sparsity_off"]
READ, READ_NEW = "dram__bytes_read", "dram__bytes_op_read"


@pytest.mark.parametrize(
    ("listed", "requested", "others"),
    [
        ([READ, "dram__bytes_write"], [READ, FP32], [TWICE, *TENSOR, READ_NEW]),
        ([READ_NEW, *TENSOR, *OF_INTEGERS], [READ_NEW, *TENSOR], [READ, *OF_INTEGERS]),
    ],
    ids=["Volta", "Hopper"],
)
def test_a_counter_of_some_gpus_is_requested_where_listed(listed, requested, others):
    chosen = ncu.choose_metrics("\n".join(f"{name}   Counter   # of math ops" for name in listed))
    assert {f"{name}.sum" for name in requested} <= set(chosen)
    assert not {f"{name}.sum" for name in others} & set(chosen)


GPU = SimpleNamespace(kind="cuda", torch_name="cuda:0", is_nvidia=True)
(RESNET,) = catalog.find(["resnet18"])


def test_a_device_without_counters_is_refused_before_measuring(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="cpu must be an NVIDIA GPU"):
        ncu.check(devices.find("cpu"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"with Nsight Compute \(ncu, of the CUDA toolkit\) on the PATH"):
        ncu.check(GPU)


def test_a_graph_has_no_counters_of_its_own():
    with pytest.raises(NotImplementedError, match="runs without cuda_graph; count those"):
        ncu.measure(devices.find("cpu"), RESNET, cell(RESNET, variant="channels_last+cuda_graph"), lambda: None)


@pytest.mark.gpu
def test_a_gpus_counters_see_the_work_of_a_model(gpu):
    try:
        ncu.check(gpu)
        result = ncu.measure(gpu, RESNET, cell(RESNET, 8), lambda: None)
    except (UserError, NotImplementedError) as refusal:
        pytest.skip(str(refusal))
    kernels = result.kernels
    assert all(each.time_s > 0 for each in kernels)
    # At fp32 its 11.7 M parameters are read at least.
    assert sum(each.dram_read_byte or 0 for each in kernels) > 4 * 11.7e6
    if result.tensor_gap:
        pytest.skip(result.tensor_gap)
    # ResNet18 does 3.63 GFLOP an input; an algorithm may do less than half of a convolution's, or more by its tiles.
    flop = sum((each.fp32_flop or 0) + (each.tensor_flop or 0) for each in kernels)
    assert 0.3 < flop / (8 * 3.63e9) < 3


def test_the_documented_command_has_all_metrics():
    """All metrics but those that some GPUs lack, and the options of a cell that is measured."""
    text = (ROOT / "docs" / "gpu.md").read_text("utf-8").partition("TENSOR=")[2].partition("```")[0]
    command = shlex.split(text.partition("\n")[2].replace("\\\n", ""))
    metrics = command[command.index("--metrics") + 1].split(",")
    assert metrics == [*(name for name in FIXED if name not in OPTIONAL), "$TENSOR"]
    assert set(ncu.OPTIONS) - {"--replay-mode", "kernel"} <= set(command)  # which is the default
