"""Renders that meet each other, a full disk, and folders that cannot be used."""

import errno
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.places import FILTER, ROOT

from measure.errors import UserError
from report import failures, new_paper
from report.__main__ import main
from report.files import write_file

FIGURE = """\
```{python}
#| label: fig-a
#| fig-cap: "A name."
import os, pathlib, time
from report.display import Display
path = pathlib.Path("_figures/a.svg")
path.parent.mkdir(exist_ok=True)
path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>{os.environ["WHO"]}</text></svg>')
time.sleep(1)
Display("![](_figures/a.svg){fig-alt=a}")
```
"""


def make_project(folder, text):
    (folder / "_quarto.yml").write_text("title: T\n")
    (folder / "index.qmd").write_text(text)
    (folder / "data").mkdir()
    return folder


def test_two_renders_in_one_folder_have_their_own_pictures(tmp_path):
    project = make_project(tmp_path, FIGURE)

    def render(who):
        code = "import sys, pathlib, report.__main__ as it; sys.exit(it.main(sys.argv[1:], pathlib.Path()))"
        words = ["--engine", "embedded", "--formats", "html", "--out", who, "--force"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "WHO": who}
        run = subprocess.run([sys.executable, "-c", code, *words], cwd=project, env=environment, capture_output=True)
        assert run.returncode == 0, run.stderr
        return run.stderr.decode()

    with ThreadPoolExecutor() as pool:
        output = [*pool.map(render, ("anne", "bert"))]
    assert sum("waiting for it" in each for each in output) == 1
    for who, other in (("anne", "bert"), ("bert", "anne")):
        page = (project / who / "index.html").read_text("utf-8")
        assert who in page
        assert other not in page


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "facts.json"
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda number: write_file(file, b"%d" % number * 100_000), range(8)))
    whole = file.read_bytes()
    assert whole in [b"%d" % number * 100_000 for number in range(8)]

    def fill(path, content):
        with path.open("wb") as half:
            half.write(content[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(UserError, match=r"cannot write .*facts\.json: No space left on device; make room"):
        write_file(file, b"more")
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_bytes() == whole


def test_a_missing_temporary_folder_is_reported_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    assert main(["--formats", "html"], make_project(tmp_path, "text\n")) == 2
    assert "TMPDIR: there is no folder" in capsys.readouterr().err


def test_a_paper_in_a_read_only_folder_is_one_sentence(tmp_path, monkeypatch, capsys):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    assert main(["new", str(tmp_path / "mine")]) == 0
    monkeypatch.setattr(new_paper.shutil, "copytree", refuse)
    monkeypatch.chdir(tmp_path / "mine")
    assert main([]) == 2
    assert "the paper cannot be put together (Permission denied)" in capsys.readouterr().err
    monkeypatch.setattr(Path, "mkdir", refuse)
    assert main(["new", str(tmp_path / "other")]) == 2
    assert "cannot write" in capsys.readouterr().err


FAILING = """\
See @fig-a, @tbl-b and [this](#fig-a).

```{python}
#| label: fig-a
#| fig-cap: "A failure."
import no_such_module
```

```{python}
#| label: tbl-b
#| tbl-cap: "After @fig-a."
1 / 0
```

The end.
"""


def test_a_failing_cell_leaves_its_sentence_and_its_number(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv(failures.STRICT)
    project = make_project(tmp_path, FAILING)
    (project / "_quarto.yml").write_text(f"title: T\nfilters:\n  - at: pre-ast\n    path: {ROOT / FILTER}\n")
    out = project / "site"
    assert main(["--engine", "embedded", "--out", str(out)], project) == 0
    output = capsys.readouterr().err
    assert "could not be computed: index.qmd:6: ModuleNotFoundError: No module named 'no_such_module'" in output
    assert "could not be computed: index.qmd:12: ZeroDivisionError: division by zero" in output
    page = " ".join(re.sub("<[^>]*>", "", (out / "index.html").read_text("utf-8")).split())
    assert re.search(r"See Figure\s1, Table\s1 and this", page)
    assert re.search(r"index.qmd:6: ModuleNotFoundError.*Figure\s1: A failure\. .*Table\s1: After Figure\s1", page)
    assert page.endswith("The end.")
    assert main(["--engine", "embedded", "--formats", "html", "--strict"], project) == 1
