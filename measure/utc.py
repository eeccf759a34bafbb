"""The time, as tables write it."""

from datetime import UTC, datetime


def now() -> str:
    """Return the time in UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
