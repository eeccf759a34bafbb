"""Nsight Compute is played by a script that writes what it would: ``tests/data/ncu-raw-format.csv``, or a refusal."""

import os
import stat
import sys
import time
from pathlib import Path

import pytest
from helpers.places import TESTS

from measure.errors import UserError
from measure.profiling import ncu

psutil = pytest.importorskip("psutil", reason="a process that ended is told from one that runs by psutil")

FORMAT = TESTS / "data" / "ncu-raw-format.csv"
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

    def put(answer=FORMAT):
        script = tmp_path / "ncu"
        script.write_text(PLAYED.format(python=sys.executable, answer=str(answer)))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return put


def count(code="", beat=lambda: None):
    return ncu.count([sys.executable, "-c", code], beat)


def test_the_lines_and_the_version(play):
    play()
    beats = []
    lines, tool = count("import time; time.sleep(1.5)", lambda: beats.append(None))
    assert lines == FORMAT.read_text().splitlines()
    assert tool == "ncu 2025.3.1.0"
    assert len(beats) >= 2


def test_a_refusal_says_how_an_administrator_allows_it(play, tmp_path):
    (tmp_path / "refused").write_text(REFUSED)
    play(tmp_path / "refused")
    with pytest.raises(NotImplementedError, match="NVreg_RestrictProfilingToAdminUsers=0"):
        count()


def test_failures_are_told_with_their_last_words(play, tmp_path):
    play()
    with pytest.raises(RuntimeError, match=r"^OutOfMemoryError: CUDA out of memory$"):
        count("print('working'); print('OutOfMemoryError: CUDA out of memory'); raise SystemExit(1)")
    with pytest.raises(NotImplementedError, match=r"^no tf32 here$"):
        count("print('NotImplementedError: no tf32 here'); raise SystemExit(1)")
    (tmp_path / "broken").write_text(BROKEN)
    play(tmp_path / "broken")
    with pytest.raises(RuntimeError, match=r"^LibraryNotLoaded$"):
        count("raise SystemExit(9)")


def test_a_program_that_never_ends_is_given_up(play, monkeypatch):
    play()
    monkeypatch.setattr(ncu, "LIMIT_S", 0.5)
    with pytest.raises(RuntimeError, match=r"longer than 0\.5 s"):
        count("import time; time.sleep(60)")


def has_ended(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_program_that_is_counted_ends_with_ncu(play, tmp_path):
    play()
    written = tmp_path / "pid"

    def stop_once_it_runs():
        if written.exists() and written.read_text():
            raise InterruptedError("enough")

    program = f"import os, pathlib, time; pathlib.Path({str(written)!r}).write_text(str(os.getpid())); time.sleep(60)"
    with pytest.raises(InterruptedError, match="enough"):
        count(program, stop_once_it_runs)
    pid = int(written.read_text())
    for _ in range(300):  # the system ends it soon after
        if has_ended(pid):
            return
        time.sleep(0.1)
    pytest.fail("the program goes on")


def test_without_ncu_it_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"Nsight Compute \(ncu\) is not on the PATH; it comes with the CUDA toolkit"):
        count()


def test_what_only_some_gpus_count_is_asked_for_where_it_is_listed():
    volta = ncu.choose_metrics("dram__bytes_read\ndram__bytes_write\nsm__inst_executed_pipe_tensor")
    assert "dram__bytes_read.sum" in volta
    assert "sm__sass_thread_inst_executed_op_ffma_pred_on.sum" in volta
    assert not any("ops_path_tensor" in name for name in volta)
    assert not any("_op_read" in name for name in volta)
    newest = ncu.choose_metrics("dram__bytes_op_read\ndram__bytes_op_write\nsm__ops_path_tensor_src_bf16_dst_fp32")
    assert "dram__bytes_op_read.sum" in newest
    assert "dram__bytes_read.sum" not in newest
    assert "sm__ops_path_tensor_src_bf16_dst_fp32.sum" in newest
    assert not any("ffma2" in name for name in newest)


def test_every_listed_metric_of_tensor_operations_is_asked_for_but_those_of_integers():
    names = ("op_hgmma_src_fp16_sparsity_off", "op_hgmma_src_fp16_sparsity_on", "src_fp16", "src_fp8_dst_fp32")
    listed = [f"sm__ops_path_tensor_{name}" for name in (*names, "src_int8", "op_igmma_src_int8_sparsity_off")]
    asked = ncu.choose_metrics("\n".join(f"{name}   Counter   # of math ops" for name in listed))
    assert {name for name in asked if "ops_path" in name} == {f"sm__ops_path_tensor_{name}.sum" for name in names}


def test_packed_instructions_are_asked_for_where_they_are_listed():
    names = [f"smsp__sass_thread_inst_executed_op_f{name}2_pred_on" for name in ("add", "mul", "fma")]
    asked = ncu.choose_metrics("\n".join(names))
    assert {f"{name}.sum" for name in names} <= set(asked)


def test_the_command_line_leaves_clocks_alone_replays_kernels_and_waits_for_the_mark():
    line = ncu.command("ncu", ["a.sum", "b.sum"], Path("out.csv"), ["python", "step.py"])
    text = " ".join(line)
    for words in (
        "--clock-control none", "--replay-mode kernel", "--profile-from-start off", "--csv --page raw",
        "--metrics a.sum,b.sum", "--log-file out.csv",
    ):  # fmt: skip
        assert words in text
    assert line[-2:] == ["python", "step.py"]
