from helpers.places import ROOT

from measure.domain.words import LAYER_KINDS
from report.charts import theme


def test_the_written_palette_is_that_of_the_figures():
    assert tuple(theme.LAYER_COLORS)[: len(LAYER_KINDS)] == LAYER_KINDS
    written = (ROOT / "docs" / "palette.md").read_text("utf-8")
    colors = theme.CHIP_COLORS | theme.LAYER_COLORS | theme.MEMORY_COLORS | theme.STREAM_COLORS
    assert [name for name, color in colors.items() if f"{name} {color}" not in written] == []


def test_a_gpu_has_one_colour_and_shape_of_its_own():
    colors, shapes = theme.gpus([*theme.GPU_LOOKS, "H300"])
    written = (ROOT / "docs" / "palette.md").read_text("utf-8")
    assert [name for name in theme.GPU_LOOKS if f"{name} {colors[name]}" not in written] == []
    assert len(set(colors.values())) == len(colors)
    assert (colors["H300"], shapes["H300"]) == (theme.GREY, "circle")
    # What protanopia and deuteranopia confuse differs in shape: vermilion and olive, blue and wine, orange and olive
    confused = [("B200 SXM", "Intel Arc Pro B60"), ("H100 SXM", "L40S"), ("A100 SXM 80GB", "Intel Arc Pro B60")]
    assert [pair for pair in confused if shapes[pair[0]] == shapes[pair[1]]] == []


def test_plots_fill_the_page():
    assert theme.plot_width(left=90, right=10) == 700
    # Two plots, each with 90 and 10 pixels, and the gap: (800 - 200 - 22) / 2; with one axis for both 90 more
    assert theme.plot_width(2, 90) == 289
    assert theme.plot_width(2, 90, shared=True) == 334
    assert theme.plot_width(unit="FLOP/s") < theme.plot_width(unit="s")

    # Two plots with the longest names right of each: (800 - 2 * (90 + 320 + 20) - 22) / 2 is less than nothing
    assert theme.plot_width(2, 90, theme.LONGEST_NAME + 20) == theme.NARROWEST


def test_batches_run_from_light_to_dark():
    light, _, _, middle, _, _, dark = theme.BATCH_COLORS
    assert theme.batches([64, 1, 256, 1]) == {"1": light, "64": middle, "256": dark}
    assert len(set(theme.batches([1, 2, 4, 8, 16, 32]).values())) == 6
