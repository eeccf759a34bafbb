"""Threads that work at the same time, each on its own share."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class Team:
    """So many threads, numbered from 0.

    A member always does the work of its own number, so that the data of its share, which it also put into memory,
    stay in the caches of its core and in the memory nearest to it. What they do at once must release the GIL.
    """

    def __init__(self, threads: int) -> None:
        self._members = [ThreadPoolExecutor(1) for _ in range(threads)]

    def run(self, work: Callable[[int], Result]) -> list[Result]:
        """Return what each member's work, called with its number, gives. Raises what one of them raises."""
        futures = [member.submit(work, number) for number, member in enumerate(self._members)]
        return [future.result() for future in futures]

    def parts(self, count: int) -> list[int]:
        """Return how many of so many things each member gets, as equal as they can be."""
        threads = len(self._members)
        return [count * (number + 1) // threads - count * number // threads for number in range(threads)]
