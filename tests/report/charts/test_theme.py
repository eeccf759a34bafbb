import re

import altair as alt
import pandas as pd
import pytest
from altair.utils import schemapi
from helpers.places import ROOT

from measure.domain.words import LAYER_KINDS
from report.charts import theme
from report.paper.chips import KINDS


def test_colours_do_not_depend_on_what_is_present():
    few, all_of_them = theme.families(["audio", "plain"])[0], theme.families(theme.FAMILY_STYLES)[0]
    assert few.domain == ["plain", "audio"]
    assert (
        dict(zip(few.domain, few.range, strict=True)).items()
        <= dict(zip(all_of_them.domain, all_of_them.range, strict=True)).items()
    )


def test_no_two_share_a_colour_or_a_shape():
    for styles in (theme.KIND_STYLES, theme.FAMILY_STYLES):
        for part in (0, 1):
            assert len({style[part] for style in styles.values()}) == len(styles)
    for colors in (theme.LAYER_COLORS, theme.MEMORY_COLORS):
        assert len(set(colors.values())) == len(colors)


def test_the_written_palette_is_that_of_the_figures():
    written = (ROOT / "docs" / "palette.md").read_text("utf-8")
    kinds = {KINDS[kind]: style for kind, style in theme.KIND_STYLES.items()}
    named = {**kinds, **theme.FAMILY_STYLES, **theme.STREAM_STYLES}
    colors = {**theme.PART_COLORS, **theme.MEMORY_COLORS, **{name: style[0] for name, style in named.items()}}
    colors |= {
        name: theme.TERM_COLORS[name] for name in ("model bound", "operator by operator", "framework", "residual")
    }
    assert [name for name, color in colors.items() if f"{name} {color}" not in written] == []
    for shade in (theme.BATCH_COLORS[0], theme.BATCH_COLORS[-1]):
        assert shade in written


def test_no_caption_names_light_or_dark():
    """They change places in the page's dark mode."""
    for chapter in (ROOT / "report" / "chapters").glob("*.qmd"):
        captions = re.findall(r"^#\| fig-cap: (.*)$", chapter.read_text("utf-8"), re.MULTILINE)
        assert not [caption for caption in captions if re.search(r"\b(dark|light)(er|est)?\b", caption)], chapter.name


def test_every_kind_of_layer_has_a_colour_in_the_order_of_the_table():
    assert tuple(theme.LAYER_COLORS) == LAYER_KINDS
    assert theme.colors_of(["pooling", "linear"], theme.LAYER_COLORS).domain == ["linear", "pooling"]


def test_what_is_outside_the_layers_comes_after_them():
    scale = theme.colors_of([theme.OUTSIDE, "other", "linear"], theme.PART_COLORS)
    assert scale.domain == ["linear", "other", theme.OUTSIDE]
    assert len(set(scale.range)) == 3


def test_every_shape_of_a_family_has_an_area_to_fill():
    shapes = {shape for _, shape in (*theme.FAMILY_STYLES.values(), theme.OTHER_STYLE)}
    assert "stroke" not in shapes
    assert len(shapes) == len(theme.FAMILY_STYLES) + 1


def test_models_of_ones_own_are_a_family_and_so_is_any_other():
    assert "own" in theme.FAMILY_STYLES
    scale = theme.families(["plain", "mine"])[1]
    assert scale.domain == ["plain", "mine"]
    assert scale.range[1] == theme.OTHER_STYLE[1]


def test_batch_colours_run_from_light_to_dark():
    assert theme.batch_colors([64, 1, 256, 1]).domain == [1, 64, 256]
    assert theme.batch_colors([1, 64, 256]).range == [color.lower() for color in theme.BATCH_COLORS]
    assert len(set(theme.batch_colors([1, 2, 4, 8, 16, 32]).range)) == 6
    assert theme.batch_colors([8]).range == [theme.BATCH_COLORS[0].lower()]


def test_batch_sizes_have_shapes():
    assert theme.batch_shapes([64, 1]).range == ["circle", "square"]


def test_finish():
    chart = theme.finish(alt.Chart({"values": []}).mark_point(), "a-name", "What is seen.").to_dict()
    assert (chart["name"], chart["description"]) == ("a-name", "What is seen.")
    assert chart["config"]["background"] == "#ffffff"


def test_a_note_stands_above_a_figure_and_in_its_description():
    dots = alt.Chart(pd.DataFrame({"x": [1]})).mark_point()
    assert "title" not in theme.finish(dots, "name", "A scatter plot.").to_dict()
    specification = theme.finish(dots, "name", "A scatter plot.", "Shown are 60 of 90 models.").to_dict()
    assert specification["title"]["text"] == ["Shown are 60 of 90 models."]
    assert specification["description"] == "A scatter plot. Shown are 60 of 90 models."


def test_data_of_any_length_are_no_error():
    long = pd.DataFrame({"x": range(5_001)})
    with theme.building():
        assert len(next(iter(alt.Chart(long).mark_point().to_dict()["datasets"].values()))) == 5_001


def altair_settings() -> tuple[bool, bool, object]:
    """Return whether Altair validates and copies what it builds, and how it treats data."""
    return schemapi.DEBUG_MODE, hasattr(alt.Axis, "__deepcopy__"), alt.data_transformers.options


def test_altair_is_as_its_users_know_it_outside_of_a_figure():
    before = altair_settings()
    assert before == (True, False, {})
    with theme.building():
        assert altair_settings() == (False, True, {"max_rows": None})
        with theme.building():
            pass
        assert altair_settings() == (False, True, {"max_rows": None})
    assert altair_settings() == before
    with pytest.raises(ZeroDivisionError), theme.building():
        1 / 0  # noqa: B018
    assert altair_settings() == before
