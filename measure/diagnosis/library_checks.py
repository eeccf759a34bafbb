"""From installed libraries, and the variables that tune them, to findings."""

from collections.abc import Iterator, Mapping

from measure.diagnosis.finding import OK, PROBLEM, WARNING, Finding
from measure.diagnosis.libraries import Libraries
from measure.machine.tuning import overriding, tuning

SET = "pip install --constraint constraints.txt torch torchvision torchaudio (a set that works together)"

FAMILY = ("torch", "torchvision", "torchaudio")

LOSSES = {
    "torch": (PROBLEM, "nothing can be measured"),
    "torchvision": (PROBLEM, "it provides the models"),
    "torchaudio": (WARNING, "its models cannot be measured"),
    "numba": (WARNING, "the clock and the roofs in registers and caches of a processor cannot be measured"),
    "psutil": (PROBLEM, "cores and memory cannot be read"),
    "rich": (PROBLEM, "progress cannot be shown"),
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
        if libraries.versions[name] is None:
            yield Finding(level, "libraries", f"{name} is not installed: {loss}", f"pip install {name}")
        elif name in libraries.failures and name not in FAMILY:
            fact = f"{name} does not import ({libraries.failures[name]}): {loss}"
            yield Finding(level, "libraries", fact, f"pip install --force-reinstall {name}")


def tuning_findings(variables: Mapping[str, str]) -> Iterator[Finding]:
    for setting in overriding(variables):
        fact = f"{setting} sets the precision in which fp32 is multiplied"
        yield Finding(PROBLEM, "tuning", fact, "unset it")
    if tuned := tuning(variables):
        advice = "unset what you do not intend: with them, rows belong to a separate environment"
        yield Finding(WARNING, "tuning", f"set, and changing speed: {tuned.replace(';', ', ')}", advice)
    else:
        yield Finding(OK, "tuning", "no variable tunes torch or its libraries")
