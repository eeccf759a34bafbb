import os
import shutil
import subprocess
import sys
from functools import partial

import pytest
from helpers.places import ROOT

from measure.machine.tuning import PRECISION, SPEED

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The paper of the committed data, rendered once by the embedded engine."""
    out = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "report", "--engine", "embedded", "--out", out], cwd=ROOT, check=True
    )
    return out


@pytest.fixture
def untuned(monkeypatch):
    """No variable tunes torch's libraries, whatever is set where the tests run."""
    for name in (*SPEED, *PRECISION):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def launch():
    """Start headless Chromium; without it a browser test is skipped, or fails if RIDGEPOINT_REQUIRE_BROWSER is set."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        reason = "no Chromium on this machine: install it to run the browser tests"
        if os.environ.get("RIDGEPOINT_REQUIRE_BROWSER"):
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
