import pytest
from decoder import Sizes, count, decoder

torch = pytest.importorskip("torch", reason="counting needs torch")

TINY = Sizes(vocabulary=11, width=8, hidden=12, heads=2, layers=3, sequence=5)


def test_the_decoder_by_hand():
    with torch.device("meta"):
        small, large = (sum(p.numel() for p in decoder(sizes).parameters()) for sizes in (TINY, Sizes()))
    # two tables of 11 words; a block: 4 * 8 * 8 of attention, 3 * 8 * 12 of the feed-forward, two normalisations
    assert small == 2 * 11 * 8 + 3 * (4 * 64 + 3 * 96 + 2 * 8) + 8
    assert large == 6_738_415_616  # as LLaMA 7B is published
    counted = count(TINY)
    # A token takes part in each weight but the first table's; in each block two products of 5 * 5 * 8.
    mac = 5 * (3 * (4 * 64 + 3 * 96) + 11 * 8) + 3 * 2 * 5 * 5 * 8
    # Each product has two gradients, of both its factors.
    assert (counted.forward_flop, counted.backward_flop) == (2 * mac, 2 * 2 * mac)
