"""A user's code sets something of the whole process: the cell still runs under the settings of its name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import gpu
from helpers.cells import HASTY, cell

import measure
from measure.counting import count
from measure.machine import devices, settings
from measure.machine.settings import SettingChangedError
from measure.models import own_models
from measure.timing import calls
from measure.verbs import model as model_verb

SETTING = {  # a user's line, by the name that reads the setting
    "torch.backends.cuda.matmul.fp32_precision": "torch.set_float32_matmul_precision('medium')",
    "torch.backends.cudnn.conv.fp32_precision": "torch.backends.cudnn.allow_tf32 = True",
    "torch.backends.cudnn.rnn.fp32_precision": "torch.backends.cudnn.rnn.fp32_precision = 'tf32'",
    "torch.backends.mkldnn.matmul.fp32_precision": "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'",
    "torch.backends.fp32_precision": "torch.backends.fp32_precision = 'tf32'",
    "torch.backends.cuda.matmul.allow_fp16_accumulation": "torch.backends.cuda.matmul.allow_fp16_accumulation = True",
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": (
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False"
    ),
    "torch.backends.cuda.flash_sdp_enabled()": "torch.backends.cuda.enable_flash_sdp(False)",
    "torch.backends.cudnn.benchmark": "torch.backends.cudnn.benchmark = True",
    "torch.backends.cudnn.deterministic": "torch.backends.cudnn.deterministic = True",
    "torch.backends.cudnn.enabled": "torch.backends.cudnn.enabled = False",
    "torch.backends.mkldnn.enabled": "torch.backends.mkldnn.enabled = False",
    "torch.get_deterministic_debug_mode()": "torch.use_deterministic_algorithms(True, warn_only=True)",
    "torch.is_anomaly_enabled()": "torch.autograd.set_detect_anomaly(True)",
    "torch.is_autocast_enabled('cpu')": "torch.set_autocast_enabled('cpu', True)",
    "torch.get_num_threads()": "torch.set_num_threads(torch.get_num_threads() + 1)",
    "torch.is_grad_enabled()": "torch.set_grad_enabled(True)",
    "torch.get_default_dtype()": "torch.set_default_dtype(torch.float64)",
    "torch.get_default_device()": "torch.set_default_device('meta')",
}
NEWER = [name for name in SETTING if name.endswith("fp32_precision")]  # since torch 2.9
SINCE_2_7 = "torch.backends.cuda.matmul.allow_fp16_accumulation"
HERE = [name for name in SETTING if name in settings.current()]
NETWORK = """
import torch
{imported}

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {built}
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        {run}
        return self.layer(x)


def make(batch):
    return Network(), torch.rand(batch, 8)
"""
CPU = devices.find("cpu")


@pytest.fixture(autouse=True)
def _as_before():
    with settings.preserve():
        yield
    assert set(SETTING) - {*NEWER, SINCE_2_7} <= set(HERE)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a user's module and describes its model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names = iter(range(99))

    def write(imported="", built="", run=""):
        name = f"own_{tmp_path.name.replace('-', '_')}_{next(names)}"
        Path(f"{name}.py").write_text(NETWORK.format(imported=imported, built=built or "pass", run=run or "pass"))
        return f"{name}:make"

    return write


def timed(name, phase="inference"):
    model = own_models.describe(name)
    return calls.measure(CPU, model, cell(model, 2, phase=phase), HASTY, lambda: None)


@pytest.mark.parametrize("where", ["imported", "built"])
def test_a_cell_runs_under_the_same_settings_whatever_code_sets(written, where):
    indent = "\n        " if where == "built" else "\n"
    names = [name for name in HERE if where == "imported" or "device" not in name]  # inputs would have no memory
    everything = indent.join([*(SETTING[name] for name in names), "torch.set_grad_enabled(False)"])
    seen = "global SEEN; from measure.machine import settings; SEEN = settings.current()"
    name = written(**{where: everything, "run": seen})
    before = settings.current()
    assert timed(name, "step").samples
    after = sys.modules[name.partition(":")[0]].SEEN
    wanted = {
        "torch.backends.cudnn.benchmark": False,
        "torch.backends.cuda.flash_sdp_enabled()": True,
        "torch.get_default_dtype()": torch.float32,
    }
    wanted |= {each: "ieee" for each in NEWER if each in HERE}
    wanted |= {each: before[each] for each in ("torch.get_num_threads()", "torch.is_grad_enabled()")}
    assert {each: after[each] for each in wanted} == wanted
    assert not after["torch.is_anomaly_enabled()"]
    assert after["torch.get_default_device()"] == "cpu"


@pytest.mark.parametrize("setting", HERE)
def test_a_network_that_changes_a_setting_in_a_call_is_refused(written, setting):
    name = written(run=SETTING[setting])
    with pytest.raises(SettingChangedError) as refused:
        timed(name)
    assert name in str(refused.value)
    assert setting in str(refused.value) or "fp32_precision" in str(refused.value)


def test_a_network_that_sets_back_what_it_changes_is_measured(written):
    with_flags = "with torch.backends.cudnn.flags(benchmark=True), torch.enable_grad(): self.layer(x)"
    assert timed(written(run=with_flags)).samples


def test_a_default_type_set_on_import_stays_with_its_model(written):
    double, plain = written("torch.set_default_dtype(torch.float64)"), written()
    own_models.describe(double)
    for name, dtype in ((plain, torch.float32), (double, torch.float64), (plain, torch.float32)):
        (weight, _) = own_models.prepare_on_meta(own_models.describe(name), 2).network.parameters()
        assert weight.dtype == dtype


def test_settings_of_a_counted_network_do_not_reach_the_next(written):
    model = own_models.describe(written(run="torch.set_default_dtype(torch.float64)"))
    before = settings.current()
    count.count_all(model, [2], "fp32", None, lambda: None)
    assert settings.current() == before


def test_tf32_is_read_after_it_is_allowed_by_any_flag():
    for name in NEWER[1:3]:
        if name in HERE:
            exec(SETTING[name])
    for allowed in (True, False):
        settings.allow_tf32(allowed)
        assert torch.backends.cuda.matmul.allow_tf32 == torch.backends.cudnn.allow_tf32 == allowed
        assert torch.get_float32_matmul_precision() == ("high" if allowed else "highest")


def test_measuring_a_network_at_hand_restores_the_users_settings(monkeypatch):
    seen = {"timed": [], "roof": []}

    def roof(*_):
        seen["roof"].append(settings.current())
        raise NotImplementedError("no roof in this test")

    class Watched(torch.nn.Linear):
        def forward(self, x):
            if type(x) is torch.Tensor and not x.is_meta:
                seen["timed"].append(settings.current())
            return super().forward(x)

    monkeypatch.setattr(model_verb.roofs, "measure", roof)
    monkeypatch.setattr(model_verb, "ROUND_SAMPLING", HASTY)
    model_verb._roof.cache_clear()
    for name in ("torch.backends.cudnn.benchmark", "torch.get_deterministic_debug_mode()"):
        exec(SETTING[name])
    torch.set_float32_matmul_precision("high")
    if NEWER[1] in HERE:
        torch.backends.cudnn.conv.fp32_precision = "ieee"  # a mix: torch refuses to read the older flag
    before = settings.current(as_they_are=True)
    measure.model(Watched(8, 8), torch.rand(2, 8))
    model_verb._roof.cache_clear()
    assert settings.current(as_they_are=True) == before
    for during in seen.values():
        assert {each["torch.get_float32_matmul_precision()"] for each in during} == {"highest"}
        assert {each["torch.backends.cudnn.allow_tf32"] for each in during} == {False}
        assert {each["torch.backends.cudnn.benchmark"] for each in during} == {False}

    class Broken(torch.nn.Linear):
        def forward(self, x):
            torch.set_num_threads(torch.get_num_threads() + 1)
            return super().forward(x)

    with pytest.raises(SettingChangedError, match=r"Broken changed torch.get_num_threads\(\)"):
        measure.model(Broken(8, 8), torch.rand(2, 8))
    assert settings.current(as_they_are=True) == before


@pytest.mark.slow
def test_a_gpu_cell_keeps_its_settings_or_names_the_changed_ones(tmp_path):
    run_under = "assert (torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32) == (False, False)"
    for name, text in (
        ("sets", {"imported": SETTING[NEWER[0]] + "\n" + SETTING["torch.backends.cudnn.benchmark"], "run": run_under}),
        ("changes", {"run": SETTING["torch.backends.cudnn.benchmark"]}),
    ):
        filled = {"imported": "", "built": "self.convolution = torch.nn.Conv1d(1, 1, 1)", "run": "pass"} | text
        (tmp_path / f"{name}.py").write_text(NETWORK.format(**filled))  # cudnn_benchmark needs a convolution
    words = ["--device", "cuda", "--models", "sets:make", "changes:make", "--batch-sizes", "2", "--max-rounds", "1"]
    words += ["--sections", "inference", "--precisions", "fp32", "--variants", "eager", "cudnn_benchmark"]
    variables = gpu.environment("h100")
    variables["PYTHONPATH"] += os.pathsep + str(tmp_path)
    for command in (words, ["show", "--json"]):
        command = [sys.executable, "-m", "measure", *command]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    (machine,) = json.loads(done.stdout)["machines"]
    found = {(each["model"], each["variant"]): each for each in machine["cells"]}
    assert {key: each["status"] for key, each in found.items()} == {
        ("sets:make", "eager"): "ok",
        ("sets:make", "cudnn_benchmark"): "error",  # by its own assertion: the variant sets the benchmark
        ("changes:make", "eager"): "error",
        ("changes:make", "cudnn_benchmark"): "ok",  # the variant wants just that
    }
    assert "torch.backends.cudnn.benchmark from False to True" in found["changes:make", "eager"]["reason"]
