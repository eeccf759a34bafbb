from report import __main__ as closing


def test_a_render_ends_with_the_address_that_a_browser_opens(tmp_path):
    page, paper = tmp_path / "my paper" / "index.html", tmp_path / "my paper" / "paper.pdf"
    page.parent.mkdir()
    page.write_bytes(b"x" * 1_500_000)
    paper.write_bytes(b"x" * 200_000)
    opened = f"Open file://{tmp_path}/my%20paper/index.html"
    assert closing.closing_lines([page, paper], tmp_path) == [f"{page}  1.5 MB", f"{paper}  0.2 MB", opened]


FACTS = {
    "machine.at_hand.name": "a chip", "utilisation.roofs.peak": 225.4e9, "utilisation.roofs.bandwidth": 46.5e9,
    "utilisation.gap.layers": 0.361, "puzzle.here.ratio": 1.234, "puzzle.here.batch": 64, "puzzle.needs.fewer": 5.978,
}  # fmt: skip


def facts(*unknown):
    """Facts as the file has them; those named are unknown."""
    return {key: {"value": None if key.split(".")[-1] in unknown else value} for key, value in FACTS.items()}


def test_the_headline_has_the_numbers_of_the_paper():
    assert closing.headline(facts()) == [
        "a chip: 225 GFLOP/s at fp32 and 46.5 GB/s from memory; networks typically reach 36 % of the roofline layer by "
        "layer",
        "At batch 64, MobileNet-v2 needs 5.98 times fewer FLOP than ResNet-18 and takes 1.23 times as long",
    ]
    assert closing.headline(facts("peak", "layers", "ratio")) == ["a chip: its roof was not measured"]
    assert closing.headline(facts("name")) == closing.headline({}) == []
