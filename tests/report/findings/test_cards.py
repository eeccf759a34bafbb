from dataclasses import replace

from helpers.papers import empty, many, tiny
from helpers.profiled_papers import profiled
from helpers.sentences import check_no_gap, plain

from report.analysis.available import Missing
from report.findings import cards


def told(paper, model):
    """The card of a model, as plain text."""
    text = plain(cards.models(paper)).replace("\\", "")
    check_no_gap(text)
    (card,) = [each for each in text.split("\n\n") if each.startswith(f"**{model}**")]
    return card.strip()


def test_a_card_says_what_a_model_asks_for_and_how_long_it_takes():
    alone = replace(many(), machines=(many().machine("cpu"),))
    card = told(alone, "b")
    # 2 GFLOP, 1 M parameters of 4 MB, 1 MB of input and 2 MB of outputs; 20 ms, at 16 2.04 times 50 inputs/s
    assert "1.00 M parameters, 2.00 GFLOP and a footprint of 7.00 MB for one input: 286 FLOP/B." in card
    assert "On the Example CPU (4 cores) arithmetic bounds it at batch size 1; a batch of 1 takes 20.0 ms" in card
    assert card.endswith("and 102 inputs/s at batch size 16 are most.")


def test_a_card_says_what_helps_or_what_is_to_be_tried():
    card = told(profiled(gpu=False), "lean")
    assert "At batch size 1" in card
    assert "is the largest part" in card
    assert "is to be tried." in card or "helps most" in card or "nothing that was tried helps" in card


def test_a_machine_without_a_roof_leaves_the_place_open():
    bare = replace(tiny().machine("cpu"), cells=tiny().machine("cpu").cells.assign(attained=float("nan")))
    assert "its place under the roof is not known" in told(replace(tiny(), machines=(bare,)), "lean")


def test_without_machines_counts_stay_and_without_counts_a_command_is_named():
    assert told(replace(tiny(), machines=()), "lean").endswith("FLOP/B.")
    assert isinstance(cards.models(empty()), Missing)
    assert "`python -m measure" in cards.models(empty())
