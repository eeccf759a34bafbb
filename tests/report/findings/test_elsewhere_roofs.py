from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import plain

from report.findings import elsewhere_roofs


def test_what_is_delivered():
    assert "reach 90 % (Bead 2) and 75 % (Cog 3)." in plain(elsewhere_roofs.streams(timed_elsewhere()))
    assert "reach at bf16 90 % (Bead 2) and 50 % (Cog 3)." in plain(elsewhere_roofs.products(timed_elsewhere()))
