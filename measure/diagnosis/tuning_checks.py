"""From the variables that tune torch's libraries to findings."""

from collections.abc import Iterator, Mapping

from measure.diagnosis.finding import OK, PROBLEM, WARNING, Finding
from measure.machine.tuning import overriding, tuning


def tuning_findings(variables: Mapping[str, str]) -> Iterator[Finding]:
    for setting in overriding(variables):
        yield Finding(
            PROBLEM, "tuning", f"{setting} decides in what precision fp32 is multiplied", "unset it"
        )
    if tuned := tuning(variables):
        advice = "unset what is not meant: the rows become those of an environment of its own"
        yield Finding(WARNING, "tuning", f"set, and deciding over speed: {tuned.replace(';', ', ')}", advice)
    else:
        yield Finding(OK, "tuning", "no variable tunes torch or its libraries")
