"""The columns of the tables that do not hold free text: known words, or words and numbers in a known order."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from measure.cache.records import (
    BURST,
    EAGER,
    FLAGS,
    INFERENCE,
    LAYER_KINDS,
    PRECISIONS,
    STAGES,
    STEP,
    STREAM_ARRAYS,
    SUSTAINED,
    Ceiling,
    CounterProfile,
    CounterResult,
    Environment,
    KernelCounters,
    KernelTime,
    Layer,
    Operator,
    OperatorTime,
    Profile,
    Run,
    Sample,
    Workload,
)
from measure.cache.variants import OPTIMIZERS, PARTS


@dataclass(frozen=True)
class Form:
    """What the cells of a column have to be; ``told`` says it after "is not"."""

    pattern: re.Pattern[str]
    told: str

    def fits(self, text: str) -> bool:
        return self.pattern.fullmatch(text) is not None


def _one_of(words: Iterable[str]) -> Form:
    known = tuple(words)
    return Form(re.compile("|".join(map(re.escape, known))), f"one of {', '.join(known)}")


def _joined(words: Iterable[str], sign: str) -> Form:
    one = _one_of(words)
    several = f"(?:{one.pattern.pattern})"
    return Form(
        re.compile(f"{several}(?:{re.escape(sign)}{several})*"),
        f"{one.told}, or several joined by {sign!r}",
    )


DEVICE = _one_of(("cpu", "cuda", "mps"))
STATUS = _one_of(("ok", "oom", "timeout", "unsupported", "error"))
PRECISION = _one_of(PRECISIONS)
STAGE = _one_of((INFERENCE, *STAGES))
KIND = _one_of(LAYER_KINDS)

WORKLOAD = {"precision": PRECISION, "autocast": DEVICE}
CELL = {
    "precision": PRECISION,
    "phase": _one_of((INFERENCE, STEP, *STAGES)),
    "variant": _joined((EAGER, *PARTS, *OPTIMIZERS), "+"),
}

COLUMNS: dict[type, dict[str, Form]] = {
    Workload: {
        **WORKLOAD,
        "status": STATUS,
        "uncounted": Form(
            re.compile(r"[^;]+:\d+:[\d.e+-]+(?:;[^;]+:\d+:[\d.e+-]+)*"), "name:calls:share joined by ';'"
        ),
    },
    Layer: {**WORKLOAD, "kind": KIND},
    Operator: {**WORKLOAD, "stage": STAGE, "kind": KIND},
    Environment: {
        "device": DEVICE,
        "caches": Form(re.compile(r"\d+:\d+:\d+(?:;\d+:\d+:\d+)*"), "level:byte:count joined by ';'"),
        "tuning": Form(re.compile(r"[A-Z_]+=[^;]+(?:;[A-Z_]+=[^;]+)*"), "NAME=value joined by ';'"),
    },
    Ceiling: {
        "kernel": _one_of(("matmul", "numpy_matmul", "fma", "chain", *STREAM_ARRAYS, "triad")),
        "precision": _one_of((*PRECISIONS, "fp64", "int64")),
        "status": STATUS,
        "pace": _one_of((BURST, SUSTAINED)),
    },
    Run: {**CELL, "status": STATUS, "flags": _joined(FLAGS, ";")},
    Sample: CELL,
    Profile: {**CELL, "status": STATUS},
    OperatorTime: {**CELL, "stage": STAGE},
    KernelTime: {**CELL, "stage": STAGE},
    CounterProfile: {**CELL, "status": STATUS},
    KernelCounters: CELL,
    CounterResult: {"status": STATUS},
}
"""The form of each such column, by record. All other columns of texts are free."""
