"""What sets the environment up: its complaints, and what it shows of pip's lines. Nothing is installed."""

import ast
import io
import sys
from types import SimpleNamespace

import pytest
from helpers.places import ROOT

import bootstrap


@pytest.mark.parametrize(
    ("version", "missing", "said"),
    [
        ((3, 9, 2), None, "Python 3.11 or later, and /bin/python3 is 3.9;"),
        ((3, 12, 1), "ensurepip", "sudo apt install python3.12-venv"),
        ((3, 12, 1), "venv", "sudo apt install python3.12-venv"),
    ],
)
def test_a_python_that_will_not_do_is_one_sentence(monkeypatch, capsys, version, missing, said):
    python = SimpleNamespace(version_info=version, executable="/bin/python3", stderr=sys.stderr)
    monkeypatch.setattr(bootstrap, "sys", python)
    monkeypatch.setattr(bootstrap.importlib.util, "find_spec", lambda name: None if name == missing else object())
    assert bootstrap.main(".venv", ".") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_it_parses_under_a_python_that_is_too_old():
    ast.parse((ROOT / "bootstrap.py").read_text("utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("  Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl (865.4 MB)\n", ("torch", "2.14.1", 865.4)),
        ("  Using cached numpy-2.4.6-cp311-cp311-linux_x86_64.whl (17 kB)\n", ("numpy", "2.4.6", 0.017)),
        ("Downloading nvidia_cublas-13.1.1.3-py3-none-any.whl (1.2 GB)\n", ("nvidia_cublas", "13.1.1.3", 1200.0)),
        ("Collecting torch>=2.6 (from roofwright==0.1.0)\n", None),
        ("  Downloading torch-2.14.1-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)\n", None),
        ("Processing /nowhere/torch-2.14.1-cp311-cp311-linux_x86_64.whl (from torch)\n", None),
    ],
)
def test_what_pip_says_of_a_file(line, found):
    assert bootstrap.arrival(line) == (found if found is None else (*found[:2], pytest.approx(found[2])))


def test_a_file_on_this_machine_has_its_size(tmp_path):
    wheel = tmp_path / "torch-2.14.1-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"x" * 2_000_000)
    assert bootstrap.arrival(f"Processing {wheel} (from torch)\n") == ("torch", "2.14.1", 2.0)


def test_large_packages_are_named_and_small_ones_added_up(tmp_path, capsys):
    lines = [
        "Collecting torch\n",
        "  Downloading torch-2.14.1-cp311-cp311-linux_x86_64.whl (865.4 MB)\n",
        "  Downloading six-1.17.0-py2.py3-none-any.whl (4 MB)\n",
        "  Downloading idna-3.10-py3-none-any.whl (5 MB)\n",
        "Installing collected packages: six, idna, torch\n",
        "Successfully installed idna-3.10 six-1.17.0 torch-2.14.1\n",
    ]
    log = io.StringIO()
    bootstrap.follow(lines, log, str(tmp_path))
    assert log.getvalue() == "".join(lines)
    assert capsys.readouterr().out.splitlines() == [
        "  torch 2.14.1, 865 MB",
        "  and 2 smaller packages, 9 MB",
        f"Installing 3 packages into {tmp_path}",
    ]


def test_the_size_of_a_folder(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(b"x" * 3_000_000)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert bootstrap.size_mb(str(tmp_path)) == pytest.approx(3.0, abs=0.01)


def test_what_pip_could_not_install_is_said_with_its_errors_and_exit_code_1(tmp_path, monkeypatch, capsys):
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "Collecting all"\necho "ERROR: no such thing" >&2\nexit 1\n')
    python.chmod(0o755)
    (python.parent / "pip").touch()
    monkeypatch.chdir(tmp_path)
    assert bootstrap.main("venv", "all") == 1
    assert capsys.readouterr().err == "ERROR: no such thing\npip could not install all; see venv/install.log\n"
    assert "Collecting all" in (tmp_path / "venv" / "install.log").read_text()
