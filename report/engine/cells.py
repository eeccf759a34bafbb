"""Runs code in IPython, in a process of its own: a list in JSON on standard input, a line in JSON for each on output.

A line has the `outputs` in order, each MIME types to texts, or `stdout` to what was printed. In their place stands the
`error`, with its `line` in the code, and whether bad input is its cause, a damaged table, say. Then nothing more runs.
"""

import base64
import gc
import io
import json
import os
import sys
import tempfile
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

outputs: list[dict[str, Any]] = []


def show(data: dict[str, Any], *_: Any, **__: Any) -> None:
    """Add an output, pictures as text."""
    texts = {kind: base64.b64encode(part).decode() if isinstance(part, bytes) else part for kind, part in data.items()}
    outputs.append(texts)


class Printed(io.TextIOBase):
    """Shows what a cell prints."""

    def write(self, text: str) -> int:
        before = outputs.pop()["stdout"] if outputs and "stdout" in outputs[-1] else ""
        show({"stdout": before + text})
        return len(text)


def failure(error: BaseException) -> dict[str, Any]:
    """Return what is told of an error."""
    places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if "<ipython-" in frame.filename]
    line = error.lineno if isinstance(error, SyntaxError) else places[0] if places else 1
    name = type(error).__name__
    return {"error": f"{name}: {error}", "line": line or 1, "is_input": name == "UserError"}


def main() -> None:
    """Run the codes, and wait for the pictures that they began; an error of these is one line more."""
    # Imported late: the process that draws imports this module
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    gc.set_threshold(100_000, 50)  # collecting at the default rate takes one second in fifteen
    codes = json.load(sys.stdin)
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print past Python is none of the lines
    sys.path[0] = ""  # as in a notebook
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # Where none of the user's start-up files is, under the name that measure/cache/scratch.py clears away; none of our
    # modules is imported here, whose names a project's own may have.
    with tempfile.TemporaryDirectory(prefix=f"roofwright-{os.getpid()}-") as folder:
        shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}), ipython_dir=folder)

        def show_value(value: Any) -> None:
            if value is not None and not code.rstrip().endswith(";"):  # as in a notebook
                show(shell.display_formatter.format(value)[0])

        shell.display_trap.hook = show_value
        shell.display_pub.publish = show
        shell.showtraceback = shell.showsyntaxerror = lambda *_, **__: None
        for code in codes:
            with redirect_stdout(Printed()), redirect_stderr(io.StringIO()):
                result = shell.run_cell(code)
            error = result.error_before_exec or result.error_in_exec
            line = failure(error) if error else {"outputs": outputs}
            print(json.dumps(line), file=told, flush=True)
            outputs.clear()
            if error and (line["is_input"] or os.environ.get("ROOFWRIGHT_STRICT")):
                return
        try:
            if drawing := sys.modules.get("report.charts.drawing"):
                drawing.finish()
        except Exception as error:
            print(json.dumps(failure(error)), file=told, flush=True)


if __name__ == "__main__":
    main()
