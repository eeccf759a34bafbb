"""What the verbs print, as golden files. The caches are fixed, so every number in them can be worked out by hand."""

import pytest
from helpers.places import TESTS

from measure import __main__ as command
from measure.verbs.flags import VERBS

HELP = {
    "help": "", "help-model": "model", "help-show": "show", "help-compare": "compare", "help-import-ncu": "import-ncu",
    "help-import-trace": "import-trace", "help-trace": "trace", "help-pack": "pack", "help-add-machine": "add-machine",
    "help-add-published": "add-published", "help-fit": "fit", "help-predict": "predict",
    "help-count-published": "count-published", "help-forget": "forget", "help-doctor": "doctor",
}  # fmt: skip


@pytest.mark.parametrize(("name", "verb"), HELP.items(), ids=HELP)
def test_help(golden, capsys, name, verb):
    with pytest.raises(SystemExit, match="0"):
        command.main([*verb.split(), "--help"])
    golden(name, capsys.readouterr().out)


def test_every_verb_has_its_help():
    assert set(HELP.values()) == {"", *VERBS}


CACHE = {
    "show": "show",
    "show-markdown": "show --markdown",
    "show-csv": "show --csv",
    "show-json": "show --json --machine example-gpu",
    "show-chosen": "show lean d* --machine example-cpu",
    "compare": "compare example-cpu@cpu-old example-cpu",
    "compare-markdown": "compare example-cpu example-gpu --markdown",
    "compare-three": "compare example-cpu@cpu-old example-cpu example-gpu",
}


@pytest.mark.parametrize(("name", "words"), CACHE.items(), ids=CACHE)
def test_a_cache(golden, capsys, monkeypatch, name, words):
    monkeypatch.chdir(TESTS)
    assert command.main(words.split()) == 0
    golden(name, capsys.readouterr().out)
