import os

import pytest

from measure.errors import UserError
from report.engine.jupyter_kernel import CellError, Output, jupyter_kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kernel")
    (directory / "beside.py").write_text("def fail():\n    raise ValueError('broken')\n")
    with jupyter_kernel(directory, {"ROOFWRIGHT_DATA": "some/data"}) as started:
        yield started


def test_streams_and_values(kernel):
    outputs = kernel.run("print('a')\nprint('b')\nimport sys\nprint('c', file=sys.stderr)\n6 * 7")
    assert outputs == [
        Output("stdout", {"text/plain": "a\nb\n"}),
        Output("stderr", {"text/plain": "c\n"}),
        Output(None, {"text/plain": "42"}),
    ]


def test_the_state_lasts(kernel):
    assert kernel.run("n = 24") == []
    assert kernel.evaluate("n") == {"text/plain": "24"}
    assert kernel.evaluate("f'{n / 7:.2f}'") == {"text/plain": "'3.43'"}


def test_it_runs_where_it_should_with_the_environment_that_it_should(kernel):
    import sys

    assert kernel.evaluate("__import__('os').environ['ROOFWRIGHT_DATA']") == {"text/plain": "'some/data'"}
    assert kernel.evaluate("__import__('sys').executable") == {"text/plain": repr(sys.executable)}
    assert "ROOFWRIGHT_DATA" not in os.environ or os.environ["ROOFWRIGHT_DATA"] != "some/data"


def test_an_error_names_the_line_of_the_cell(kernel):
    with pytest.raises(CellError, match=r"^ValueError: broken$") as error:
        kernel.run("import beside\n\nbeside.fail()\n")
    assert error.value.line == 3


def test_an_expression_that_fails(kernel):
    with pytest.raises(CellError, match=r"^ZeroDivisionError: division by zero$"):
        kernel.evaluate("1 / 0")


def test_a_kernel_that_does_not_start(tmp_path, monkeypatch):
    (tmp_path / "ipykernel_launcher.py").write_text("raise SystemExit(1)\n")
    with (
        pytest.raises(UserError, match="is ipykernel installed"),
        jupyter_kernel(tmp_path, {"PYTHONPATH": str(tmp_path)}),
    ):
        pass


def test_a_kernel_that_dies(tmp_path):
    with jupyter_kernel(tmp_path, {}) as dying, pytest.raises(CellError, match="the Jupyter kernel died"):
        dying.run("import os\nos._exit(1)")
