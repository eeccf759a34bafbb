"""The libraries that measuring needs: their versions, whether those go together, and whether they import.

From installed libraries, and the variables that tune them, to findings.
"""

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
from measure.machine.processor import overriding, tuning

NAMES = ("torch", "torchvision", "torchaudio", "numba", "psutil", "rich")
"""As packages are called in Python and in the index alike."""

ON_GPU = ("triton",)
"""Those that are needed on a GPU of NVIDIA or AMD alone."""

CUPTI = ("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12")
"""The packages in which torch brings NVIDIA's library that sees kernels, newest first."""

IMPORT_LIMIT_S = 300.0
"""The longest that importing them may take: a cold network disk is slow."""

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
"""Imports one after another in a process of its own. torchvision's compiled operators are registered only where it
was built for this torch, so one of them is called."""


@dataclass(frozen=True)
class Libraries:
    """``versions``: None where it is not installed. ``failures``: why one does not import. ``unmet``: what one asks of
    another's version and does not find. ``cuda``: whether torch can use a GPU; None where torch does not import.
    ``cupti``: the version of NVIDIA's library that tells torch's profiler of kernels. ``c_compiler``: what Triton calls
    before it launches a kernel.
    """

    versions: Mapping[str, str | None]
    failures: Mapping[str, str]
    unmet: tuple[str, ...]
    cuda: bool | None
    cupti: str | None = None
    c_compiler: str | None = None


def observe() -> Libraries:
    """Import what is installed here in a process of its own, which takes some seconds."""
    has_gpu = devices.available_names()[0].startswith("cuda")
    distributions = {name: _distribution(name) for name in ((*NAMES, *ON_GPU) if has_gpu else NAMES)}
    versions = {name: installed_version(distribution) for name, distribution in distributions.items()}
    failures, cuda = try_imports([name for name, version in versions.items() if version])
    asked = {name: importlib.metadata.requires(distributions[name]) or [] for name in versions if versions[name]}
    cupti = next(filter(None, map(installed_version, CUPTI)), None)
    return Libraries(versions, failures, unmet(versions, asked), cuda, cupti, c_compiler())


def _distribution(name: str) -> str:
    """Return what brings a package: Triton for ROCm is in the index under another name than Triton."""
    if installed_version(name):
        return name
    return next(iter(importlib.metadata.packages_distributions().get(name, ())), name)


def c_compiler() -> str | None:
    """Return the C compiler that Triton would call: that of CC, or the first on the PATH; None where there is none."""
    return os.environ.get("CC") or next(filter(None, map(shutil.which, ("gcc", "clang"))), None)


def try_imports(names: list[str], limit_s: float = IMPORT_LIMIT_S) -> tuple[dict[str, str], bool | None]:
    """Return why each library that does not import does not, and whether torch can use a GPU."""
    command = [sys.executable, "-c", TRIAL, *names]
    try:
        trial = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        output, how = trial.stdout, f"importing it ended the process with exit code {trial.returncode}"
    except subprocess.TimeoutExpired as problem:
        output = problem.stdout.decode() if isinstance(problem.stdout, bytes) else problem.stdout or ""
        how = f"importing it took longer than {limit_s:g} s"
    failures: dict[str, str] = {}
    cuda = None
    for line in output.splitlines():
        said = json.loads(line) if line.startswith("{") else {}
        if "begin" in said:
            failures[said["begin"]] = how  # until it says otherwise
        elif "end" in said and said["failure"]:
            failures[said["end"]] = said["failure"]
        elif "end" in said:
            del failures[said["end"]]
        cuda = said.get("cuda", cuda)
    return failures, cuda


def unmet(versions: Mapping[str, str | None], asked: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Say, a sentence each, which requirements of installed packages on each other's versions are not met."""
    found = []
    for name, requirements in asked.items():
        for requirement in map(Requirement, requirements):
            version = versions.get(requirement.name)
            applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if version and applies and not requirement.specifier.contains(version, prereleases=True):
                wanted = f"{requirement.name} {requirement.specifier}"
                found.append(f"{name} {versions[name]} asks for {wanted}, and {version} is installed")
    return tuple(found)


SET = "pip install --constraint constraints.txt torch torchvision torchaudio (a set that works together)"

FAMILY = ("torch", "torchvision", "torchaudio")

TORCHS_STREAMS = "a GPU's multiply-adds are not measured, and its memory's roof is that of torch's own operators"

LOSES_KERNELS = SpecifierSet(">12.6.68,<13.1")
"""The versions of CUPTI from CUDA 12.6 Update 2 to 13.0, which lose kernels (``measure.profiling.profile``)."""

LOSSES = {
    "torch": (PROBLEM, "nothing can be measured"),
    "torchvision": (PROBLEM, "it provides the models"),
    "torchaudio": (WARNING, "its models cannot be measured"),
    "numba": (WARNING, "the clock and the roofs in registers and caches of a processor cannot be measured"),
    "psutil": (PROBLEM, "cores and memory cannot be read"),
    "rich": (PROBLEM, "progress cannot be shown"),
    "triton": (WARNING, TORCHS_STREAMS),
}
"""How much it weighs that a library is missing, and why."""


def library_findings(libraries: Libraries) -> Iterator[Finding]:
    there = [f"{name} {libraries.versions[name]}" for name in FAMILY if libraries.versions[name]]
    bad = [name for name in FAMILY if name in libraries.failures]
    for sentence in libraries.unmet:
        yield Finding(PROBLEM, "versions", sentence, SET)
    for name in bad:
        fact = f"{name} {libraries.versions[name]} does not work: {libraries.failures[name]}"
        yield Finding(PROBLEM, "versions", fact, f"it must be built for this torch: {SET}")
    if there and not bad and not libraries.unmet:
        yield Finding(OK, "versions", f"{', '.join(there)} import together")
    for name, (level, loss) in LOSSES.items():
        if name not in libraries.versions:
            continue
        if libraries.versions[name] is None:
            yield Finding(level, "libraries", f"{name} is not installed: {loss}", f"pip install {name}")
        elif name in libraries.failures and name not in FAMILY:
            fact = f"{name} does not import ({libraries.failures[name]}): {loss}"
            yield Finding(level, "libraries", fact, f"pip install --force-reinstall {name}")
    if libraries.versions.get("triton") and libraries.c_compiler is None:
        fact = f"Triton finds no C compiler: {TORCHS_STREAMS}"
        yield Finding(WARNING, "libraries", fact, "install gcc, or name a compiler in the variable CC")
    if libraries.cuda and libraries.cupti and libraries.cupti in LOSES_KERNELS:
        fact = f"CUPTI {libraries.cupti} loses the first kernels of some profiles: steps that lack any are left out"
        yield Finding(WARNING, "versions", fact, "a torch that is built for CUDA 13.1 or later has a newer one")


def tuning_findings(variables: Mapping[str, str]) -> Iterator[Finding]:
    for setting in overriding(variables):
        fact = f"{setting} sets the precision in which fp32 is multiplied"
        yield Finding(PROBLEM, "tuning", fact, "unset it")
    if tuned := tuning(variables):
        advice = "unset what you do not intend: with them, rows belong to a separate environment"
        yield Finding(WARNING, "tuning", f"set, and changing speed: {tuned.replace(';', ', ')}", advice)
    else:
        yield Finding(OK, "tuning", "no variable tunes torch or its libraries")
