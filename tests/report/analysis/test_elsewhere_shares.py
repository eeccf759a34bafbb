import pandas as pd
import pytest
from helpers.elsewhere_papers import timed_elsewhere

from report.analysis import elsewhere_shares


def test_by_size():
    # Half decades: 1 to 3.16 GFLOP and 3.16 to 10 GFLOP; six models in each, and four that are too few
    sizes = [1.1e9] * 6 + [5e9] * 6 + [5e10] * 4
    rows = pd.DataFrame(
        {
            "forward_flop": sizes,
            "model": [f"m{at}" for at in range(16)],
            "attained": [0.1, 0.1, 0.2, 0.2, 0.3, 0.3] * 2 + [0.9] * 4,
        }
    )
    first, second = elsewhere_shares.by_size(rows).itertuples()
    assert (first.models, first.middle) == (6, pytest.approx(0.2))
    assert (first.low, first.high) == (pytest.approx(0.1), pytest.approx(0.3))
    assert first.flop == pytest.approx(10**9.25)
    assert second.flop == pytest.approx(10**9.75)


def test_by_family():
    device, computed, families = elsewhere_shares.by_family(timed_elsewhere())
    assert (device, computed) == ("Bead 2", "fp16")
    # Compiled oaks are twice as fast as 40 to 51 % of the peak; of the elms ten gain half on 10 to 19 %, and the last
    # two are faster in channels_last, by a tenth on 20 and 21 %: 15, 16.5, ..., 28.5, 22, 23.1
    assert list(families) == ["oak", "elm"]
    assert families["oak"].median == pytest.approx(0.91)
    assert families["elm"].median == pytest.approx((22 + 22.5) / 200)
    assert families["oak"].models == 12
