import pandas as pd
from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import plain

from report.findings import elsewhere_roofs


def test_what_is_delivered():
    assert "reach 90 % (Bead 2) and 75 % (Cog 3)." in plain(elsewhere_roofs.streams(timed_elsewhere()))
    assert "reach 90 % (Bead 2) and 50 % (Cog 3) at bf16." in plain(elsewhere_roofs.products(timed_elsewhere()))


def test_of_many_devices_the_ends_are_said():
    rows = pd.DataFrame({"device": ["a", "b", "c", "a"], "share": [0.5, 0.9, 0.7, 0.6]})
    assert plain(elsewhere_roofs._shares(rows)) == "90 % (b) down to 60 % (a) on 3 devices"
