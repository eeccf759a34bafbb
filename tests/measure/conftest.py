from importlib.util import find_spec

import pytest

from measure.machine import devices

collect_ignore_glob = [] if find_spec("torch") else ["*"]
"""All files where measuring's extra is not installed, which brings torch and all else that is imported here."""


@pytest.fixture
def gpu():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    return devices.find("cuda")
