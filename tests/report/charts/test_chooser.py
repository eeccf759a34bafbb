"""The chooser of chips: what it is given, and in a browser that it says what the predictor does."""

import base64
import gzip
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from helpers.pages import DESKTOP, PHONE, Visit
from helpers.papers import empty
from helpers.predicted_papers import predicted

from measure.domain.words import EAGER, INFERENCE, STEP
from report.charts import chooser
from report.load import paper

LIMIT = 100_000
"""Bytes of the page that the chooser's data may take."""


def markdown(data):
    return chooser.show(data)._repr_mimebundle_()["text/markdown"]


def test_without_fits_or_counts_a_sentence_stands_in_its_place():
    assert "`python -m measure fit`" in markdown(empty())
    assert "No model was counted" in markdown(predicted())


@pytest.mark.long
def test_it_is_given_the_choices_and_stays_small(project):
    text = markdown(project)
    (packed,) = re.findall(r'<div class="chooser".*<script type="application/gzip">([\w+/=]*)</script></div>', text)
    assert json.loads(gzip.decompress(base64.b64decode(packed))) == json.loads(
        json.dumps(project.predictions.choices.as_json())
    )
    assert len(text) < LIMIT


@pytest.fixture(scope="module")
def project():
    """The paper of the committed data."""
    return paper.load()


@pytest.fixture
def visit(browser, site):
    visit = Visit(browser, site / "index.html", DESKTOP)
    visit.page.wait_for_selector("[data-chooser=drawn]")
    yield visit
    assert visit.complaints == []
    visit.context.close()


def choose(visit, **values):
    for name, value in values.items():
        visit.page.locator(f".chooser select[name={name}]").select_option(value)


def column(visit, name):
    return visit.page.locator(".chooser").get_by_role("columnheader", name=name)


def shown(visit):
    """The least and the likely time (s) by chip, in the order of the rows."""
    rows = visit.page.evaluate(
        """() => [...document.querySelectorAll(".chooser tbody tr")].map(({ cells }) =>
          [cells[0].firstChild.textContent, ...[1, 2].map(at => Number(cells[at].querySelector("data").value))])"""
    )
    return {chip: (least, likely) for chip, least, likely in rows}


def predictions(project, model, batch, stored, precision, phase):
    """The same by the predictor itself."""
    found = project.predictions
    ((_, demand),) = (
        row
        for (name, _, size, kept, trains), row in found.counted.items()
        if (name, size, kept, trains) == (model, batch, stored, phase == STEP)
    )
    told = {device.name: found.predictor.predict(demand, device, precision, EAGER, phase) for device in found.devices}
    return {name: each for name, each in told.items() if each is not None}


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize(
    ("model", "batch", "stored", "precision", "phase"),
    [
        ("resnet50", 64, "bf16", "fp16", INFERENCE), ("vit_b_16", 1, "fp32", "tf32", INFERENCE),
        ("mobilenet_v2", 32, "fp32", "fp32", STEP), ("swin_t", 8, "bf16", "bf16", INFERENCE),
    ],
)  # fmt: skip
def test_it_says_what_the_predictor_does(visit, project, model, batch, stored, precision, phase):
    choose(visit, model=model, batch=str(batch), precision=precision, phase=phase)
    told = predictions(project, model, batch, stored, precision, phase)
    rows = shown(visit)
    assert len(rows) > 30
    assert rows.keys() == told.keys()
    # The page has four digits of each number
    for chip, times in rows.items():
        assert times == pytest.approx((told[chip].least_s, told[chip].likely_s), rel=2e-3), chip


@pytest.mark.long
@pytest.mark.browser
def test_rows_sort_by_their_heads_with_the_keyboard(visit):
    likely = [times[1] for times in shown(visit).values()]
    assert likely == sorted(likely)
    head = column(visit, "Least")
    head.get_by_role("button").focus()
    visit.page.keyboard.press("Enter")
    least = [times[0] for times in shown(visit).values()]
    assert least == sorted(least)
    assert head.get_attribute("aria-sort") == "ascending"
    visit.page.keyboard.press("Enter")
    assert [times[0] for times in shown(visit).values()] == sorted(least, reverse=True)
    # Of what more is better, the most first; what is not known stands last
    column(visit, "Inputs/s/W").get_by_role("button").click()
    cells = visit.page.locator(".chooser tbody td:nth-child(8)").all_text_contents()
    values = [float(text.replace(",", "")) for text in cells if text != "–"]
    assert values == sorted(values, reverse=True)
    assert set(cells[len(values) :]) <= {"–"}


@pytest.mark.long
@pytest.mark.browser
def test_the_address_keeps_the_choice(visit, browser, site):
    choose(visit, model="vgg16", batch="8", precision="fp32", kind="gpu")
    column(visit, "Least").get_by_role("button").click()
    asked = parse_qs(urlsplit(visit.page.url).query)
    assert (asked["model"], asked["batch"], asked["precision"], asked["sort"]) == (
        ["vgg16"],
        ["8"],
        ["fp32"],
        ["least"],
    )
    rows = shown(visit)
    visit.page.reload()
    visit.page.wait_for_selector("[data-chooser=drawn]")
    assert visit.page.locator(".chooser select[name=model]").input_value() == "vgg16"
    assert list(shown(visit).items()) == list(rows.items())


@pytest.mark.long
@pytest.mark.browser
def test_what_was_measured_stands_beside_and_the_status_says_the_fastest(visit):
    choose(visit, kind="gpu", precision="fp32", batch="64")
    chips = dict.fromkeys(shown(visit))
    status = visit.page.locator(".chooser [role=status]").text_content()
    assert f"{len(chips)} chips" in status
    assert f"shortest on the {next(iter(chips))}" in status
    measured = visit.page.locator(".chooser tbody tr:has(path.measured)")
    assert measured.count() > 1
    # With the copy of the input in it, as its source timed it
    assert "†" in measured.first.locator("td:nth-child(6)").text_content()


@pytest.mark.long
@pytest.mark.browser
def test_on_a_phone_and_in_print(browser, site):
    visit = Visit(browser, site / "index.html", PHONE, has_touch=True, is_mobile=True)
    visit.page.wait_for_selector("[data-chooser=drawn]")
    assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    picture = visit.page.locator(".chooser tbody svg").first
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box["x"] + box["width"] <= PHONE["width"]
    visit.page.emulate_media(media="print")
    assert not visit.page.locator(".chooser").is_visible()
    assert visit.complaints == []
    visit.context.close()
