"""The Python process in which a document's cells run."""

from __future__ import annotations

import os
import queue
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from measure.errors import UserError

# Evaluated in the kernel after an error: the line of the cell, from 1, whose statement failed, or 0.
FAILED_LINE = (
    "next((line for frame, line in __import__('traceback').walk_tb(__import__('sys').last_traceback)"
    " if frame.f_globals is globals()), 0)"
)


@dataclass(frozen=True)
class Output:
    """What a cell put out: text on a stream (`stdout`, `stderr`), or a value as MIME type to text."""

    stream: str | None
    data: dict[str, str]


class CellError(Exception):
    """A cell or an expression raised; `line` counts from the code's first line, 0 where it is not known."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


class Kernel:
    """A Jupyter kernel run by this very Python, in `directory`, with `environment` added to its variables.

    It reads none of the user's kernel specifications and none of IPython's start-up files, so that a paper
    depends on the project alone.
    """

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._settings = tempfile.TemporaryDirectory()
        # Without folders to search the manager falls back to ipykernel under sys.executable.
        self._manager = KernelManager(
            kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[])
        )
        self._directory = directory
        self._environment = {**os.environ, **environment, "IPYTHONDIR": self._settings.name}

    def __enter__(self) -> Kernel:
        self._manager.start_kernel(
            cwd=str(self._directory),
            env=self._environment,
            extra_arguments=["--log-level=ERROR", "--HistoryManager.enabled=False"],
        )
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=120)
        except RuntimeError as error:
            self.__exit__(None, None, None)
            raise UserError(
                f"no Jupyter kernel starts under {sys.executable}; is ipykernel installed?"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._settings.cleanup()

    def run(self, code: str) -> list[Output]:
        """Runs a cell and returns what it put out, in order; raises CellError."""
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
            raise CellError(error, int(self.evaluate([FAILED_LINE])[0]["text/plain"]))
        return outputs

    def evaluate(self, expressions: list[str]) -> list[dict[str, str]]:
        """The values of expressions, each as MIME type to text; raises CellError for the first that fails."""
        request = self._client.execute(
            "",
            silent=True,
            allow_stdin=False,
            user_expressions={str(number): text for number, text in enumerate(expressions)},
        )
        reply = self._next(self._client.get_shell_msg, request)["content"]["user_expressions"]
        values = []
        for number in range(len(expressions)):
            result = reply[str(number)]
            if result["status"] != "ok":
                raise CellError(f"{result['ename']}: {result['evalue']}")
            values.append(dict(result["data"]))
        return values

    def _next(self, receive: Any, request: str) -> dict[str, Any]:
        """The next message that answers `request`; a kernel that dies would otherwise never send one."""
        while True:
            try:
                message: dict[str, Any] = receive(timeout=1)
            except queue.Empty:
                if not self._manager.is_alive():
                    raise CellError("the kernel died; was it out of memory?") from None
                continue
            if message["parent_header"].get("msg_id") == request:
                return message


def _append_stream(outputs: list[Output], name: str, text: str) -> None:
    if outputs and outputs[-1].stream == name:
        text = outputs.pop().data["text/plain"] + text
    outputs.append(Output(name, {"text/plain": text}))
