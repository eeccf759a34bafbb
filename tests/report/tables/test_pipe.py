import pypandoc
from helpers.papers import empty, tiny

from report.analysis.available import Missing
from report.tables import benchmarks, machines, roofs


def test_pandoc_reads_each_table_as_one():
    paper = tiny()
    for table in (
        roofs.measured_roofs(paper), machines.machines(paper), benchmarks.latencies(paper),
    ):  # fmt: skip
        html = pypandoc.convert_text(table, "html", format="markdown")
        assert html.count("<table") == 1
        assert html.count("<tr") == len(table.splitlines()) - 1
        assert "|" not in html.replace("9 GB | 8 GB", "")


def test_an_empty_cache_gives_sentences():
    paper = empty()
    for table in (
        roofs.measured_roofs(paper), machines.machines(paper), benchmarks.latencies(paper),
    ):  # fmt: skip
        assert isinstance(table, Missing)
