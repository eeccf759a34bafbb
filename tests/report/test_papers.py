"""The papers that readers get, from nothing measured to three machines: the shape of their text, and their facts."""

import gzip
import json
import re
import shlex
import shutil
from base64 import b64decode
from collections import Counter

import pypdfium2
import pypdfium2.raw
import pytest
from helpers.pages import Page, complaints, render
from helpers.places import ROOT
from helpers.world import change_rows

from measure.domain.models import QUICK, STORY
from measure.verbs.flags import VERBS, parser_of
from measure.verbs.run_flags import parser
from report import facts
from report.engine.project import KNOWN, OWN
from report.paper import REFERENCE, load

pytestmark = pytest.mark.slow

CHAPTERS = {path.stem: path for path in (ROOT / "report" / "chapters").glob("*/*.qmd")}


ONE = ("resnet18", "1", "inference", "eager", "fp32")
CELL = ("model", "batch", "phase", "variant", "precision")


def nothing_measured(data):
    """Write the data of every clone, without the machines."""
    shutil.copytree(ROOT / "data", data, ignore=shutil.ignore_patterns("machines"))


def one_cell(data):
    """Write one network, measured and counted at one batch size."""
    nothing_measured(data)
    for table in ("models", "layers", "operators"):
        change_rows(
            data / "workload" / f"{table}.csv", lambda row: row if (row["model"], row["batch"]) == ONE[:2] else None
        )
    put_machine(data, "student", lambda row: row if tuple(row[name] for name in CELL) == ONE else None)


def three_machines(data):
    """Write the reference machine, one that is three times as slow, and a GPU that is twenty times as fast."""
    nothing_measured(data)
    put_machine(data, REFERENCE, lambda row: row)
    put_machine(data, "slower", quick, 3.0, name="Intel Xeon", recorded_at="2027-01-01T00:00:00+00:00")
    put_machine(data, "gpu", quick, 0.05, name="Tesla T4", device="cuda", capability="7.5", vector_extension="")


def quick(row):
    sizes = ("1", "64") if row["phase"] == "inference" else ("32",)
    models = QUICK if row["phase"] == "inference" and "stage" not in row and "steps" not in row else STORY
    is_kept = row["model"] in models and row["batch"] in sizes and row["variant"] == "eager"
    return row if is_kept and row["precision"] == "fp32" and int(row.get("round", 0)) < 3 else None


def put_machine(data, folder_name, wanted, factor=1.0, **environment):
    """Copy the reference machine with some of its cells, each time multiplied by a factor."""
    folder = data / "machines" / folder_name
    shutil.copytree(ROOT / "data" / "machines" / REFERENCE, folder)
    times = {"latency_s", "latency_low_s", "latency_high_s", "plain_s", "profiled_s", "busy_s", "time_s"}

    def slower(row):
        return row | {each: repr(factor * float(row[each])) for each in times & row.keys() if row[each]}

    change_rows(folder / "machine.csv", lambda row: row | environment)
    change_rows(folder / "roofs.csv", slower)
    for table in ("runs", "samples", "profiles", "operators"):
        change_rows(folder / f"{table}.csv", lambda row: None if wanted(row) is None else slower(row))


MADE = (nothing_measured, one_cell, three_machines)
NO_TABLE = "method.protocol."
"""Settings of the program, which no table holds."""


@pytest.fixture(scope="module", params=[None, *MADE], ids=lambda make: make.__name__ if make else "reference")
def project(request, shared):
    """The folder of a paper's data and files; None for the project's own."""

    def make(folder):
        request.param(folder / "data")
        render(folder / "data", folder / "project")

    return request.param and shared(request.param.__name__, make)


@pytest.fixture(scope="module")
def data(project):
    return (project or ROOT) / "data"


@pytest.fixture(scope="module")
def rendered(project, request):
    """The folder of a paper's page and PDF."""
    return project / "project" / "site" if project else request.getfixturevalue("site")


@pytest.fixture(scope="module")
def html(rendered):
    return (rendered / "index.html").read_text("utf-8")


def test_the_page_has_the_shape_of_a_paper(html):
    assert complaints(html) == []


FOOT = 18 / 25.4 * 72
"""The lower margin of a page in points (_quarto.yml)."""
PICTURES = (pypdfium2.raw.FPDF_PAGEOBJ_IMAGE, pypdfium2.raw.FPDF_PAGEOBJ_FORM)


def pdf_complaints(document):
    """Return the faults in the pages of a PDF."""
    found = []
    for bookmark in document.get_toc():
        destination = bookmark.get_dest()
        page = document[destination.get_index()]
        _, (_, top, *_) = destination.get_view()
        # Two lines of the heading at most are left out.
        if not page.get_textpage().get_text_bounded(bottom=FOOT, top=top - 34).strip():
            found.append(f"a heading at the foot of page {destination.get_index() + 1}: {bookmark.get_title()}")
    first = document[0]
    text = first.get_textpage()
    title = max(text.get_rect(at)[3] for at in range(text.count_rects()))
    highest = max((each.get_bounds()[3] for each in first.get_objects() if each.type in PICTURES), default=0)
    return [*found, *(["a figure above the title"] if highest > title else [])]


def test_the_pdf_has_the_shape_of_a_paper(rendered):
    assert pdf_complaints(pypdfium2.PdfDocument(rendered / "paper.pdf")) == []


CAPTION = re.compile(r"(?m)^\s*((?:Figure|Table)\s(S?)\d+):")


def test_both_formats_have_one_numbering(html, rendered):
    """Of figures, tables and sections. What the page shows alone is counted apart, and the PDF says where it is."""
    page, document = Page(html).root, pypdfium2.PdfDocument(rendered / "paper.pdf")
    texts = [sheet.get_textpage().get_text_bounded() for sheet in document]
    captions = [CAPTION.match(caption.text()) for caption in page.all("figcaption")]
    shown = sorted(" ".join(each[1].split()) for each in captions if each and not each[2])
    assert sorted(" ".join(each[1].split()) for text in texts for each in CAPTION.finditer(text)) == shown
    headings = {" ".join(each.text().split()) for level in "123" for each in page.all(f"h{level}")}
    assert {" ".join(each.get_title().split()) for each in document.get_toc()} - headings == set()
    apart = re.findall(r"(?:Figure|Table) S\d+(?!\d)(?! in the HTML)", " ".join(" ".join(texts).split()))
    assert apart == []


def test_every_number_of_the_page_is_a_fact_that_occurs_once(html):
    def once(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    (packed,) = Page(html).root.all("#facts")
    defined = json.loads(gzip.decompress(b64decode("".join(packed.content))), object_pairs_hook=once)
    shown = {node.attributes["data-key"] for node in Page(html).root.all("span.value")}
    assert len(shown) > 100
    assert [key for key in shown if defined.get(key, {"value": None})["value"] is None] == []


def test_every_command_that_fills_a_gap_is_one_that_can_be_typed(html, data):
    codes = [code for gaps in Page(html).root.all("#gaps") for code in gaps.all("code")]
    assert len(codes) > 3 or (data / "machines").exists()
    for code in codes:
        program, flag, package, *words = shlex.split(code.text())
        assert (program, flag, package) == ("python", "-m", "measure")
        is_verb = words[:1] and words[0] in VERBS
        (parser_of(words.pop(0)) if is_verb else parser()).parse_args(words)


@pytest.fixture(scope="module")
def reference():
    """The facts of the project's own data by chapter."""
    paper = load(ROOT / "data", ROOT / "bib" / "references.bib")
    return {name: facts.of_chapter(name, paper) for name in facts.CHAPTERS}


def test_every_fact_has_one_name_a_meaning_and_a_source(reference):
    found = [entry for name, chapter in reference.items() for entry in facts.entries(name, chapter)]
    assert [key for key, count in Counter(key for key, _, _ in found).items() if count > 1] == []
    assert [key for key, _, meaning in found if not meaning] == []
    assert [
        key for key, value, _ in found if not ((value.source and value.source.table) or key.startswith(NO_TABLE))
    ] == []


def test_every_claim_is_true_and_every_condition_exists(reference):
    defined = {
        name: json.loads(facts.conditions(name, chapter).split("---\n")[1])[name] for name, chapter in reference.items()
    }
    defined["roofwright"] = {name.removeprefix(OWN): True for name in KNOWN if name.startswith(OWN)}
    false, unknown = [], []
    for chapter, file in CHAPTERS.items():
        text = file.read_text("utf-8")
        assert not re.search(r"\{\.reference\s*\}", text), file.name  # a block without claims
        for claim in " ".join(re.findall(r'\.reference[^}]*claims="([^"]*)"', text)).split():
            owner, _, name = claim.rpartition(".")
            if defined[owner or chapter].get("claims", {}).get(name) is not True:
                false.append((chapter, claim))
        for path in re.findall(r'(?:when|unless)-meta="([^"]*)"', text):
            owner, *names = path.split(".")
            if len(names) != 1 or names[0] not in defined.get(owner, {}):
                unknown.append((chapter, path))
    assert (false, unknown) == ([], [])


STATED = """\
puzzle.elsewhere.slower.number == puzzle.elsewhere.devices.number
puzzle.elsewhere.by_bytes.number < puzzle.elsewhere.devices.number and puzzle.elsewhere.batch.number >= 1000
puzzle.problems.measured.number > 1
training.gpus.fp32.above(3) and training.gpus.fp16.above(3)
training.own.most.number < 3 and training.step.flop_over_forward.below(3)
training.host_bound and training.idle.ratio.below(training.idle.base_ratio.low)
training.state.adam.number > training.state.momentum.number > 0.5 > training.state.adam_large.number
round(training.counters.read.number, 3) == 0.998 and training.counters.written.number < 0.1
bound.shares.layers.above(bound.shares.whole.high)
bound.shares.compiled.above(1)
bound.first.bandwidth.number < 1.1 < bound.first.peak.number
bound.first.speed.below(bound.first.peak.number)
bound.second.bandwidth.number > bound.second.peak.number
bound.second.layers.above(bound.second.speed.high)
bound.second.newer_share.below(bound.second.older_share.low)
bound.own_first.lower.below(bound.own_first.base.low)
bound.own_step.base.below(1) and bound.own_step.lower.below(1)
bound.everywhere.channels_last.above(bound.everywhere.most.high)
cause.compiled.speed.above(bound.second.speed.high)
cause.together.over_next.above(1)
cause.fused.rest.above(cause.fused.least.high)
cause.traces.video.kernels.number < 1 < cause.traces.video.linear.number
cause.traces.video.softmax_roof.number < 0.5
cause.traces.images.step.number < 1 < cause.traces.images.kernels.number
cause.memory.fits.memory.number > 1 > cause.memory.larger.memory.number > 0.8 > cause.memory.depthwise.memory.number
cause.memory.larger.gain.number > 1.35 > 1.2 > cause.memory.fits.gain.number > 1.05 > cause.memory.depthwise.gain.number
cause.interventions.linear_most.number > cause.interventions.convolution_most.number
min(cause.interventions.linear_least.number, cause.interventions.convolution_least.number) > 2.5
cause.interventions.depthwise.number < 1.1 and cause.interventions.normalisation.number < 1.1
cause.interventions.normalisation_most.number < cause.interventions.activation.number < 2.5
cause.memory.depthwise_most.number < 0.5 + 0.5 * cause.memory.bandwidth.number
cause.together.compiled_next.above(cause.compiled.speed.high)
cause.host.base.slower.number > 0.5 * cause.host.base.networks.number
cause.host.other.slowed.side("faster", "either", "slower") == "either"
cause.host.single.per_call.low < cause.host.base.per_call.high
remedies.layout.above(1) and remedies.layout_other.above(1)
utilisation.gains.kept_high.number > utilisation.gains.kept.number
bound.shares.fastest.number < 1.5
latency.advice.family_bytes.above(latency.advice.family_flop.high)
latency.advice.bound.above(latency.advice.flop.high)
latency.equal.traffic.above(0.5) and latency.equal.flop.low <= 0
latency.exception.text is None and latency.single_apart
remedies.decode_small.number < remedies.decode_batched.number
tokens.puzzle.sparse_active.number < tokens.puzzle.dense_active.number
tokens.puzzle.slower.number == tokens.puzzle.settings.number
tokens.experts.many.number > 0.9 * tokens.experts.count.number and tokens.experts.second.number < 1.5
tokens.puzzle.byte_ratio.number > tokens.puzzle.bound_ratio.number > tokens.puzzle.time_ratio.number
tokens.puzzle.byte_ratio.number > 2 * tokens.puzzle.few_byte_ratio.number
tokens.puzzle.few_time_ratio.number > 0.9 * tokens.puzzle.time_ratio.number
tokens.puzzle.first.above(0.55) and tokens.puzzle.last.side("less", "half", "more", of=0.5) == "half"
tokens.parts.divided.explained.number < 0.55 * tokens.parts.divided.measured.number
tokens.experts.promised.number > tokens.experts.first.number
tokens.bits.bound.number < tokens.bits.promised.number and tokens.bits.bound.above(tokens.bits.first.high)
tokens.kernels.half_least.number > tokens.kernels.roof_least.number
tokens.kernels.half_most.number > tokens.kernels.roof_most.number
tokens.decode.ridge.number > tokens.decode.fit.number
tokens.bits.four_most.number < tokens.bits.four_promised.number and tokens.bits.eight_most.number < 2
tokens.parts.divided.last.below(tokens.parts.divided.first.low)
tokens.parts.divided.left.above(0.5) and tokens.parts.divided.left_alone.below(tokens.parts.divided.left.low)
tokens.parts.divided.floor.number > tokens.parts.divided.bound.number
tokens.parts.prompts.alone.number > tokens.parts.prompts.added.number > 0.8 * tokens.parts.prompts.alone.number
tokens.parts.prompts.share.below(1) and tokens.parts.faster.number == 1
energy.images.constant_single.above(0.5) and energy.images.constant_base.number > 0.5 > energy.images.constant.number
energy.busy_draws_more and energy.fit_base.busy.above(energy.fit_base.constant.high)
energy.is_short and energy.draws_too_much and energy.unread_is_least
latency.advice.timings.number > latency.advice.networks.number and latency.flop_enough
training.reference.forward_rate.below(training.reference.backward_rate.low)
several.served.many.above(several.served.few.high) and several.served.prompts.above(several.served.answers.high)
several.here.sent.number < 0.05 * several.here.step.number
tokens.curve.throughput.number > tokens.curve.slower.number
""".splitlines()
"""Words of the text without a number about published data, traces and the project's GPUs."""


def test_what_the_text_says_of_the_projects_data_is_true(reference):
    assert [each for each in STATED if not eval(each, dict(reference))] == []
