"""A finding of ``doctor``: one fact of a machine, how it weighs, and what to do about it."""

from dataclasses import dataclass

OK, WARNING, PROBLEM, UNCHECKED = "ok", "warning", "problem", "unchecked"
"""How a finding weighs: it widens or shifts figures (warning), it spoils or prevents them (problem)."""

NEAR_LIMIT_C = 10.0
"""Degrees below a limit: less leave a chip at rest no room to work."""


@dataclass(frozen=True)
class Finding:
    level: str
    subject: str
    fact: str
    advice: str | None = None


def judged(level: str, subject: str, fact: str, advice: str) -> Finding:
    """Return a finding that gives its advice unless all is well."""
    return Finding(level, subject, fact, None if level == OK else advice)


def untold(source: str, subject: str, fact: str) -> Finding:
    return Finding(UNCHECKED, subject, f"{source} does not tell {fact}")


def level_of(value: float, bounds: tuple[float, float]) -> str:
    """Grade a value by the bounds from which it is a warning, and a problem."""
    warning, problem = bounds
    return PROBLEM if value >= problem else WARNING if value >= warning else OK


def gigabytes(byte: float) -> str:
    return f"{byte / 1e9:.1f} GB"


def temperature_finding(subject: str, what: str, temperature: float, limit: float | None) -> Finding:
    if limit is None:
        return Finding(OK, subject, f"{what} {temperature:.0f} °C, and no limit")
    fact = f"{what} {temperature:.0f} °C, and the limit is {limit:.0f} °C"
    level = WARNING if temperature > limit - NEAR_LIMIT_C else OK
    return judged(level, subject, fact, "let it cool down, or improve the cooling")
