"""Own models that are no longer the network that was counted under their name."""

import sys

import pytest
from helpers import counting
from helpers.counting import rows, torch

from measure import __main__ as command
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.counting import count
from measure.errors import UserError, in_short
from measure.models import catalog
from measure.models.own_models import RaisedError

NAME = f"{counting.__name__}:network"
(ALEXNET,) = catalog.find(["alexnet"])


def own(function):
    """The model of this function of the batch size, always under one name."""
    counting.network = function
    (model,) = catalog.find([NAME])
    return model


def call(_name, function, *arguments):
    """Call a function in this process: its module need not be imported anew."""
    try:
        return function(*arguments)
    except Exception as problem:
        raise RaisedError(in_short(problem)) from None


def layer(width=2, steps=5):
    return lambda batch: (torch.nn.Linear(3, width), rows(batch, steps, 3))


def failing(batch):
    return layer()(batch + 0 // (batch - 1))


def not_counted(model, status):
    return count.not_counted(model, 1, "fp32", None, status, None).workload


@pytest.mark.parametrize(
    ("model", "earlier"),
    [
        (own(layer()), []),
        (own(layer()), [count.count(own(layer()), 4, "bf16").workload]),
        (own(layer()), [not_counted(own(layer()), "unsupported")]),
        (ALEXNET, [not_counted(ALEXNET, "ok")]),  # models of libraries do not change
    ],
)
def test_what_is_as_it_was_counted_passes_and_so_does_what_was_not_counted(model, earlier):
    counting.network = layer()
    count.check([model], earlier, call)


@pytest.mark.parametrize(
    ("now", "change"),
    [
        (layer(width=4), "(parameters 8 when it was counted, 16 now)"),
        (layer(steps=6), "(input shape 5x3 when it was counted, 6x3 now)"),
        (failing, f"(it raises NotImplementedError: {NAME}(1) raised ZeroDivisionError"),
    ],
)
def test_what_was_changed_is_named(now, change):
    earlier = [each.workload for each in count.count_all(own(layer()), [2, 1], "fp32", None)]
    with pytest.raises(UserError) as caught:
        count.check([own(now)], earlier, call)
    assert f"the code of {NAME} has changed {change}" in str(caught.value)
    assert "--force" in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_code_that_changed_is_refused_until_it_is_counted_again(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a second text in the same second would not be read
    monkeypatch.setitem(sys.modules, "mine", None)  # forgotten with the test
    wanted = ["--device", "cpu", "--sections", "workload", "--models", "mine:net", "--batch-sizes", "1"]

    def code(steps, *flags):
        """The exit code of counting a layer on this number of steps; the shapes that are counted then."""
        (tmp_path / "mine.py").write_text(
            "import torch\n"
            f"def net(batch_size):\n    return torch.nn.Linear(3, 2), torch.ones(batch_size, {steps}, 3)\n"
        )
        sys.modules.pop("mine", None)
        code = command.main([*wanted, "--data", str(tmp_path / "data"), *flags])
        return code, [row.input_shape for row in Workloads(tmp_path / "data").rows(Workload)]

    assert code(5) == (0, ["5x3"])
    capsys.readouterr()
    assert code(11) == (2, ["5x3"])
    said = capsys.readouterr().err
    assert "input shape 5x3 when it was counted, 11x3 now" in said
    assert said.count("\n") == 1
    assert code(11, "--force") == code(11) == (0, ["11x3"])
