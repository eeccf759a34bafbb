"""A process for a user's own code, which cannot hang, crash or end this program from there."""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Self, TypeVar

from measure.domain.models import Model
from measure.errors import UserError, in_short
from measure.models import own_models

START_LIMIT_S, END_LIMIT_S = 300.0, 10.0
"""The longest that the process may take to import torch, where a disk is slow, and to end once it no longer speaks."""

MOST_MESSAGE_BYTE = 2**27
"""More than any message has. Text in its place begins with a length above that: a tab is already 9 * 2**24."""

Value = TypeVar("Value")


class RaisedError(Exception):
    """What a user's code raised, in short."""


class Isolated:
    """Calls functions in one process, which begins with the first call; each may take ``limit_s``."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._process: multiprocessing.process.BaseProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self._end()

    def describe(self, name: str) -> Model:
        """Return a function's model, as ``own_models.describe`` does."""
        try:
            return self.call(name, own_models.describe, name)
        except RaisedError as problem:
            raise UserError(f"--models: {name} raised {problem} where it was tried; fix it") from None

    def call(self, name: str, function: Callable[..., Value], *arguments: Any) -> Value:
        """Return what a function does with these arguments, which runs the code of the own model ``name``.

        Raises the UserError that it raises, RaisedError for what else it raises, and UserError where it takes too long
        or the process does not survive it.
        """
        if self._process is None:
            self._begin()
        with suppress(ConnectionError):  # it may have ended since, which is read next
            self._connection.send((function, arguments))
        answer: Any = self._received(
            self._limit_s, f"--models: {name}", "fix it, or give measuring a longer --call-limit"
        )
        if isinstance(answer, (UserError, RaisedError)):
            raise answer
        return answer

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._received(START_LIMIT_S, "--models: the process that tries own models", "see that torch imports")

    def _received(self, limit_s: float, what: str, remedy: str) -> Any:
        """Return what the process says. Raises UserError, with what took so long or died, where it says nothing."""
        try:
            if self._connection.poll(limit_s):
                return pickle.loads(self._connection.recv_bytes(MOST_MESSAGE_BYTE))
            how = f"took longer than {limit_s:g} s"
        except (EOFError, ConnectionError):
            how = self._death()
        except Exception:  # what a user's code wrote there may be anything
            how = "wrote into the pipe of its process"
        self._end()
        raise UserError(f"{what} {how}; {remedy}")

    def _death(self) -> str:
        assert self._process is not None
        self._process.join(END_LIMIT_S)
        code = self._process.exitcode
        if code is None:
            return "closed the pipe of its process"
        return f"ended its process {f'by signal {-code}' if code < 0 else f'with exit code {code}'}"

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None


def _serve(connection: Connection) -> None:
    """Be the process's main function: answer each call until the parent hangs up."""
    own = os.getpid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what the code prints is no answer of the command
    with suppress(Exception):  # where it is missing or broken, the call says so
        import torch  # noqa: F401 - the time that this takes is not the call's

    with suppress(ConnectionError, EOFError):  # the parent is gone
        connection.send(None)
        while True:
            function, arguments = connection.recv()
            try:
                answer = function(*arguments)
            except UserError as problem:
                answer = problem
            except BaseException as problem:  # a module may raise anything, and a script may end
                answer = RaisedError(in_short(problem))
            if os.getpid() != own:
                os._exit(0)  # a copy, which the code forked
            connection.send(answer)


def end_with_parent() -> None:
    """End this process when its parent is killed, within whatever call: nobody else would end one that hangs."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
