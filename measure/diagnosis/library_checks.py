"""From what is installed to findings: torch's family must go together, and what is missing costs something."""

from collections.abc import Iterator

from measure.diagnosis.finding import OK, PROBLEM, WARNING, Finding
from measure.diagnosis.libraries import Libraries

SET = (
    "pip install --constraint constraints.txt torch torchvision torchaudio (an exact set that works together)"
)


def library_findings(libraries: Libraries) -> Iterator[Finding]:
    family = ("torch", "torchvision", "torchaudio")
    there = [f"{name} {libraries.versions[name]}" for name in family if libraries.versions[name]]
    bad = [name for name in family if name in libraries.failures]
    for sentence in libraries.unmet:
        yield Finding(PROBLEM, "versions", sentence, SET)
    for name in bad:
        fact = f"{name} {libraries.versions[name]} does not work: {libraries.failures[name]}"
        yield Finding(PROBLEM, "versions", fact, f"it must be built for this torch: {SET}")
    if there and not bad and not libraries.unmet:
        yield Finding(OK, "versions", f"{', '.join(there)} import together")
    losses = {
        "torch": (PROBLEM, "nothing can be measured"),
        "torchvision": (PROBLEM, "the models are its"),
        "torchaudio": (WARNING, "its models cannot be measured"),
        "numba": (
            WARNING,
            "the clock and the roofs in registers and caches of a processor cannot be measured",
        ),
        "psutil": (PROBLEM, "cores and memory cannot be told"),
        "rich": (PROBLEM, "no progress can be shown"),
    }
    for name, (level, loss) in losses.items():
        if libraries.versions[name] is None:
            yield Finding(level, "libraries", f"{name} is not installed: {loss}", f"pip install {name}")
        elif name in libraries.failures and name not in family:
            fact = f"{name} does not import ({libraries.failures[name]}): {loss}"
            yield Finding(level, "libraries", fact, f"pip install --force-reinstall {name}")
