"""Decode a large JSON document piece by piece, without holding it whole.

Python's own decoder reads one event of a trace at a time from a window of the text: 220 MB take 5.4 s and 19 MB here.
ijson with its C library takes 8.7 s and 22 MB. It also refuses NaN, control characters and Windows paths in strings,
and a byte order mark, which profilers write.
"""

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from measure.errors import UserError

CHUNK = 2**20  # characters read at once
TOKEN = 64  # characters of the longest number or word
EVENTS = "traceEvents"  # the elements of this member are read one by one
BLANKS = " \t\r\n"
LONGEST_INT = 30  # digits; a longer number is read as a float: Python refuses some of them
ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')  # group 1: the rest of a valid escape


class JsonStream:
    """The members of a JSON object in a file, with the elements of ``traceEvents`` one by one.

    A bare list, as some tools write it, counts as ``traceEvents``. Names in errors begin with ``name``.
    """

    def __init__(self, file: IO[str], name: str) -> None:
        self._file, self._name = file, name
        self._text, self._place = "", 0
        self._decode = json.JSONDecoder(strict=False).raw_decode
        self._decode_long = json.JSONDecoder(strict=False, parse_int=_int_or_float).raw_decode

    def members(self) -> Iterator[tuple[str, Any]]:
        """Yield (key, value) of each member. Raises UserError for text that is not, or not wholly, such JSON."""
        if self._peek() == "[":
            yield from self._elements()
            return
        if self._peek() != "{":
            raise UserError(f"{self._name}: is not JSON; name a trace that torch.profiler exported")
        for _ in self._items("}"):
            key = self._value()
            self._expect(":")
            if key == EVENTS and self._peek() == "[":
                yield from self._elements()
            else:
                yield str(key), self._value()

    def _elements(self) -> Iterator[tuple[str, Any]]:
        return ((EVENTS, self._value()) for _ in self._items("]"))

    def _items(self, end: str) -> Iterator[None]:
        """Pass a bracket, then yield at the start of each item up to the bracket ``end``."""
        self._place += 1
        letter = self._peek()
        if letter == end:
            self._place += 1
        while letter != end:
            yield
            letter = self._expect("," + end)

    def _value(self) -> Any:
        self._peek()
        decode = self._decode
        while True:
            try:
                value, end = decode(self._text, self._place)
            except json.JSONDecodeError as problem:
                # Text that ends too early fails near its end, or at the start of an open string.
                is_cut = problem.pos > len(self._text) - TOKEN or problem.msg.startswith("Unterminated")
                if is_cut and self._fill():
                    continue
                if problem.msg.startswith("Invalid \\") and self._double_backslashes(problem.pos):
                    continue
                raise (self._cut_off() if is_cut else self._malformed()) from None
            except RecursionError:
                raise self._malformed() from None
            except ValueError:  # a whole number of thousands of digits
                decode = self._decode_long
            else:
                is_number = not isinstance(value, (str, list, dict))
                if is_number and end > len(self._text) - TOKEN and self._fill():  # it may go on
                    continue
                self._place = end
                return value

    def _double_backslashes(self, problem: int) -> bool:
        """Double the backslashes that escape nothing, as in Kineto's Windows paths. Return whether there are any.

        An escape near the end of the window may go on in the next one.
        """
        end = max(problem, len(self._text) - TOKEN)

        def doubled(found: re.Match[str]) -> str:
            return found[0] if found[1] or self._place + found.start() > end else "\\\\"

        text = self._text[: self._place] + ESCAPE.sub(doubled, self._text[self._place :])
        is_changed, self._text = text != self._text, text
        return is_changed

    def _peek(self) -> str:
        """Return the next character that is not blank, without passing it."""
        while True:
            while self._place < len(self._text):
                if self._text[self._place] not in BLANKS:
                    return self._text[self._place]
                self._place += 1
            if not self._fill():
                raise self._cut_off()

    def _expect(self, letters: str) -> str:
        letter = self._peek()
        if letter not in letters:
            raise self._malformed()
        self._place += 1
        return letter

    def _fill(self) -> bool:
        """Read on; the window at least doubles, so that a long value is not decoded over and over."""
        chunk = self._file.read(max(CHUNK, len(self._text) - self._place))
        if chunk:
            self._text, self._place = self._text[self._place :] + chunk, 0
        return bool(chunk)

    def _cut_off(self) -> UserError:
        return UserError(f"{self._name}: ends in the middle of the JSON; export or copy it again")

    def _malformed(self) -> UserError:
        return UserError(f"{self._name}: malformed JSON; export the trace again")


def _int_or_float(text: str) -> float:
    return int(text) if len(text) <= LONGEST_INT else float(text)


@contextmanager
def opened(path: Path) -> Iterator[JsonStream]:
    """Open a JSON document, plain or compressed by gzip. Raises UserError if it cannot be read to its end."""
    try:
        with path.open("rb") as raw:
            magic = raw.read(2)
            raw.seek(0)
            if magic == b"PK":
                raise UserError(f"{path}: is a zip; unpack it and name the trace inside")
            binary: Any = gzip.GzipFile(fileobj=raw) if magic == b"\x1f\x8b" else raw
            with io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace") as text:
                yield JsonStream(text, str(path))
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path}: the compressed file is damaged or cut off; export or copy it again") from None
    except OSError as problem:
        remedy = "name a trace that torch.profiler exported"
        raise UserError(f"{path}: cannot be read ({problem.strerror}); {remedy}") from None
