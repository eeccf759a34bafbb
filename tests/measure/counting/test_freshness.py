import sys

import pytest

from measure import __main__ as command
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.counting import count
from measure.counting import count as freshness
from measure.errors import UserError, in_short
from measure.models import catalog
from measure.models.own_models import RaisedError

pytest.importorskip("torch", reason="models are torch's")


def call(_name, function, *arguments):
    """Call a function in this process: its module need not be imported anew."""
    try:
        return function(*arguments)
    except Exception as problem:
        raise RaisedError(in_short(problem)) from None


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Writes the module anew, and finds its model: Linear of 3 to ``width`` on ``steps`` steps."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a second text in the same second would not be read

    def write(width=2, steps=5, before="pass"):
        (tmp_path / "changing.py").write_text(
            f"import torch\ndef network(batch_size):\n    {before}\n"
            f"    return torch.nn.Linear(3, {width}), torch.ones(batch_size, {steps}, 3)\n"
        )
        sys.modules.pop("changing", None)
        (found,) = catalog.find(["changing:network"])
        return found

    return write


def test_what_is_as_it_was_counted_passes_and_so_does_what_was_not_counted(model):
    own = model()
    freshness.check([own], [], call)
    freshness.check([own], [count.count(own, 4, "bf16").workload], call)
    failed = count.not_counted(own, 1, "fp32", None, "unsupported", "no shape").workload
    freshness.check([own], [failed], call)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"width": 4}, r"\(parameters 8 when it was counted, 16 now\)"),
        ({"steps": 6}, r"\(input shape 5x3 when it was counted, 6x3 now\)"),
    ],
)
def test_what_was_changed_is_one_sentence(model, change, sentence):
    rows = [count.workload for count in count.count_all(model(), [2, 1], "fp32", None)]
    with pytest.raises(UserError, match=sentence) as caught:
        freshness.check([model(**change)], rows, call)
    assert "the code of changing:network has changed" in str(caught.value)
    assert "give the new one a name of its own, or measure all of it again with --force" in str(caught.value)


def test_what_no_longer_can_be_counted_has_changed(model):
    row = count.count(model(), 1).workload
    with pytest.raises(
        UserError, match=r"it raises NotImplementedError: changing:network\(1\) raised ZeroDivisionError"
    ):
        freshness.check([model(before="1 / (batch_size - 1)")], [row], call)


def test_models_of_libraries_do_not_change(model):
    (alexnet,) = catalog.find(["alexnet"])
    row = count.not_counted(alexnet, 1, "fp32", None, "ok", None).workload
    freshness.check([alexnet], [row], call)


@pytest.mark.usefixtures("forked_workers")
def test_code_that_changed_is_refused_until_it_has_another_name_or_is_counted_again(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setitem(sys.modules, "mine", None)  # forgotten with the test
    wanted = ["--device", "cpu", "--sections", "workload", "--models", "mine:net", "--batch-sizes", "1"]

    def count(*flags):
        sys.modules.pop("mine", None)
        code = command.main([*wanted, "--data", str(tmp_path / "data"), *flags])
        return code, capsys.readouterr()

    def write(steps):
        (tmp_path / "mine.py").write_text(
            "import torch\n"
            f"def net(batch_size):\n    return torch.nn.Linear(3, 2), torch.ones(batch_size, {steps}, 3)\n"
        )

    def shapes():
        return [(row.model, row.input_shape) for row in Workloads(tmp_path / "data").rows(Workload)]

    write(5)
    assert count()[0] == 0
    write(11)
    code, said = count()
    assert code == 2
    assert "input shape 5x3 when it was counted, 11x3 now" in said.err
    assert said.err.count("\n") == 1
    assert shapes() == [("mine:net", "5x3")]
    assert count("--force")[0] == 0
    assert shapes() == [("mine:net", "11x3")]
    assert "Nothing left to measure" in count()[1].out
