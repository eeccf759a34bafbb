"""What a Lua filter makes of a small document."""

import subprocess

from helpers.places import ROOT
from report.engine.embedded import find_pandoc


def filtered(path, text, to="markdown", env=None):
    """The document, as pandoc writes it in a format, after the filter at a path below the project."""
    command = [find_pandoc(), "--from=markdown", f"--to={to}", "--wrap=none", f"--lua-filter={ROOT / path}"]
    run = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", env=env)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()
