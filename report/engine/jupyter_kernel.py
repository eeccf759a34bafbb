"""The Jupyter kernel: the Python process in which a document's cells run."""

import os
import queue
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from measure.errors import UserError

# Evaluated after an error: the line of the cell, from 1, whose statement failed, or 0.
FAILED_LINE = (
    "next((line for frame, line in __import__('traceback').walk_tb(__import__('sys').last_traceback)"
    " if frame.f_globals is globals()), 0)"
)


@dataclass(frozen=True)
class Output:
    """An output of a cell: text on a stream (`stdout`, `stderr`), or a value as MIME type to text."""

    stream: str | None
    data: dict[str, str]


class CellError(Exception):
    """A cell or an expression raised; `line` counts from the code's first line, 0 where it is not known."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


@contextmanager
def jupyter_kernel(directory: Path, environment: dict[str, str]) -> Iterator["JupyterKernel"]:
    """Start a Jupyter kernel under this very Python, in `directory`, with `environment` added to its variables.

    It reads none of the user's kernel specifications and none of IPython's start-up files, so that a paper
    depends on the project alone.
    """
    # Without folders to search the manager falls back to ipykernel under sys.executable.
    manager = KernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    with tempfile.TemporaryDirectory() as settings:
        manager.start_kernel(
            cwd=str(directory),
            env={**os.environ, **environment, "IPYTHONDIR": settings},
            extra_arguments=["--log-level=ERROR", "--HistoryManager.enabled=False"],
        )
        client = manager.blocking_client()
        client.start_channels()
        try:
            try:
                client.wait_for_ready(timeout=120)
            except RuntimeError as error:
                problem = f"no Jupyter kernel starts under {sys.executable}; is ipykernel installed?"
                raise UserError(problem) from error
            yield JupyterKernel(manager, client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


class JupyterKernel:
    """A Jupyter kernel that runs."""

    def __init__(self, manager: KernelManager, client: Any) -> None:
        self._manager, self._client = manager, client

    def run(self, code: str) -> list[Output]:
        """Run a cell and return its outputs in order; raise CellError."""
        request = self._client.execute(code, store_history=False, allow_stdin=False)
        outputs: list[Output] = []
        error = None
        while True:
            message = self._next(self._client.get_iopub_msg, request)
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "stream":
                _append_stream(outputs, content["name"], content["text"])
            elif kind in ("display_data", "execute_result"):
                outputs.append(Output(None, dict(content["data"])))
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"
        self._next(self._client.get_shell_msg, request)
        if error is not None:
            raise CellError(error, int(self.evaluate(FAILED_LINE)["text/plain"]))
        return outputs

    def evaluate(self, expression: str) -> dict[str, str]:
        """Return the value of an expression as MIME type to text; raise CellError where it fails."""
        request = self._client.execute("", silent=True, allow_stdin=False, user_expressions={"value": expression})
        reply = self._next(self._client.get_shell_msg, request)["content"]["user_expressions"]["value"]
        if reply["status"] != "ok":
            raise CellError(f"{reply['ename']}: {reply['evalue']}")
        return dict(reply["data"])

    def _next(self, receive: Any, request: str) -> dict[str, Any]:
        """Return the next message that answers `request`, which a Jupyter kernel that dies would never send."""
        while True:
            try:
                message: dict[str, Any] = receive(timeout=1)
            except queue.Empty:
                if not self._manager.is_alive():
                    raise CellError("the Jupyter kernel died; was it out of memory?") from None
                continue
            if message["parent_header"].get("msg_id") == request:
                return message


def _append_stream(outputs: list[Output], name: str, text: str) -> None:
    if outputs and outputs[-1].stream == name:
        text = outputs.pop().data["text/plain"] + text
    outputs.append(Output(name, {"text/plain": text}))
