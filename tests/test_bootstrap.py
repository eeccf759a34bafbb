"""The setup of the environment: its complaints, and its summary of pip's lines. Nothing is installed."""

import ast
import io
import sys
from types import SimpleNamespace

import pytest
from helpers.places import ROOT

import bootstrap


@pytest.mark.parametrize(
    ("version", "missing", "message"),
    [
        ((3, 9, 2), None, "Python 3.11 or later, and /bin/python3 is 3.9;"),
        ((3, 12, 1), "ensurepip", "sudo apt install python3.12-venv"),
        ((3, 12, 1), "venv", "sudo apt install python3.12-venv"),
    ],
)
def test_a_python_that_will_not_do_is_one_sentence(monkeypatch, capsys, version, missing, message):
    python = SimpleNamespace(version_info=version, executable="/bin/python3", stderr=sys.stderr)
    monkeypatch.setattr(bootstrap, "sys", python)
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None if name == missing else object())
    assert bootstrap.main(".venv", ".") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    ast.parse((ROOT / "bootstrap.py").read_text("utf-8"), feature_version=(3, 7))  # or it could not complain


def test_large_packages_are_named_and_small_ones_added_up(tmp_path, capsys):
    here = tmp_path / "timm-1.0.28-py3-none-any.whl"
    here.write_bytes(b"x" * 12_000_000)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    lines = [
        "Collecting torch>=2.6 (from roofwright==0.1.0)\n",
        "  Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)\n",
        "  Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl (865.4 MB)\n",
        "Downloading nvidia_cublas-13.1.1.3-py3-none-any.whl (1.2 GB)\n",
        "  Downloading six-1.17.0-py2.py3-none-any.whl (4 MB)\n",
        "  Using cached idna-3.10-py3-none-any.whl (5017 kB)\n",
        f"Processing {here} (from roofwright)\n",
        "Processing /nowhere/pip-26.0-py3-none-any.whl (from roofwright)\n",
        "Installing collected packages: six, idna, timm, nvidia_cublas, torch\n",
        "Successfully installed idna-3.10 six-1.17.0 timm-1.0.28 nvidia_cublas-13.1.1.3 torch-2.14.1\n",
    ]
    log = io.StringIO()
    bootstrap.follow(lines, log, str(tmp_path))
    assert log.getvalue() == "".join(lines)
    assert capsys.readouterr().out.splitlines() == [
        "  torch 2.14.1, 865 MB",
        "  nvidia_cublas 13.1.1.3, 1.2 GB",
        "  timm 1.0.28, 12 MB",
        "  and 2 smaller packages, 9 MB",
        f"Installing 5 packages into {tmp_path}",
    ]
    assert bootstrap.size_mb(str(tmp_path)) == pytest.approx(12.0, abs=0.01)


def test_a_failed_install_shows_the_errors_of_pip(tmp_path, monkeypatch, capsys):
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "Collecting all"\necho "ERROR: no such thing" >&2\nexit 1\n')
    python.chmod(0o755)
    (python.parent / "pip").touch()
    monkeypatch.chdir(tmp_path)
    assert bootstrap.main("venv", "all") == 1
    assert capsys.readouterr().err == "ERROR: no such thing\npip could not install all; see venv/install.log\n"
    assert "Collecting all" in (tmp_path / "venv" / "install.log").read_text()
