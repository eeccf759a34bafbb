"""The help of every verb, and the documentation of the JSON that verbs print."""

import json
import re
import subprocess
import sys

import pytest
from helpers.places import GOLDEN, ROOT

from measure import __main__ as command
from measure.domain.records import Environment
from measure.domain.schema import TABLES
from measure.domain.trace_records import TraceStep
from measure.domain.words import LAYER_KINDS, PRECISIONS
from measure.verbs.flags import VERBS

HELP = ["help", *(f"help-{verb}" for verb in VERBS)]


@pytest.mark.parametrize("name", HELP)
def test_every_verb_has_its_help(golden, capsys, name):
    with pytest.raises(SystemExit, match="0"):
        command.main([*name.split("-", 1)[1:], "--help"])
    golden(name, capsys.readouterr().out)


def test_no_help_waits_for_torch_nor_forget_for_tables():
    code = "import sys; from measure.verbs import flags; flags.parser_of('forget')\n"
    code += "assert 'measure.cache.table' not in sys.modules\n"
    code += (
        "from measure.verbs import run_flags; [*map(flags.parser_of, flags.VERBS)]; assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


SECTIONS = {
    "list-json": "--list", "plan-json": "--plan", "model-json": "model NAME",
    "model-memory-json": "model NAME --memory", "predict-json": "predict MODEL",
    "show-json": "show", "import-trace-json": "import-trace FILE", "trace-json": "trace NAME",
}  # fmt: skip
ELSEWHERE = {*LAYER_KINDS, *PRECISIONS, *TABLES[Environment].columns, *TABLES[TraceStep].columns, "timed"}
"""Keys that a section names by their table, or as a kind of key; and the rows of ``show`` within ``model``."""

OTHER = {
    "plan-json": {"cuda", "mps", "cpu"}, "list-json": {"3x224x224"},
    "show-json": {"wide", "drifting", "workload", "overlapped", "none"},
    "model-json": {"arithmetic", "memory"},
    "model-memory-json": {"sgd", "adam", "forward", "backward", "update"},
    "predict-json": {
        "arithmetic", "memory", "fitted", "die", "scaled", "datasheet", "served", "eager", "parameter", "least",
        "expected", "most", "autocast", "benchmark", "channels_last", "tf32",
    },
    "trace-json": {
        "arithmetic", "memory", "cache", "compare", "a", "b", "name", "share", "a_s", "b_s", "transfer_s", "wait_s",
        "unmatched_s", "exposed_s", "bus_byte_per_s", "null",
    },
}  # fmt: skip
"""Words of a section that are values, or keys of two compared traces, or of several ranks."""


def keys(value):
    if isinstance(value, dict):
        return set(value) | {key for each in value.values() for key in keys(each)}
    return {key for each in value for key in keys(each)} if isinstance(value, list) else set()


@pytest.mark.parametrize("name", SECTIONS)
def test_json_keys_and_their_documentation_agree(name):
    document = (ROOT / "docs" / "json.md").read_text("utf-8")
    section = document.partition(f"`python -m measure {SECTIONS[name]} --json`")[2].partition("\n## ")[0]
    found = json.loads((GOLDEN / f"{name}.txt").read_text("utf-8"))
    if name == "model-json":
        for cell in found["cells"]:
            del cell["timed"]  # as in the section of show
    documented = set(re.findall(r"`(\w+)`", section)) - OTHER.get(name, set())
    assert keys(found) - ELSEWHERE == documented - ELSEWHERE
