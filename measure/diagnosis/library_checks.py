"""From installed libraries, and the variables that tune them, to findings."""

from collections.abc import Iterator, Mapping

from packaging.specifiers import SpecifierSet

from measure.diagnosis.finding import OK, PROBLEM, WARNING, Finding
from measure.diagnosis.libraries import Libraries
from measure.machine.tuning import overriding, tuning

SET = "pip install --constraint constraints.txt torch torchvision torchaudio (a set that works together)"

FAMILY = ("torch", "torchvision", "torchaudio")

TORCHS_STREAMS = "a GPU's multiply-adds are not measured, and its memory's roof is that of torch's own operators"

LOSES_KERNELS = SpecifierSet(">12.6.68,<13.1")
"""The versions of CUPTI from CUDA 12.6 Update 2 to 13.0, which lose kernels (``measure.profiling.whole_steps``)."""

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
