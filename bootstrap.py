"""Make a virtual environment and install this project into it: ``python3 bootstrap.py .venv '.[measure]'``.

``make`` runs this with whatever Python there is, so it needs no library and parses under any Python 3. It shows what is
downloaded and how large that is, since PyTorch takes minutes; all that pip says goes into ``install.log``.
"""

import importlib.util
import os
import re
import subprocess
import sys
import threading
import time

LEAST_VERSION = (3, 11)
"""The oldest Python that runs this project."""

SHOWN_MB = 10.0
"""Packages of this size or more are named one by one."""

LOOK_S = 10.0
"""How often the size of what is installed is shown."""

ARRIVAL = re.compile(r"\s*(?:Downloading|Using cached) (\S+?)-(\d[^-\s]*)-\S*\.whl \(([\d.]+) ([kMG]?B)\)")
"""What pip says of a file that it downloads, or has downloaded before."""

LOCAL = re.compile(r"\s*Processing (\S+/([^/\s]+?)-(\d[^-\s]*)-[^/\s]*\.whl)")
"""What pip says of a file that lies on this machine."""

MB = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def complaint():
    """Return one sentence that says what Python lacks and how to get it; None where it lacks nothing."""
    if sys.version_info < LEAST_VERSION:
        version, least = (".".join(map(str, numbers[:2])) for numbers in (sys.version_info, LEAST_VERSION))
        return (
            f"this project needs Python {least} or later, and {sys.executable} is {version}; install a newer one, "
            f"then run make PYTHON=/path/to/python{least}"
        )
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        version = ".".join(map(str, sys.version_info[:2]))
        return (
            f"{sys.executable} cannot make a virtual environment; install its venv module "
            f"(Debian and Ubuntu: sudo apt install python{version}-venv), then run make again"
        )
    return None


def arrival(line):
    """Return the package, version and size (MB) that a line of pip's announces; None for any other line."""
    match = ARRIVAL.match(line)
    if match:
        return match[1], match[2], float(match[3]) * MB[match[4]]
    match = LOCAL.match(line)
    if match and os.path.isfile(match[1]):
        return match[2], match[3], os.path.getsize(match[1]) / 1e6
    return None


def size_mb(folder):
    """Return the size of all files below a folder, in MB."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # pip removed it meanwhile
                continue
    return total / 1e6


def shown(megabytes):
    return f"{megabytes / 1e3:.1f} GB" if megabytes >= 1e3 else f"{megabytes:.0f} MB"


def say(text):
    print(text, flush=True)


def watch(folder, is_done):
    """Say how large a folder has grown, until that is done."""
    while not is_done.wait(LOOK_S):
        say(f"  {shown(size_mb(folder))} on disk so far")


def follow(lines, log, folder):
    """Write pip's lines into a log, and say what arrives and when it is unpacked."""
    small, is_done = [], threading.Event()
    for line in lines:
        log.write(line)
        found = arrival(line)
        if found and found[2] >= SHOWN_MB:
            say(f"  {found[0]} {found[1]}, {shown(found[2])}")
        elif found:
            small.append(found[2])
        elif line.startswith("Installing collected packages:") and not is_done.is_set():
            if small:
                say(f"  and {len(small)} smaller packages, {shown(sum(small))}")
            say(f"Installing {line.count(',') + 1} packages into {folder}")
            threading.Thread(target=watch, args=(folder, is_done), daemon=True).start()
    is_done.set()


def main(folder, requirement):
    """Return 0, 1 where pip fails, or 2 where this Python will not do."""
    problem = complaint()
    if problem:
        print(problem, file=sys.stderr)
        return 2
    began = time.monotonic()
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "bin", "pip")):  # which comes last
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    say(f"Setting up {folder} (PyTorch with its CUDA libraries takes several GB). Downloading:")
    path = os.path.join(folder, "install.log")
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off"]
    command += ["--constraint", "constraints.txt", "--editable", requirement]
    with open(path, "w", encoding="utf-8") as log:
        pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, universal_newlines=True)
        follow(pip.stdout, log, folder)
        pip.wait()
    if pip.returncode:
        with open(path, encoding="utf-8") as log:
            errors = [line.strip() for line in log if line.startswith("ERROR:")]
        print("\n".join([*errors, f"pip could not install {requirement}; see {path}"]), file=sys.stderr)
        return 1
    say(f"Set up {folder}: {shown(size_mb(folder))} in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
