"""The completion that shtab writes, tried in bash."""

import shutil
import subprocess
import sys

import pytest

from measure.__main__ import main
from measure.verbs.flags import VERBS


def test_without_shtab_one_sentence_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--print-completion", "bash"]) == 2
    assert "pip install shtab" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash reads it")
def test_bash_completes_verbs_flags_and_words(tmp_path, capsys):
    pytest.importorskip("shtab", reason="the extra completion")
    assert main(["--print-completion", "bash"]) == 0
    (tmp_path / "completion").write_text(capsys.readouterr().out)

    def complete(*words):
        tried = " ".join(f"'{word}'" for word in ("roofwright", *words))
        script = f"source completion; COMP_WORDS=({tried}); COMP_CWORD={len(words)}; _shtab_roofwright"
        command = ["bash", "-c", f"{script}; echo ${{COMPREPLY[@]}}"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()

    assert set(complete("measure", "")) >= set(VERBS)
    assert complete("measure", "compare", "--fail-on-g") == ["--fail-on-growth"]
    assert complete("measure", "model", "resnet5") == ["resnet50"]
    assert "operators" in complete("measure", "--sections", "")
    assert set(complete("report", "")) >= {"render", "figures", "why", "check", "new"}
    assert complete("report", "--form") == ["--formats"]
    assert main(["--print-completion", "cmd"]) == 2
    assert "'cmd'" in capsys.readouterr().err
