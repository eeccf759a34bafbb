"""Which conclusions are chosen, in which order, and how they are told; their statistics by hand."""

import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers.papers import empty, many, tiny, wide
from helpers.places import ROOT
from helpers.profiled_papers import profiled
from helpers.published_papers import printed
from helpers.sentences import check_whole_sentences, plain
from helpers.training_papers import trained

from report.analysis.available import DataMissingError, Missing
from report.analysis.effect import Effect, median_of
from report.findings import conclusions
from report.findings.conclusions.conclusion import Conclusion, by_batch, largest, largest_median, of_batches, on
from report.findings.conclusions.spread import apart, closer, median_distances, weighted_medians
from report.text.frame_rows import at_ends
from report.text.prose import Prose

SIX = [f"model{k}" for k in range(6)]


@pytest.mark.parametrize("paper", [many, wide, profiled, trained, printed, tiny])
def test_every_conclusion_is_whole_sentences_with_figures_that_are_there(paper):
    chapters = "\n".join(chapter.read_text() for chapter in (ROOT / "report/chapters").glob("*.qmd"))
    labels = set(re.findall(r"(?:label: |#)((?:fig|tbl|sec)-[\w-]+)", chapters))
    for found in conclusions.considered(paper()).found:
        check_whole_sentences(Prose(found.sentences))
        check_whole_sentences(Prose(on(found.where, found.text)))
        assert found.figures
        assert set(found.figures) <= labels


def test_effects_by_batch():
    seven = [*SIX, "more"]
    rows = pd.DataFrame({"model": seven * 2 + SIX, "batch": [1] * 7 + [8] * 7 + [64] * 6, "factor": 3.0})
    rows.loc[rows.batch == 8, "factor"] = 0.1
    rows.loc[rows.batch == 64, "factor"] = 9.0
    rows.loc[rows.model == "more", "factor"] = 50.0  # of a model that was not measured at 64
    effects = by_batch(rows, "factor")
    assert largest(effects) == 8  # 0.1 is farther from 1 than 9
    assert list(at_ends(effects)) == [1, 64]
    assert plain(largest_median(effects)) == "0.100 (0.100 to 0.100) at batch size 8 in the median of 6 models"
    assert list(of_batches(effects)) == ["batch size 1", "batch size 8", "batch size 64"]
    assert list(of_batches(effects, "cold"))[-1] == "cold, batch size 64"


def test_weighted_medians():
    values = np.array([[1.0, 2.0, 3.0]] * 4)
    weights = np.array([[1.0, 1, 1], [0, 1, 1], [3, 1, 0], [0, 0, 0]])
    found = weighted_medians(values, weights)
    assert list(found[:3]) == [2, 2.5, 1]
    assert np.isnan(found[3])


def test_apart():
    three = apart(pd.Series([1.0, 2.0, 4.0]), pd.Series(["a", "b", "c"]))
    assert (three.factor, three.interval, three.count) == (pytest.approx(2), None, 3)  # of factors 2, 2 and 4
    # Of 15 pairs 9 have a factor of 4, 6 of 1
    six = apart(pd.Series([1.0, 1, 1, 4, 4, 4]), pd.Series(SIX))
    assert six.factor == pytest.approx(4)
    assert six.interval is not None
    assert 1 <= six.interval[0] <= six.interval[1] <= 4.001
    # All alike: no factor, and none by chance
    assert apart(pd.Series([3.0] * 6), pd.Series(SIX)).interval == (1, 1)


def test_median_distances_are_those_of_all_pairs():
    random = np.random.default_rng(3)
    points, weights = np.sort(random.normal(size=9)), random.integers(0, 3, (40, 9)).astype(float)
    points[4] = points[3]  # equal ones are a distance of 0
    one, other = np.triu_indices(9, 1)
    pairs = weights[:, one] * weights[:, other]
    each = weighted_medians(np.broadcast_to(points[other] - points[one], pairs.shape), pairs)
    assert median_distances(points, weights) == pytest.approx(each)
    # Of 0, 1 and 3 the pairs are 1, 2 and 3 apart; twice the first: 1, 1, 2, 3 and 3
    assert list(median_distances(np.array([0.0, 1, 3]), np.array([[1.0, 1, 1], [2, 1, 1], [1, 0, 0]])))[:2] == [2, 2]


def test_six_hundred_models_take_little_memory():
    random = np.random.default_rng(3)
    models = pd.Series(range(600))
    x, y, other = (pd.Series(values) for values in np.exp(random.normal(size=(3, 600))))
    tracemalloc.start()
    try:
        distances, nearer = apart(y, models), closer(x, other, x * y, models)
        _, most_byte = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Of two normal values of deviation 1 the median distance is 0.6745 times that of their difference, the root of 2
    assert distances.factor == pytest.approx(np.exp(0.6745 * 2**0.5), rel=0.1)
    assert nearer.factor > 1
    assert most_byte < 150e6  # the pairs of all resamples would take 8 * 1000 * 600 * 599 / 2 bytes, 1.4 GB


def test_closer():
    # y is a power of x. The other is not correlated with y, so that its line is level, and y's logarithms are 1 and 3
    # times log 2 off it: in the median 2 times.
    logs = np.array([-3.0, -1, 1, 3] * 6)
    y, x = pd.Series(2.0**logs), pd.Series(2.0 ** (logs / 2))
    other = pd.Series(2.0 ** np.array([1.0, -1, -1, 1] * 6))
    models = pd.Series(list("abcdefghijklmnopqrstuvwx"))
    assert closer(x, other, y, models).factor == pytest.approx(4)
    assert closer(other, x, y, models).factor == pytest.approx(1 / 4)
    assert closer(x, other, y, models).side == 1
    assert closer(other, x, y, models).side == -1
    assert closer(other, other, y, models).side == 0


def unescaped(markdown):
    return plain(markdown).replace("\\", "")


def conclusion(topic, factor, where="", low=None, is_margin=False):
    effect = Effect(factor, lambda confidence: (low or factor, factor), 6)
    figures = (f"fig-{topic}", "tbl-all")
    return Conclusion(topic, {"": effect}, is_margin, where, f"do {topic}: it is {effect}.", "It may be.", figures)


@pytest.fixture
def asked(monkeypatch):
    """Replaces what is asked for of the machines and of the paper."""

    def replaced(of_machines, of_paper):
        monkeypatch.setattr(conclusions, "OF_MACHINES", of_machines)
        monkeypatch.setattr(conclusions, "OF_PAPER", of_paper)
        return replace(tiny())  # another paper: answers are kept

    return replaced


def test_the_largest_on_either_side_of_one_come_first(asked):
    paper = asked(
        (lambda paper, of, **_: conclusion("speed", 3.0 if of.chip_kind == "cpu" else 0.1, of.chip_kind),),
        (lambda paper, **_: conclusion("cost", 0.2), lambda paper, **_: conclusion("chance", 9.0, low=0.5),
         lambda paper, **_: conclusion("trifle", 1.05), lambda paper, **_: conclusion("room", 4.0, is_margin=True),
         lambda paper, **_: conclusion("little", 1.01, is_margin=True)),
    )  # fmt: skip
    # By size 10, 5 and 3; what may be chance and what is little are left out; a subject stands once
    clear = conclusions.chosen(conclusions.considered(paper).clear)
    assert [[found.effect.factor for found in own] for own in clear] == [[0.1, 3.0], [0.2]]
    assert unescaped(conclusions.effects(paper)) == (
        "1. **speed.** On the gpu, do speed: it is 0.100 (0.100 to 0.100). It may be. On the cpu, do speed: it is 3.00 "
        "(3.00 to 3.00). It may be. See @fig-speed and @tbl-all.\n\n"
        "2. **cost.** Do cost: it is 0.200 (0.200 to 0.200). It may be. See @fig-cost and @tbl-all.\n"
    )
    assert unescaped(conclusions.margins(paper)) == (
        "1. **room.** Do room: it is 4.00 (4.00 to 4.00). It may be. See @fig-room and @tbl-all.\n"
    )
    # The figure has all of them, effects first, of both those first that are listed
    assert [found.topic for found in conclusions.ordered(paper)] == (
        ["speed", "cost", "speed", "chance", "trifle", "room", "little"]
    )
    # Of five four are clear of 1: intervals of 1 - 4 · 5 % / 5
    assert plain(conclusions.summary(paper)) == (
        "On 5 subjects the cache lets us test 5 effects, one at each batch size and variant that was tried. Of these 4 "
        "are more than chance. Of as many tests some succeed by chance, so each interval is of 96.0 %: then no more "
        "than 5.0 % of those told are expected to miss. 3 subjects have an effect of a factor of 1.10 or more."
    )
    assert plain(conclusions.others(paper)) == (
        "Looked for but not listed, since they may be none or are smaller than those above: chance, trifle and little."
    )
    assert unescaped(conclusions.foremost(paper)) == (
        "1. **speed.** On the gpu, do speed: it is 0.100 (0.100 to 0.100). On the cpu, do speed: it is 3.00 (3.00 to "
        "3.00). See @fig-speed.\n\n"
        "2. **cost.** Do cost: it is 0.200 (0.200 to 0.200). See @fig-cost.\n\n"
        "3. **room.** Do room: it is 4.00 (4.00 to 4.00). See @fig-room.\n\n"
        "First stand the largest of 5 effects tested, with intervals of 96.0 % that allow for their number; then "
        "margins, which cannot be below one, with intervals of 95 %.\n"
    )


def test_intervals_allow_for_the_number_of_effects_tested(asked):
    # Six models are clear of 1 at 96.9 % (1 - 2 / 64) and have no interval above; two such effects of four make it
    # 97.5 %, three 96.25 %
    def of_six(count):
        median = median_of([2.0] * 6)
        return lambda paper, *, confidence: replace(
            conclusion("six", 2.0), effects=dict.fromkeys(range(count), median.at(confidence))
        )

    def chance(count):
        return lambda paper, **_: replace(
            conclusion("chance", 2.0), effects=dict.fromkeys(range(count), median_of([0.5, 2] * 5))
        )

    told = asked((), (of_six(3), chance(1)))
    assert conclusions.confidence(told) == pytest.approx(0.9625)
    assert "six" in conclusions.effects(told)
    silent = asked((), (of_six(2), chance(2)))
    assert conclusions.confidence(silent) == pytest.approx(0.9875)
    assert "six" not in conclusions.effects(silent)


def test_advice_of_a_chapter_is_that_of_the_conclusions_on_its_topics(asked):
    paper = asked(
        (lambda paper, of, **_: conclusion("speed", 3.0 if of.chip_kind == "cpu" else 0.1, of.chip_kind),),
        (lambda paper, **_: conclusion("cost", 0.2), lambda paper, **_: conclusion("trifle", 1.05)),
    )
    assert plain(conclusions.advice(paper, "speed", "cost")) == "On the gpu, do speed. Do cost. On the cpu, do speed."
    assert plain(conclusions.advice(paper, "cost")) == "Do cost."
    assert plain(conclusions.advice(paper, "trifle")) == (
        "No advice: nothing tested here is both clear of chance and as large as a factor of 1.10."
    )


def test_no_more_subjects_than_a_reader_takes_in(asked):
    paper = asked((), tuple(lambda paper, k=k, **_: conclusion(f"topic{k}", 2.0 + k) for k in range(12)))
    listed = conclusions.chosen(conclusions.considered(paper).clear)
    assert [own[0].topic for own in listed] == [f"topic{k}" for k in range(11, 3, -1)]
    assert conclusions.others(paper).endswith("topic2 and topic3.")
    assert conclusions.foremost(paper).count("**topic") == 3


def test_what_is_missing_is_told_once_with_what_fills_it(asked):
    def lacking(*_, **__):
        raise DataMissingError("No_thing was measured; `python -m measure` does.")

    paper = asked((lacking,), (lacking, lambda paper, **_: conclusion("cost", 2.0)))
    assert conclusions.gaps(paper) == "::: {.gap}\nNo\\_thing was measured; `python -m measure` does\\.\n:::\n"
    assert conclusions.gaps(asked((), (lambda paper, **_: conclusion("cost", 2.0),))) == ""
    nothing = asked((lacking,), (lacking,))
    assert isinstance(conclusions.effects(nothing), Missing)


def test_without_an_effect_the_paper_says_so(asked):
    paper = asked((), (lambda paper, **_: conclusion("chance", 2.0, low=0.5),))
    none = (
        "Of 1 effect that the cache lets us test none is clear of one and as large as a factor of 1.10; `python -m "
        "measure` measures more."
    )
    assert plain(conclusions.summary(paper)) == unescaped(conclusions.foremost(paper)).strip() == none
    assert conclusions.effects(paper) == "- Of 1 looked for none is clear of one and as large as a factor of 1.10.\n"
    # The first page tells margins all the same
    both = asked((), (lambda paper, **_: conclusion("room", 2.0, is_margin=True),))
    told = unescaped(conclusions.foremost(both))
    assert told.startswith("1. **room.** Do room: it is 2.00 (2.00 to 2.00). See @fig-room.\n\nOf no effect that")
    assert conclusions.margins(paper) == "- Of 0 looked for none is clear of one and as large as a factor of 1.10.\n"
    assert conclusions.others(paper).endswith(": chance.")


@pytest.mark.parametrize(
    "part",
    [
        conclusions.effects,
        conclusions.margins,
        conclusions.gaps,
        conclusions.summary,
        conclusions.others,
        conclusions.foremost,
    ],
)
def test_without_data_every_part_says_what_is_missing(part):
    text = part(empty())
    assert isinstance(text, Missing)
    assert "No CPU has been measured yet; to add one, run `python -m measure --device cpu" in plain(text)


def test_a_machine_that_is_lacking_is_a_gap():
    cpu_only = replace(many(), machines=(many().machine("cpu"),))
    assert "No GPU has been measured yet" in conclusions.gaps(cpu_only)
    assert "No GPU" not in conclusions.gaps(many())


def test_every_part_of_a_paper_with_effects_is_whole_sentences():
    check_whole_sentences(conclusions.summary(many()))
    check_whole_sentences(conclusions.others(many()))
    *items, lead = unescaped(conclusions.foremost(many())).split("\n\n")
    check_whole_sentences(Prose(lead.strip()))
    for item in items:
        check_whole_sentences(Prose(re.sub(r"^\d\. \*\*.*?\*\* ", "", item).strip()))
    assert conclusions.effects(many()).startswith("1. **")
    assert conclusions.margins(many()).startswith("1. **")
