"""This machine as it is now: the row of ``machine.csv``, its identity, and the name of its folder.

The system below this process: its C library, its hypervisor, how it backs memory.
"""

import hashlib
import importlib.metadata
import os
import platform
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from measure.cache.project import DISTRIBUTION, ROOT
from measure.cache.records import Environment
from measure.domain.roofs import text_of
from measure.domain.values import now
from measure.errors import UserError
from measure.machine import processor
from measure.machine.device import Device
from measure.machine.processor import check_precisions, content_of, described, tuning

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def c_library() -> str | None:
    """Return the C library and its version, such as ``glibc 2.36``; None where it is not told."""
    return " ".join(filter(None, platform.libc_ver())) or None


def huge_pages() -> str | None:
    """Return Linux's setting of transparent huge pages; None where there is none."""
    chosen = re.search(r"\[(\w+)\]", content_of(HUGE_PAGES))
    return chosen[1] if chosen else None


def hypervisor() -> str | None:
    """Return what a virtual machine runs on, ``none`` for a real one; None where the processor does not say.

    A virtual processor has the flag ``hypervisor`` (AMD64 Architecture Programmer's Manual, volume 3: CPUID function 1,
    ECX bit 31). The name is the one that lscpu reads from the hypervisor's own CPUID function, where lscpu is there.
    """
    flags = described().get("flags")
    if flags is None:
        return None
    if "hypervisor" not in flags.split():
        return "none"
    english = os.environ | {"LC_ALL": "C"}
    try:
        said = subprocess.run(["lscpu"], capture_output=True, text=True, check=True, env=english).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    named = re.search(r"^Hypervisor vendor:\s*(.+)$", said, re.MULTILINE)
    return named[1] if named else "unknown"


def _hash(facts: dict[str, Any], length: int) -> str:
    text = "\n".join(f"{key}={value}" for key, value in sorted(facts.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def version() -> str:
    """Return this program's version, with the commit where it runs from a clone, and ``+`` where files differ."""
    installed = installed_version(DISTRIBUTION) or "unknown"
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    if not (ROOT / ".git").exists():
        return installed
    try:
        commit = subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return installed
    return f"{installed} ({commit})"


def current(device: Device, threads: int) -> Environment:
    """Describe this machine as it is now. Raises UserError if torch is missing or a variable changes precisions."""
    torch_version = installed_version("torch")
    if torch_version is None:
        raise UserError("torch is not installed; install it with pip install 'roofwright[measure]'")
    identity = device.identity()
    hardware_id = _hash(identity, 12)
    check_precisions()
    cpu_vendor, cpu_family, cpu_model = processor.numbers()
    library, pages, tuned = c_library(), huge_pages(), tuning()
    checked = {"hardware": hardware_id, "driver": device.driver(), "torch": torch_version, "threads": threads}
    checked |= {"c_library": library, "huge_pages": pages}
    if tuned:  # not otherwise, so that the identity of what was never tuned stays
        checked["tuning"] = tuned
    return Environment(
        environment_id=_hash(checked, 12),
        hardware_id=hardware_id,
        device=device.kind,
        name=identity["name"],
        cores=processor.visible_cores(),
        threads=threads,
        memory_byte=device.memory_byte(),
        vector_extension=processor.vector_extension(),
        driver=device.driver(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch_version,
        torchvision=installed_version("torchvision"),
        torchaudio=installed_version("torchaudio"),
        recorded_at=now(),
        cpu_vendor=cpu_vendor,
        cpu_family=cpu_family,
        cpu_model=cpu_model,
        physical_cores=processor.physical_cores(),
        caches=text_of(processor.caches()) if device.kind == "cpu" else None,
        tuning=tuned,
        c_library=library,
        hypervisor=hypervisor(),
        huge_pages=pages,
        capability=device.capability(),
    )


def folder_name(environment: Environment) -> str:
    """Name a machine's folder where the user does not: readable, and unique by its hardware's hash."""
    readable = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", environment.name.lower())).strip("-")
    cores = f"-{environment.cores}c" if environment.device == "cpu" else ""
    return f"{readable}{cores}-{environment.hardware_id[:4]}"
