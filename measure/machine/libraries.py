"""Doctor's checks of the installed libraries and of the environment variables that tune them."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from measure.machine import devices
from measure.machine.environment import installed_version
from measure.machine.host import OK, PROBLEM, WARNING, Finding
from measure.machine.processor import precision_overrides, tuning

TORCH_STREAMS = "a GPU's multiply-adds are not measured, and its memory roof is that of torch's own operators"

LOSSES = {
    "torch": (PROBLEM, "nothing can be measured"),
    "torchvision": (PROBLEM, "it provides the models"),
    "torchaudio": (WARNING, "its models cannot be measured"),
    "numba": (WARNING, "a processor's clock and its roofs in registers and caches cannot be measured"),
    "psutil": (PROBLEM, "cores and memory cannot be read"),
    "rich": (PROBLEM, "progress cannot be shown"),
    "triton": (WARNING, TORCH_STREAMS),
}
"""Libraries by their names in Python: the weight and the effect of a missing one."""

ON_GPU = ("triton",)
"""Needed on a GPU only."""

FAMILY = ("torch", "torchvision", "torchaudio")

COMPATIBLE_SET = "pip install --constraint constraints.txt torch torchvision torchaudio (a set that works together)"

CUPTI = ("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12")
"""torch's packages of NVIDIA's kernel tracer, newest first."""

LOSES_KERNELS = SpecifierSet(">12.6.68,<13.1")
"""CUPTI from CUDA 12.6 Update 2 to 13.0 loses kernels (``measure.profiling.profile``)."""

IMPORT_LIMIT_S = 300.0
"""The limit for importing all libraries: a cold network disk is slow."""

TRIAL = """
import importlib, json, sys
for name in sys.argv[1:]:
    print(json.dumps({"begin": name}), flush=True)
    try:
        library = importlib.import_module(name)
        if name == "torchvision":
            import torch
            library.ops.nms(torch.rand(2, 4), torch.rand(2), 0.5)
        failure = None
    except Exception as problem:
        failure = f"{type(problem).__name__}: {problem}".splitlines()[0]
    print(json.dumps({"end": name, "failure": failure}), flush=True)
    if name == "torch" and failure is None:
        print(json.dumps({"cuda": library.cuda.is_available()}), flush=True)
"""
"""Imports libraries one by one. torchvision registers its compiled operators only if it was built for this torch, so
the trial calls one."""


@dataclass(frozen=True)
class Libraries:
    """Installed libraries: ``versions`` (None: missing), ``failures`` to import, ``conflicts`` of versions (sentences).

    ``cuda``: whether torch can use a GPU, None if torch does not import. ``c_compiler``: the one Triton would call.
    """

    versions: Mapping[str, str | None]
    failures: Mapping[str, str]
    conflicts: tuple[str, ...] = ()
    cuda: bool | None = None
    cupti: str | None = None
    c_compiler: str | None = None
    has_gpu: bool = False


def find_libraries() -> Libraries:
    """Import the installed libraries in a process of its own, which takes seconds."""
    has_gpu = bool(devices.nvidia_handles()) or devices.available_names()[0].startswith("cuda")
    distributions = {name: _distribution(name) for name in LOSSES if has_gpu or name not in ON_GPU}
    versions = {name: installed_version(distribution) for name, distribution in distributions.items()}
    failures, cuda = try_imports([name for name, version in versions.items() if version])
    requirements = {name: importlib.metadata.requires(distributions[name]) or [] for name in versions if versions[name]}
    cupti = next(filter(None, map(installed_version, CUPTI)), None)
    conflicts = find_conflicts(versions, requirements)
    return Libraries(versions, failures, conflicts, cuda, cupti, find_c_compiler(), has_gpu)


def _distribution(name: str) -> str:
    """Return the distribution of a package: the index has Triton for ROCm under another name."""
    if installed_version(name):
        return name
    return next(iter(importlib.metadata.packages_distributions().get(name, ())), name)


def find_c_compiler() -> str | None:
    """Return the C compiler that Triton would call: CC, or the first on the PATH; None if there is none."""
    return os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")


def try_imports(names: list[str], limit_s: float = IMPORT_LIMIT_S) -> tuple[dict[str, str], bool | None]:
    """Return the reason of each import that fails, and whether torch can use a GPU."""
    try:
        command = [sys.executable, "-c", TRIAL, *names]
        trial = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        output, how = trial.stdout, f"importing it ended the process with exit code {trial.returncode}"
    except subprocess.TimeoutExpired as problem:
        output = problem.stdout.decode() if isinstance(problem.stdout, bytes) else problem.stdout or ""
        how = f"importing it took longer than {limit_s:g} s"
    failures: dict[str, str] = {}
    cuda = None
    for line in output.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if "begin" in event:
            failures[event["begin"]] = how  # unless an end follows
        elif "end" in event and event["failure"]:
            failures[event["end"]] = event["failure"]
        elif "end" in event:
            del failures[event["end"]]
        cuda = event.get("cuda", cuda)
    return failures, cuda


def find_conflicts(versions: Mapping[str, str | None], requirements: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Return a sentence for each requirement on another library's version that is not met."""
    found = []
    for name, texts in requirements.items():
        for requirement in map(Requirement, texts):
            version = versions.get(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if version and applies and not requirement.specifier.contains(version, prereleases=True):
                needed = f"{requirement.name} {requirement.specifier}"
                found.append(f"{name} {versions[name]} requires {needed}, but {version} is installed")
    return tuple(found)


def check_libraries(libraries: Libraries) -> Iterator[Finding]:
    versions, failures = libraries.versions, libraries.failures
    for sentence in libraries.conflicts:
        yield Finding(PROBLEM, "versions", sentence, COMPATIBLE_SET)
    for name in FAMILY:
        if name in failures:
            fact = f"{name} {versions[name]} does not work: {failures[name]}"
            yield Finding(PROBLEM, "versions", fact, f"install one that is built for this torch: {COMPATIBLE_SET}")
    family = [f"{name} {versions[name]}" for name in FAMILY if versions.get(name)]
    if family and not libraries.conflicts and not any(name in failures for name in FAMILY):
        yield Finding(OK, "versions", f"{', '.join(family)} import together")
    for name, (level, loss) in LOSSES.items():
        if name in versions and versions[name] is None:
            yield Finding(level, "libraries", f"{name} is not installed: {loss}", f"pip install {name}")
        elif name in failures and name not in FAMILY:
            fact = f"{name} does not import ({failures[name]}): {loss}"
            yield Finding(level, "libraries", fact, f"pip install --force-reinstall {name}")
    if versions.get("triton") and libraries.c_compiler is None:
        fact = f"Triton finds no C compiler: {TORCH_STREAMS}"
        yield Finding(WARNING, "libraries", fact, "install gcc, or set the variable CC to a compiler")
    if libraries.cuda and libraries.cupti and libraries.cupti in LOSES_KERNELS:
        fact = f"CUPTI {libraries.cupti} loses the first kernels of some profiles: incomplete steps are left out"
        yield Finding(WARNING, "versions", fact, "install a torch that is built for CUDA 13.1 or later")
    if libraries.has_gpu and libraries.cuda is False:
        advice = "install a torch that is built for this GPU and its driver"
        yield Finding(PROBLEM, "gpu", f"torch {versions['torch']} cannot use it", advice)


def check_tuning(variables: Mapping[str, str]) -> Iterator[Finding]:
    for setting in precision_overrides(variables):
        yield Finding(PROBLEM, "tuning", f"{setting} sets the precision of fp32 products", "unset it")
    if tuned := tuning(variables):
        advice = "unset them unless intended: rows measured with them belong to a separate environment"
        yield Finding(WARNING, "tuning", f"variables change speed: {tuned.replace(';', ', ')}", advice)
    else:
        yield Finding(OK, "tuning", "no variable tunes torch or its libraries")
