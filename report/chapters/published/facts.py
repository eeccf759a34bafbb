"""How many printed figures of five studies agree with ours, and what the others mean."""

from dataclasses import dataclass

from report.paper import Paper
from report.stats.summary import count_of
from report.stats.value import Value


@dataclass(frozen=True)
class Published:
    studies: Value
    "studies whose printed figures are held against ours"


def of(paper: Paper) -> Published:
    return Published(count_of(paper.published.claims.study.nunique(), "studies"))
