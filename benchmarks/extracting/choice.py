"""Choose few rows of many by the same rules each time: newest versions, and sizes at even steps of the logarithm."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

STAGES = {"dev": -3, "rc": -1, "post": 1}  # of a release, which is 0


def version_order(version: str) -> list[tuple[int, int]]:
    """Return a key that sorts versions such as 1.3.0rc10 and 0.5.6.post2 by age."""
    public = version.partition("+")[0]
    return [(0, int(part)) if part.isdigit() else (STAGES[part], 0) for part in re.findall(r"\d+|[a-z]+", public)] + [
        (0, 0)
    ]


def newest(sizes: pd.DataFrame, group: Sequence[str]) -> pd.DataFrame:
    """Keep the newest ``software`` of each group; ``sizes`` has a row for each group and version."""
    ordered = sizes.assign(order=sizes.software.map(version_order)).sort_values("order", kind="stable")
    return ordered.drop_duplicates([*group], keep="last").drop(columns="order")


def on_lattice(rows: pd.DataFrame, stratum: Sequence[str], steps: Mapping[str, float], one_of: int) -> pd.Series:
    """Mark one row in each cell of a lattice of sizes, and of the cells one of so many, evenly spread.

    ``steps``: the width of a cell by column, in powers of two. Of the rows in a cell the one nearest its centre stays.
    A cell stays if the sum of its places, weighted by 1, 2, 4 and so on, is a multiple of ``one_of``. Where that is
    odd, all places of a column occur equally often.
    """
    places, distance, total = [], np.zeros(len(rows)), np.zeros(len(rows), int)
    for weight, (name, step) in enumerate(steps.items()):
        exact = np.log2(rows[name].clip(lower=0.5).to_numpy(float)) / step
        place = np.rint(exact).astype(int)
        places.append(pd.Series(place, rows.index, name=f"place of {name}"))
        distance += abs(exact - place)
        total += place * 2**weight
    cells = pd.concat([rows[[*stratum]], *places, pd.Series(distance, rows.index, name="distance")], axis=1)
    cells = cells[total % one_of == 0].sort_values("distance", kind="stable")
    kept = cells.drop_duplicates([*stratum, *(place.name for place in places)]).index
    return pd.Series(rows.index.isin(kept), rows.index)
