"""Run code in IPython, in a process of its own: a JSON list of codes on standard input, a JSON line for each on output.

A line has the `outputs` in order, each a mapping from MIME types, or `stdout`, to texts. A failed code has an `error`
instead, with its `line` in the code, and `is_input` if bad input such as a damaged table caused it; then nothing more
runs.
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
    """Adds printed text to the outputs."""

    def write(self, text: str) -> int:
        before = outputs.pop()["stdout"] if outputs and "stdout" in outputs[-1] else ""
        show({"stdout": before + text})
        return len(text)


def failure(error: BaseException) -> dict[str, Any]:
    places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if "<ipython-" in frame.filename]
    line = error.lineno if isinstance(error, SyntaxError) else places[0] if places else 1
    name = type(error).__name__
    is_input = name == "UserError"  # its text is a sentence for the user, complete without the class
    return {"error": str(error) if is_input else f"{name}: {error}", "line": line or 1, "is_input": is_input}


def main() -> None:
    """Run the codes and wait for their pictures. If these fail, there is one more line."""
    # Imported late: the process that draws imports this module
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    gc.set_threshold(100_000, 50)  # collecting at the default rate takes one second in fifteen
    codes = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # some libraries print past Python
    sys.path[0] = ""  # as in a notebook
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # A folder without start-up files, under the name that measure/cache/scratch.py clears away. That is not imported: a
    # project's own module may be called measure.
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
            print(json.dumps(line), file=answers, flush=True)
            outputs.clear()
            if error and (line["is_input"] or os.environ.get("ROOFWRIGHT_STRICT")):
                return
        try:
            if drawing := sys.modules.get("report.charts.drawing"):
                drawing.finish()
        except Exception as error:
            print(json.dumps(failure(error)), file=answers, flush=True)


if __name__ == "__main__":
    main()
