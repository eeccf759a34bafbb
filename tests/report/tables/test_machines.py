import pypandoc
from helpers.papers import empty, tiny
from helpers.sentences import cells

from report.analysis.available import Missing
from report.tables import benchmarks, machines


def test_machines():
    rows = {row[0]: row[1:] for row in cells(machines.machines(tiny()))}
    assert rows["folder"] == ["example\\-cpu", "example\\-gpu"]
    assert rows["driver"] == ["–", "550\\.54"]
    assert rows["processor"] == ["ExampleVendor family 1 model 5", "–"]
    assert rows["torch"] == ["2\\.14\\.1", "2\\.14\\.1"]  # the newest environment, not 2.13
    assert rows["memory"] == ["8\\.00 GB", "8\\.00 GB"]
    assert rows["tuned by"] == ["–", "–"]


def test_pandoc_reads_each_table_as_one():
    for table in (machines.machines, benchmarks.latencies):
        text = table(tiny())
        html = pypandoc.convert_text(text, "html", format="markdown")
        assert html.count("<table") == 1
        assert html.count("<tr") == len(text.splitlines()) - 1
        assert "|" not in html.replace("9 GB | 8 GB", "")


def test_an_empty_cache_gives_sentences():
    for table in (machines.machines, benchmarks.latencies):
        assert isinstance(table(empty()), Missing)
