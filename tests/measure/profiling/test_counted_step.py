import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from measure.domain.latency import Cell
from measure.profiling import counted_step

torch = pytest.importorskip("torch", reason="steps are torch's")
from torch import nn  # noqa: E402


@pytest.fixture
def log(monkeypatch):
    """What happens, in order: calls of a tiny network on the CPU, and the marks of the profiler."""
    happened = []

    class Network(nn.Linear):
        def forward(self, rows):
            happened.append("training" if self.training else "inference")
            return super().forward(rows)

    def make_inputs(_model, batch, device, dtype):
        return (torch.randn(batch, 4, device=device, dtype=dtype),)

    runtime = SimpleNamespace(
        cudaProfilerStart=lambda: happened.append("start"), cudaProfilerStop=lambda: happened.append("stop")
    )
    threads = torch.get_num_threads()
    monkeypatch.setattr("measure.models.catalog.build", lambda model: Network(4, 2).eval())
    monkeypatch.setattr("measure.models.catalog.make_inputs", make_inputs)
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    yield happened
    torch.set_num_threads(threads)


def arguments(**changes):
    cell = Cell("alexnet", 3, "fp32", "inference", "eager")._replace(**changes)
    return json.loads(counted_step.command_line("cpu", 1, cell, 2)[-1])


@pytest.mark.parametrize(("phase", "word"), [("inference", "inference"), ("step", "training")])
def test_steps_are_warmed_up_and_marked(log, phase, word):
    assert counted_step.main(arguments(phase=phase)) == 0
    assert log == [word] * counted_step.WARM_UP + ["start", word, word, "stop"]


def test_a_failure_is_the_last_line(log, capsys):
    assert counted_step.main(arguments(precision="tf32")) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("NotImplementedError: tf32 is a format of NVIDIA")


def test_it_ends_when_nobody_waits_for_it(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code = f"from measure.profiling import counted_step; counted_step._end_without({gone.pid})"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 1
