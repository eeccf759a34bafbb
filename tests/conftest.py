import fcntl
import gc
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from contextlib import chdir
from dataclasses import replace
from functools import partial
from multiprocessing import forkserver
from pathlib import Path

import pytest
from helpers.places import GOLDEN, ROOT
from hypothesis import settings

from measure.domain.roofs import Roof
from measure.machine.processor import PRECISION, SPEED
from measure.run import processes
from measure.timing import sampling
from measure.timing.sampling import Sampling
from measure.verbs import model
from report import failures
from report.failures import in_environment

settings.register_profile("project", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("project")

BRIEF = replace(sampling.ROUND_SAMPLING, warm_up_s=0.3, least_s=0.1, limit_s=0.3)
"""A round for tests of what is stored, not of how well it is known."""

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def pytest_addoption(parser):
    parser.addoption("--overwrite", action="store_true", help="write the golden outputs in tests/golden anew")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    """Start with the slow tests, so that none is left at the end. Tests of a browser or the whole paper are slow."""
    for item in items:
        if item.get_closest_marker("browser") or {"site", "launch"} & set(item.fixturenames):
            item.add_marker("slow")
    result = yield  # pytest chooses by marker
    items[:] = in_stretches(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    return result


def in_stretches(items, workers):
    """Order tests for workers that get equal stretches of the list: each begins with the slow tests of some files.

    A worker that is done takes tests from the end of another's stretch. So a file's slow tests share their fixtures.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    files = list(dict.fromkeys(item.path for item in slow))
    ordered = []
    for number in range(workers):
        size = (len(items) - len(ordered)) // (workers - number)
        stretch = [item for item in slow if item.path in files[number::workers]]
        room = max(0, size - len(stretch))
        ordered += stretch + quick[:room]
        quick = quick[room:]
    return ordered + quick


def pytest_collection_finish():
    """Leave the objects of all modules and tests out of each later collection, which else takes a third of a second."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a test for a GPU that skips if ROOFWRIGHT_REQUIRE_GPU is set."""
    report = yield
    problem = call.excinfo and call.excinfo.value
    is_of_gpu = item.get_closest_marker("gpu") is not None
    if is_of_gpu and isinstance(problem, pytest.skip.Exception) and os.environ.get("ROOFWRIGHT_REQUIRE_GPU"):
        report.outcome, report.longrepr = "failed", f"ROOFWRIGHT_REQUIRE_GPU is set: {problem.msg}"
    return report


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Makes a folder once for all workers: the first that needs ``name`` calls ``make(folder)``."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # all workers'

    def share(name, make):
        with (folder / f"{name}.lock").open("a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.seek(0)
            if not lock.read():
                make(folder / name)
                lock.write("made")
        return folder / name

    return share


@pytest.fixture(scope="session")
def site(shared):
    """The paper of the committed data, from ROOFWRIGHT_SITE or rendered once for all workers."""
    command = [sys.executable, "-m", "report", "--engine", "embedded", "--out"]
    rendered = os.environ.get("ROOFWRIGHT_SITE")
    return Path(rendered or shared("site", lambda out: subprocess.run([*command, out], cwd=ROOT, check=True)))


@pytest.fixture(scope="session", autouse=True)
def strict():
    """A figure that cannot be computed fails a test; no placeholder takes its place."""
    with in_environment({failures.STRICT: "1"}):
        yield


@pytest.fixture
def golden(request, monkeypatch):
    """Compares output with a file: ``golden("show", text)`` with tests/golden/show.txt.

    ``pytest --overwrite`` writes the files anew; git shows the change. Long fractions are rounded to six digits, as the
    last ones depend on the machine.
    """
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)

    def check(name, printed):
        printed = re.sub(r"\d+\.\d{7,}(e[-+]?\d+)?", lambda number: f"{float(number[0]):.6g}", printed)
        path = GOLDEN / f"{name}.txt"
        if request.config.getoption("--overwrite"):
            path.write_text(printed, "utf-8")
        expected = path.read_text("utf-8") if path.exists() else ""
        assert printed == expected, f"differs from {path}; renew it with pytest --overwrite"

    return check


@pytest.fixture
def untuned(monkeypatch):
    """Unset all variables that tune torch's libraries."""
    for name in (*SPEED, *PRECISION):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def roof(monkeypatch):
    """Times a network at hand for a moment under a roof with its ridge at 10 FLOP/B; returns the roofs' precisions."""
    precisions, moment = [], Sampling(target=1, block_s=0.001, trend=1, trend_s=0, least_s=0, limit_s=0.1)
    monkeypatch.setattr(model, "ROUND_SAMPLING", moment)
    monkeypatch.setattr(model, "_roof", lambda _, precision: precisions.append(precision) or Roof({"fp32": 1e12}, 1e11))
    return precisions


@pytest.fixture(scope="module")
def forked_workers():
    """Fork measuring processes from a server that has imported torch, which takes seconds. They measure briefly."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["torch", "torchvision", "tests.helpers.brief_roofs"])
    with chdir(ROOT):  # where the server finds that file
        forkserver.ensure_running()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "SPAWN", server)
        patch.setattr(sampling, "ROUND_SAMPLING", BRIEF)
        yield


@pytest.fixture
def brief_rounds(monkeypatch):
    """Let rounds end soon."""
    monkeypatch.setattr(sampling, "ROUND_SAMPLING", BRIEF)


@pytest.fixture(scope="session")
def launch():
    """Start headless Chromium; without it a browser test is skipped, or fails if ROOFWRIGHT_REQUIRE_BROWSER is set."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        reason = "no Chromium on this machine: install it to run the browser tests"
        if os.environ.get("ROOFWRIGHT_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield partial(
            playwright.chromium.launch,
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"],
        )


@pytest.fixture(scope="session")
def browser(launch):
    chromium = launch()
    yield chromium
    chromium.close()
