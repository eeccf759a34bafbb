"""Gives every Python process that is started with this folder on its path the GPUs of a machine of the catalogue.

Python imports it before anything else. NVML, torch and Triton are changed once they have been imported.
"""

import importlib.util
import os
import sys
from importlib.abc import MetaPathFinder

from helpers.gpu import here, nvml, stream, torch_side, triton_side
from helpers.places import ROOT

DATA = str(ROOT / "data") + os.sep
WRITING = ("os.rename", "os.mkdir", "os.remove", "os.truncate", "os.link", "os.symlink")


class After(MetaPathFinder):
    """Calls a function for each of some modules, once it has been imported."""

    def __init__(self, calls):
        self._calls, self._is_asking = calls, False

    def find_spec(self, name, _path=None, _target=None):
        if name not in self._calls or self._is_asking:
            return None
        self._is_asking = True  # the others find it
        spec = importlib.util.find_spec(name)
        self._is_asking = False
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_call(module):
            execute(module)
            self._calls[name](module)

        spec.loader.exec_module = execute_and_call
        return spec


def refuse(event, arguments):
    """Keep invented measurements out of the data of the paper."""
    if event == "open":
        path, mode, flags = arguments
        paths = [path] if set(mode or "") & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else []
    else:
        paths = arguments if event in WRITING else ()
    for path in paths:
        if isinstance(path, str | bytes | os.PathLike) and os.path.abspath(os.fsdecode(path)).startswith(DATA):
            raise PermissionError(f"{path}: a GPU that is not there measures nothing for {DATA}")


SIDES = {
    "pynvml": lambda pynvml: vars(pynvml).update(nvml.answers(here(), pynvml)),
    "torch": lambda torch: torch_side.stand_in(here(), torch),
    "triton.runtime.jit": triton_side.stand_in,
}

stream.begin()
sys.meta_path.insert(0, After(SIDES))
sys.addaudithook(refuse)
