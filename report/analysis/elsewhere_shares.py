"""What share of their roof models reach on devices that others timed: by the model's size, and by its family."""

from math import floor, log10

import pandas as pd

from report.analysis import elsewhere
from report.analysis.available import DataMissingError, at_least_one
from report.analysis.elsewhere_pairs import TAILS, FactorSpread
from report.load.paper import Paper

STEPS = 2
"""A decade of FLOP is divided into so many sizes."""

FEWEST_OF_SIZE = 5
FEWEST_OF_FAMILY = 10
"""The models that a size or a family needs, for its quantiles to be more than its members."""


def by_size(rows: pd.DataFrame) -> pd.DataFrame:
    """One row is a range of FLOP of an input, by its geometric middle ``flop``: quantiles of the share of the roof.

    The columns ``low``, ``middle`` and ``high`` are the quantiles of a tenth, a half and nine tenths of its ``models``.
    """
    bins = rows.forward_flop.map(lambda flop: floor(STEPS * log10(flop)))
    groups = [(step, found) for step, found in rows.groupby(bins) if found.model.nunique() >= FEWEST_OF_SIZE]
    return pd.DataFrame(
        [
            {
                "flop": 10 ** ((step + 0.5) / STEPS), "models": found.model.nunique(),
                **dict(zip(("low", "middle", "high"), found.attained.quantile([TAILS[0], 0.5, TAILS[1]]), strict=True)),
            }
            for step, found in groups
        ]
    )  # fmt: skip


def by_family(paper: Paper) -> tuple[str, str, dict[str, FactorSpread]]:
    """Return the device and precision of most models, and each family's shares of the roof there, the highest first."""
    device, computed, shown = elsewhere.most_published(paper)
    of_model = shown.groupby(["family", "model"]).attained.max()
    families = {
        str(family): FactorSpread.of(shares.droplevel("family"))
        for family, shares in of_model.groupby("family")
        if len(shares) >= FEWEST_OF_FAMILY
    }
    gap = DataMissingError(f"No family has {FEWEST_OF_FAMILY} models that others timed on one device; {elsewhere.ADD}.")
    known = at_least_one(families, gap)
    return device, computed, dict(sorted(known.items(), key=lambda item: -item[1].median))
