import pytest
from helpers.small_network import network as small
from IPython.core.interactiveshell import InteractiveShell

import measure
from measure.domain.roofs import Roof
from measure.verbs import model
from report import notebook
from report.charts.panels import specified


def test_a_notebook_with_the_extension_shows_text_and_roofline(roof, monkeypatch):
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "report.notebook")
    formats, _ = shell.display_formatter.format(measure.model(*small(1), name="my <net>"))
    assert "my &lt;net&gt; on " in formats["text/html"]
    assert "operational intensity" in formats["text/html"]
    assert formats["text/plain"].startswith("my <net> on ")
    monkeypatch.setattr(model, "_roof", lambda *_: Roof({}, None))
    without_roof = measure.model(*small(1))
    assert notebook.draw(without_roof) is None
    assert notebook.as_html(without_roof).endswith("</pre>")


def test_the_roofline_has_its_ridge_point_and_the_cell(roof):
    found = measure.model(*small(2))
    rows = [row for values in specified(notebook.draw(found))["datasets"].values() for row in values]
    corners = {row["intensity"]: row["rate"] for row in rows if "roof" in row}
    assert corners[10] == 1e12  # 1e12 FLOP/s over 1e11 B/s
    (cell,) = (row for row in rows if row.get("name") == "batch 2, fp32")
    assert cell["intensity"] == pytest.approx(found.demands[0].intensity_flop_per_byte, rel=1e-5)
    assert cell["rate"] == pytest.approx(found.cells[0].flop_per_s, rel=1e-5)
