import json
import re
import signal
import subprocess
import sys
from functools import partial

import pytest
from helpers.places import ROOT
from helpers.rows import cell_columns

from measure import __main__ as command
from measure.cache.folders import MachineFolder
from measure.cache.records import Environment, OperatorTime, Profile, Run, Sample
from measure.errors import UserError
from measure.machine import devices, processor
from measure.machine.environment import current, installed_version
from measure.run.worker import FunctionCall, Worker
from measure.timing.sampling import Timing
from measure.timing.stopwatch import TimedSample
from measure.verbs.flags import parse_percent, parse_time
from measure.verbs.measure import make_request, parser

pytest.importorskip("torch", reason="measuring needs torch")
pytestmark = pytest.mark.slow
SMALL = ["--device", "cpu", "--models", "squeezenet1_0", "--batch-sizes", "1", "--variants", "eager", "--seed", "1"]
OWN = "tests.helpers.small_network:network"
SHORT = ["--device", "cpu", "--models", OWN, "--batch-sizes", "1", "--variants", "eager"]


def call(*arguments):
    return command.main([str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--models", "resnet19"], "the nearest are resnet18"),
        (["--device", "gpu"], "use cpu, cuda, cuda:N, mps or auto"),
        (["--device", "cuda:99"], "there is no cuda:99 on this machine; use cpu"),
        (["--batch-sizes", "0"], "'0' is not a valid number"),
        (["--batch-sizes", "64", "many"], "'many' is not a valid number"),
        (["--batch-sizes", "-1"], "'-1' is not a valid number"),
        (["--batch-sizes", "1.5"], "--batch-sizes: '1.5' is not a valid number"),
        (["--training-batch-sizes", "0"], "--training-batch-sizes: '0' is not a valid number"),
        (["--optimizers", "lion"], "--optimizers: 'lion' is not one of sgd, adam"),
        (["--budget", "soon"], "'soon' is not a valid time; use 90s, 10m or 1h30m"),
        (["--budget", "0"], "'0' is not a valid time"),
        (["--budget", "-5m"], "is not a valid time"),
        (["--precisions", "fp99"], "'fp99' is not one of fp32, tf32, fp16, bf16"),
        (["--sections", "magic"], "'magic' is not one of workload, roofs, inference, training"),
        (["--variants", "magic"], "--variants: 'magic' is not one of eager, autocast"),
        (["--threads", "none"], "--threads: 'none' is not a valid number of threads"),
        (["--threads", "0"], "--threads: '0' is not a valid number of threads"),
        (["--target", "tight"], "--target: 'tight' is not a percentage; use 5% or 2.5%"),
        (["--target", "0%"], "--target: '0%' is not a valid width; use more than 0% and at most 100% of the median"),
        (["--max-rounds", "2"], "--max-rounds: '2' is not a valid number; use a whole number ≥ 3"),
        (["--seed", "x"], "--seed: 'x' is not a valid number; use a whole number ≥ 0"),
        (["--target", "101%"], "--target: '101%' is not a valid width"),
        (["--native-size", "--quick"], "--native-size: is counted, not measured; give --sections workload with it"),
        (["--machine", "../up"], "'../up' is not a valid folder name"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(tmp_path, capsys, arguments, words):
    arguments = [f"{arguments[0]}={arguments[1]}"] if re.match(r"-\d", arguments[1]) else arguments
    assert call("--data", tmp_path, *arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err
    assert output.err.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_a_data_folder_that_cannot_be_written_is_said_before_measuring(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert call("--data", file / "data", *SMALL) == 2
    assert f"--data: {file / 'data'} cannot be written" in capsys.readouterr().err


def test_a_damaged_table_is_said_before_measuring(tmp_path, capsys):
    call("--data", tmp_path, "--machine", "box", "--plan", *SMALL)
    samples = tmp_path / "machines" / "box" / "samples.csv"
    samples.parent.mkdir(parents=True)
    samples.write_text("environment_id,colour\n")
    capsys.readouterr()
    assert call("--data", tmp_path, "--machine", "box", *SMALL) == 2
    assert f"{samples}, line 1: unknown column 'colour'" in capsys.readouterr().err


def test_a_folder_of_another_machine_is_refused(tmp_path, capsys):
    import dataclasses

    here = current(devices.find("cpu"), 1)
    other = dataclasses.replace(here, hardware_id="another", name="Other Chip")
    MachineFolder(tmp_path, "box").put_environment(other)
    assert call("--data", tmp_path, "--machine", "box", *SMALL) == 2
    assert "holds another machine (Other Chip); choose another name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("45", 45), ("2h", 7200), ("1h1s", 3601)]
)
def test_times(text, seconds):
    assert parse_time("--budget", text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10x", "1m1h", "ten", "1.5h", "0s", "٣m"])
def test_no_times(text):
    with pytest.raises(UserError, match=r"--call-limit: .* is not a valid time"):
        parse_time("--call-limit", text)


def test_percentages():
    assert parse_percent("--f", "5%") == 0.05
    assert parse_percent("--f", " 2.5 %") == 0.025
    for text in ("", "5", "-5%", "five%", "1e2%", "٣%", "9" * 400 + "%"):
        with pytest.raises(UserError, match=r"--f: .* is not a percentage; use 5% or 2\.5%"):
            parse_percent("--f", text)


def test_the_plan_lists_what_is_missing_and_measures_nothing(tmp_path, capsys):
    assert call("--data", tmp_path, "--plan", *SMALL) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "squeezenet1_0 batch 1 fp32, round 1" in lines
    assert lines[-1].startswith(f"{len(lines) - 1} to measure")
    assert not any(tmp_path.iterdir())


def test_the_plan_as_json_is_one_object_with_the_same_tasks(tmp_path, capsys):
    assert call("--data", tmp_path, "--plan", *SMALL) == 0
    *labels, _ = capsys.readouterr().out.splitlines()
    assert call("--data", tmp_path, "--plan", "--json", *SMALL) == 0
    said = json.loads(capsys.readouterr().out)
    assert [task["label"] for task in said["tasks"]] == labels
    assert said["machine"]["folder"].startswith(str(tmp_path / "machines"))


def test_the_list_as_json_is_one_object(capsys):
    assert call("--list", "--json", "--models", "alexnet") == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert (model["model"], model["parameter_count"]) == ("alexnet", 61_100_840)  # torchvision's published count


def test_with_v_a_plan_says_on_standard_error_what_it_leaves_out_and_why(tmp_path):
    folder = MachineFolder(tmp_path, "box")
    here = current(devices.find("cpu"), processor.physical_cores())
    cell = cell_columns("squeezenet1_0", 1, "inference", environment=here.environment_id)
    folder.put_run(Run(**cell, status="oom", reason="full", recorded_at="2026-01-01", round=0), [])
    plan = ["-m", "measure", "--data", str(tmp_path), "--machine", "box", *SMALL, "--plan"]
    quiet, told = python(*plan), python(*plan, "-v")
    assert quiet.stderr == ""
    assert told.stdout == quiet.stdout
    cell = "squeezenet1_0 batch 1 fp32 inference eager"
    assert f"measure.run.cell_tasks: not tried again without --force: {cell}, oom (full)" in told.stderr
    assert "measure.run.plan: inference: 0 to do" in told.stderr


def test_quick_is_a_part_of_the_default_so_that_it_measures_nothing_twice():
    quick = make_request(parser().parse_args(["--quick"]))
    whole = make_request(parser().parse_args([]))
    assert set(quick.models) < set(whole.models)
    assert set(quick.batch_sizes) < set(whole.batch_sizes)
    assert set(quick.training_models) < set(quick.models)
    assert quick.training_batch_sizes == whole.training_batch_sizes == [32]


def test_a_run_with_a_budget_times_eager_mode_alone_unless_variants_are_named():
    def asked(*arguments):
        request = make_request(parser().parse_args(list(arguments)))
        return request.batch_sizes, list(request.variants), request.budget_s

    assert asked() == ([1, 64, 256], [], None)  # the variants that are usual on the machine
    assert asked("--budget", "none") == asked()
    assert asked("--budget", "20m") == ([1, 64, 256], ["eager"], 1200.0)
    assert asked("--budget", "20m", "--quick") == ([1, 64], ["eager"], 1200.0)
    assert asked("--budget", "90s", "--batch-sizes", "2", "--variants", "compile") == ([2], ["compile"], 90.0)


def test_all_models_are_trained_with_sgd_unless_asked_otherwise():
    whole = make_request(parser().parse_args([]))
    assert whole.training_models == whole.models
    assert whole.optimizers == ["sgd"]
    asked = ["--training-batch-sizes", "64", "32", "--optimizers", "adam", "sgd", "--models", "vgg11"]
    request = make_request(parser().parse_args(asked))
    assert [model.name for model in request.training_models] == ["vgg11"]
    assert request.training_batch_sizes == [32, 64]
    assert request.optimizers == ["sgd", "adam"]


def test_a_run_has_all_sections_but_hardware_counters_unless_they_are_named():
    def sections(*arguments):
        return make_request(parser().parse_args(list(arguments))).sections

    assert sections() == sections("--quick") == ["workload", "roofs", "inference", "training", "operators"]
    assert sections("--quick", "--sections", "operators") == ["operators"]


def test_explicit_models_go_before_quick():
    request = make_request(parser().parse_args(["--quick", "--models", "vgg11"]))
    assert [model.name for model in request.models] == ["vgg11"]
    assert [model.name for model in request.training_models] == ["vgg11"]


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_plan_of_a_budget_is_shown_part_by_part(tmp_path, capsys):
    assert call("--data", tmp_path, "--plan", "--budget", "3m", *SMALL, "--sections", "inference") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("batch 1, about ")
    assert said[0].endswith("; all of 1 within 3 min:")
    assert said[1] == "  squeezenet1_0 batch 1 fp32, round 1"
    assert said[2].startswith("further rounds, about ")
    assert said[-1].startswith("3 to measure on ")


HEAVY = "torch torchvision numpy pandas scipy altair numba rich psutil pynvml yaml packaging"

LOADED = """
import sys
from measure.__main__ import main
try:
    main(sys.argv[2:])
finally:
    print("loaded", sorted(set(sys.argv[1].split()) & set(sys.modules)))
"""


def loaded_by(*arguments):
    """What a command prints, and after it which of the heavy modules it imported."""
    answer = python("-c", LOADED, HEAVY, *arguments)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--help"], "\n  compare A B  what changed between"),
        (["--help"], "\n  doctor       find what would spoil"),
        (["--help"], "2 bad input; 130 stopped by Ctrl-C"),
        (["--list"], "wav2vec2_base"),
        (["--list"], "61.1 M  1.43 GFLOP"),  # AlexNet, from the committed workload table
        (["show"], "mobilenet_v2"),
        (["model", "--help"], "usage: python -m measure model "),
    ],
)
def test_what_only_reads_imports_nothing_heavy(arguments, said):
    printed = loaded_by(*arguments)
    assert said in printed
    assert printed.endswith("loaded []\n")


IMPORT_ALL = """
import importlib, pkgutil, sys
package, *absent = sys.argv[1:]
sys.modules.update(dict.fromkeys(absent))
for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
    if not module.name.startswith("measure.roofs."):  # compiled kernels, imported where one is measured
        importlib.import_module(module.name)
"""


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        ("measure", ["report", "altair", "pandas", "typst", "numba"]),
        ("report", ["torch", "torchvision", "torchaudio", "timm", "psutil", "rich", "pynvml"]),
    ],
)
def test_each_side_of_the_cache_works_without_what_only_the_other_needs(package, absent):
    answer = python("-c", IMPORT_ALL, package, *absent)
    assert answer.returncode == 0, answer.stderr


def test_importing_the_package_imports_neither_torch_nor_pandas():
    answer = python("-c", "import sys, measure, measure.cache; print({'torch', 'pandas'} & set(sys.modules))")
    assert answer.stdout.strip() == "set()"


@pytest.mark.parametrize("verb", ["compare", "doctor"])
def test_a_verb_has_a_help_of_its_own(verb):
    answer = python("-m", "measure", verb, "--help")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(f"usage: python -m measure {verb} ")


def test_a_run_that_is_stopped_keeps_what_it_has_and_goes_on_later(tmp_path, capsys):
    pytest.importorskip("torchvision", reason="the models are torchvision's")
    arguments = ["--data", str(tmp_path), "--machine", "box", "--models", "alexnet", "--batch-sizes", "1"]
    command = [sys.executable, "-m", "measure", *arguments]
    # A shell's background job, which these tests may be, ignores Ctrl-C, and so would what it starts.
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=heeding) as run:
        for line in run.stdout:
            if line.startswith("counts: "):
                run.send_signal(signal.SIGINT)
                break
        rest = run.stdout.read()
    assert run.returncode == 130
    assert re.search(r"^Stopped after [1-9]\d* of \d+\. Everything measured so far is kept; the files", rest, re.M)
    assert f"{tmp_path}/workload\nTo go on with what is left: python -m measure --data {tmp_path} --machine box" in rest
    assert call(*arguments, "--plan") == 0
    plan = capsys.readouterr().out.splitlines()
    assert "workload alexnet fp32" not in plan
    assert "alexnet batch 1 fp32, round 1" in plan


@pytest.fixture
def signals():
    """SIGTERM and SIGHUP as a terminal leaves them, but that a test fails where its process would end by them."""

    def end(number, _frame):
        raise RuntimeError(f"signal {number} ends the process")

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("forked_workers", "signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_and_a_closed_terminal_stop_as_ctrl_c_does(tmp_path, capsys, monkeypatch, number):
    arguments = ["--data", tmp_path, "--machine", "box", *SHORT, "--sections", "workload", "inference"]
    run, done = Worker.run, []

    def run_one_and_be_killed(worker, task, *limits):
        if isinstance(task, FunctionCall):  # the model is looked at before the run
            return run(worker, task, *limits)
        if done:
            signal.raise_signal(number)
        done.append(task)
        return run(worker, task, *limits)

    monkeypatch.setattr(Worker, "run", run_one_and_be_killed)
    assert call(*arguments) == 130
    assert "\nStopped after 1 of 4. Everything measured so far is kept" in capsys.readouterr().out
    assert call(*arguments, "--plan") == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("workload")] == []


@pytest.mark.usefixtures("signals")
def test_under_nohup_a_closed_terminal_stops_nothing(tmp_path, capsys, monkeypatch):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    latencies_s = iter([1.0, 1.01, 0.99])

    def run(*_):
        signal.raise_signal(signal.SIGHUP)
        return Timing(1, (TimedSample(next(latencies_s)),), ())

    monkeypatch.setattr(Worker, "run", run)
    assert call("--data", tmp_path, "--machine", "box", *SMALL, "--sections", "inference") == 0
    assert "\n3 done, 0 left; " in capsys.readouterr().out


SLOW = """
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "measure.verbs.measure":
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
from measure.__main__ import main
sys.exit(main(["--list"]))
"""


def test_ctrl_c_pressed_again_and_again_while_modules_are_imported_is_one_line():
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-c", SLOW]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, preexec_fn=heeding, **pipes) as run:
        assert run.stdout.readline() == "importing\n"
        for _ in range(3):
            run.send_signal(signal.SIGINT)
        assert run.stderr.read() == "\npython -m measure: stopped\n"
    assert run.returncode == 130


def test_measuring_from_end_to_end_resumes_and_then_has_nothing_to_do(tmp_path, capsys):
    arguments = ["--data", str(tmp_path), "--machine", "box", *SHORT, "--max-rounds", "3"]
    arguments += ["--sections", "workload", "inference"]
    first = python("-m", "measure", *arguments, "-v")
    assert first.returncode == 0, first.stderr
    assert f"  [4/4] {OWN} batch 1 fp32, round 3: " in first.stdout
    assert [line.partition(":")[0] for line in first.stdout.splitlines() if ": 1 done; " in line] == [
        "counts", "round 1", "round 2", "round 3",
    ]  # fmt: skip
    done = f"4 done, 0 left; the files are in {tmp_path}/machines/box and {tmp_path}/workload\n"
    assert done in first.stdout
    assert first.stdout.endswith(
        "\nThe paper has 1 model at batch 1, 3 rounds of each.\nIt lacks nothing of what was asked for.\n"
        f"Next: python -m report --data {tmp_path}\n"
    )
    for said in ("timing.sampling: warm-up: ", "timing.sampling: sampling ends after "):
        assert f" measure.{said}" in first.stderr
    folder = MachineFolder(tmp_path, "box")
    runs, samples = folder.rows(Run), folder.rows(Sample)
    assert [(run.round, run.status) for run in runs] == [(0, "ok"), (1, "ok"), (2, "ok")]
    assert {row.round for row in samples} == {0, 1, 2}
    assert len(samples) >= 18
    assert {row.environment_id for row in samples} == {row.environment_id for row in folder.rows(Environment)}
    assert call(*arguments) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
    assert folder.rows(Sample) == samples


@pytest.mark.parametrize(
    ("latencies_s", "rounds"),
    [
        ([1.0, 1.01, 0.99], 3),  # ±2.8 %: 4.85 / sqrt(3) times a deviation of 1 %
        # ±70 % after three rounds; of 1.0, 1.3, 0.8 and 1.0 or of five not much less
        ([1.0, 1.3, 0.8, 1.0, 1.0], 5),
    ],
)
def test_rounds_are_added_until_the_latency_is_known_or_there_are_enough(
    tmp_path, capsys, monkeypatch, latencies_s, rounds
):
    given = iter(latencies_s)
    monkeypatch.setattr(Worker, "run", lambda *_: Timing(1, (TimedSample(next(given)),), ()))
    arguments = ["--data", tmp_path, "--machine", "box", *SMALL, "--sections", "inference", "--max-rounds", "5"]
    assert call(*arguments) == 0
    said = capsys.readouterr().out
    assert f"round {rounds}: 1 done; " in said
    assert f"\n{rounds} done, 0 left; " in said
    runs = MachineFolder(tmp_path, "box").rows(Run)
    assert [run.round for run in runs] == list(range(rounds))
    assert len({(run.sitting, run.seed, run.version) for run in runs}) == 1
    assert (runs[0].seed, runs[0].version.split()[0]) == (1, installed_version("roofwright"))
    assert call(*arguments) == 0
    assert "Nothing left to measure" in capsys.readouterr().out


@pytest.mark.usefixtures("forked_workers")
def test_operators_are_profiled_from_end_to_end_and_once(tmp_path, capsys):
    arguments = ["--data", tmp_path, "--machine", "box", *SHORT]
    arguments += ["--training-batch-sizes", "2", "--sections", "operators"]
    assert call(*arguments) == 0
    assert re.search(r"^round 1: 2 done; ", capsys.readouterr().out, re.M)
    folder = MachineFolder(tmp_path, "box")
    assert {(row.phase, row.status) for row in folder.rows(Profile)} == {("inference", "ok"), ("step", "ok")}
    times = folder.rows(OperatorTime)
    for profile in folder.rows(Profile):
        own = [row.time_s for row in times if row.phase == profile.phase]
        assert 0 < sum(own) <= profile.profiled_s
    assert {row.stage for row in times} == {"inference", "forward", "backward", "update"}
    assert call(*arguments) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
    assert folder.rows(OperatorTime) == times
