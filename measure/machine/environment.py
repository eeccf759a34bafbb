"""This machine as it is now: a row of ``machine.csv``, its identity, and the name of its folder."""

import hashlib
import platform
import re
from functools import cache
from pathlib import Path

from measure.cache.project import DISTRIBUTION, ROOT
from measure.domain.records import NAME_LETTERS, Environment
from measure.domain.values import now
from measure.errors import UserError
from measure.machine import processor
from measure.machine.device import Device
from measure.machine.processor import content_of, output_of, precision_overrides, read_cpuinfo, tuning

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")  # all choices, the current one in brackets


def hypervisor() -> str | None:
    """Return lscpu's name of the hypervisor or ``unknown``, ``none`` for a real machine; None if there are no flags."""
    flags = read_cpuinfo().get("flags")
    if flags is None:
        return None
    if "hypervisor" not in flags.split():  # CPUID function 1, ECX bit 31 (AMD64 Programmer's Manual, volume 3)
        return "none"
    vendor = re.search(r"^Hypervisor vendor:\s*(.+)$", output_of("lscpu"), re.MULTILINE)
    return vendor[1] if vendor else "unknown"


def _hash(**facts: object) -> str:
    text = "\n".join(f"{key}={value}" for key, value in sorted(facts.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, without importing it."""
    import importlib.metadata  # late: it takes a fifth of the time of --help

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def version() -> str:
    """Return this program's version; in a clone also the commit, with ``+`` if files differ."""
    installed = installed_version(DISTRIBUTION) or "unknown"
    describe = ("git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*")
    commit = output_of(*describe) if (ROOT / ".git").exists() else ""
    return f"{installed} ({commit})" if commit else installed


def current(device: Device, threads: int) -> Environment:
    """Describe this machine as it is now, without ``Device.facts``.

    Raises UserError if torch is missing or a variable overrides precisions.
    """
    torch_version = installed_version("torch")
    if torch_version is None:
        raise UserError("torch is not installed; install it with pip install 'roofwright[measure]'")
    for setting in precision_overrides():
        raise UserError(f"{setting} sets the precision of fp32 products and overrides --precisions; unset it")
    identity, driver, tuned = device.identity(), device.driver(), tuning()
    hardware_id = _hash(**identity)
    numbers = processor.cpu_numbers()
    bracketed = re.search(r"\[(\w+)\]", content_of(HUGE_PAGES))
    c_library = " ".join(filter(None, platform.libc_ver())) or None
    system = {"c_library": c_library, "huge_pages": bracketed[1] if bracketed else None}
    if tuned:  # an untuned machine keeps its identity when this program learns of another variable
        system["tuning"] = tuned
    return Environment(
        environment_id=_hash(hardware=hardware_id, driver=driver, torch=torch_version, threads=threads, **system),
        hardware_id=hardware_id,
        device=device.kind,
        name=re.sub(f"[^{NAME_LETTERS}]", " ", identity["name"]).strip()[:200] or "unknown",
        cores=processor.visible_cores(),
        threads=threads,
        memory_byte=device.memory_byte(),
        vector_extension=processor.vector_extension(),
        driver=driver,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch_version,
        torchvision=installed_version("torchvision"),
        torchaudio=installed_version("torchaudio"),
        recorded_at=now(),
        cpu_vendor=numbers.vendor,
        cpu_family=numbers.family,
        cpu_model=numbers.model,
        cpu_stepping=numbers.stepping,
        physical_cores=processor.physical_cores(),
        caches=";".join(map(str, processor.caches())) or None if device.kind == "cpu" else None,
        hypervisor=hypervisor(),
        capability=device.capability(),
        power_limit_w=device.power_limit_w(),
        **system,
    )


def folder_name(environment: Environment) -> str:
    """Return the default name of a machine's folder: readable, and unique by its hardware's hash."""
    readable = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", environment.name.lower())).strip("-")
    cores = f"-{environment.cores}c" if environment.device == "cpu" else ""
    return f"{readable}{cores}-{environment.hardware_id[:4]}"
