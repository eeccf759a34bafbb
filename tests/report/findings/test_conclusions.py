"""Which conclusions are chosen, in which order, and how they are told; their statistics by hand."""

import re
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

from report.analysis.available import DataMissingError, Missing, or_missing
from report.analysis.effect import Effect
from report.findings import conclusions
from report.findings.conclusions.conclusion import Conclusion, by_batch, largest, medians, on
from report.findings.conclusions.spread import apart, closer, weighted_medians
from report.text.prose import Prose

SIX = [f"model{k}" for k in range(6)]


@pytest.mark.parametrize("paper", [many, wide, profiled, trained, printed, tiny])
def test_every_conclusion_is_whole_sentences_with_figures_that_are_there(paper):
    chapters = "\n".join(chapter.read_text() for chapter in (ROOT / "report/chapters").glob("*.qmd"))
    labels = set(re.findall(r"(?:label: |#)((?:fig|tbl|sec)-[\w-]+)", chapters))
    for found in conclusions.considered(paper()).found:
        check_whole_sentences(Prose(found.sentences))
        check_whole_sentences(Prose(f"{on(found.where, found.brief)}."))
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
    assert plain(medians(effects)) == (
        "3.00 (3.00 to 3.00) at batch size 1, 0.100 (0.100 to 0.100) at 8 and 9.00 (9.00 to 9.00) at 64 in the median "
        "of the same 6 models"
    )


def test_weighted_medians():
    values = np.array([[1.0, 2.0, 3.0]] * 4)
    weights = np.array([[1.0, 1, 1], [0, 1, 1], [3, 1, 0], [0, 0, 0]])
    found = weighted_medians(values, weights)
    assert list(found[:3]) == [2, 2.5, 1]
    assert np.isnan(found[3])


def test_apart():
    three = apart(pd.Series([1.0, 2.0, 4.0]), pd.Series(["a", "b", "c"]))
    assert three == Effect(pytest.approx(2), None, 3)  # of factors 2, 2 and 4
    # Of 15 pairs 9 have a factor of 4, 6 of 1
    six = apart(pd.Series([1.0, 1, 1, 4, 4, 4]), pd.Series(SIX))
    assert six.factor == pytest.approx(4)
    assert six.interval is not None
    assert 1 <= six.interval[0] <= six.interval[1] <= 4.001
    # All alike: no factor, and none by chance
    assert apart(pd.Series([3.0] * 6), pd.Series(SIX)) == Effect(1, (1, 1), 6)


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


def conclusion(topic, factor, where="", low=None):
    effect = Effect(factor, (low or factor, factor), 6)
    return Conclusion(topic, effect, where, f"do {topic}.", f"{topic} is {effect}", (f"fig-{topic}", "tbl-all"))


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
        (lambda paper, of: conclusion("speed", 3.0 if of.chip_kind == "cpu" else 0.1, of.chip_kind),),
        (lambda paper: conclusion("cost", 0.2), lambda paper: conclusion("chance", 9.0, low=0.5),
         lambda paper: conclusion("trifle", 1.05)),
    )  # fmt: skip
    # By size 10, 5 and 3; what may be chance and what is little are left out; a subject stands once
    assert [[found.effect.factor for found in own] for own in conclusions.chosen(paper)] == [[0.1, 3.0], [0.2]]
    assert conclusions.listed(paper) == (
        "1. **speed.** On the gpu, do speed\\. On the cpu, do speed\\. See @fig-speed and @tbl-all.\n\n"
        "2. **cost.** Do cost\\. See @fig-cost and @tbl-all.\n"
    )
    assert plain(conclusions.summary(paper)) == (
        "Of 5 effects that the cache lets us estimate, 3 are more than chance and at least a factor of 1.10; the "
        "largest are listed, on at most 8 subjects."
    )
    assert plain(conclusions.others(paper)) == (
        "Looked for but not listed, since they may be none or are smaller than those above: chance 9.0 (0.50 to 9.0); "
        "trifle 1.05 (1.05 to 1.05)."
    )
    assert plain(conclusions.foremost(paper)) == (
        "These are the largest effects, with their 95 % intervals in parentheses. On the gpu, speed is 0.100 (0.100 to "
        "0.100). Cost is 0.200 (0.200 to 0.200)."
    )


def test_no_more_subjects_than_a_reader_takes_in(asked):
    paper = asked((), tuple(lambda paper, k=k: conclusion(f"topic{k}", 2.0 + k) for k in range(12)))
    assert [own[0].topic for own in conclusions.chosen(paper)] == [f"topic{k}" for k in range(11, 3, -1)]
    assert conclusions.others(paper).endswith("topic3 5.00 (5.00 to 5.00).")
    assert conclusions.foremost(paper).count("topic") + conclusions.foremost(paper).count("Topic") == 6


def test_what_is_missing_is_told_once_with_what_fills_it(asked):
    def lacking(*_):
        raise DataMissingError("No_thing was measured; python -m measure does.")

    paper = asked((lacking,), (lacking, lambda paper: conclusion("cost", 2.0)))
    assert conclusions.gaps(paper) == "- No\\_thing was measured; python \\-m measure does\\.\n"
    assert conclusions.gaps(asked((), (lambda paper: conclusion("cost", 2.0),))).startswith("- Nothing")
    nothing = asked((lacking,), (lacking,))
    assert isinstance(conclusions.listed(nothing), Missing)


def test_without_an_effect_the_paper_says_so(asked):
    paper = asked((), (lambda paper: conclusion("chance", 2.0, low=0.5),))
    for part in (conclusions.listed, conclusions.summary, conclusions.others, conclusions.foremost):
        text = part(paper)
        assert isinstance(text, Missing)
        assert text.startswith("Too little has been measured to tell any effect from none")


@pytest.mark.parametrize(
    "part", [conclusions.listed, conclusions.gaps, conclusions.summary, conclusions.others, conclusions.foremost]
)
def test_without_data_every_part_says_what_is_missing(part):
    text = part(empty())
    assert isinstance(text, Missing)
    assert "No CPU has been measured yet; to add one, run python -m measure --device cpu" in plain(text)


def test_a_machine_that_is_lacking_is_a_gap():
    cpu_only = replace(many(), machines=(many().machine("cpu"),))
    assert "No GPU has been measured yet" in conclusions.gaps(cpu_only)
    assert "No GPU" not in conclusions.gaps(many())


def test_every_part_of_a_paper_with_effects_is_whole_sentences():
    check_whole_sentences(conclusions.summary(many()))
    check_whole_sentences(conclusions.others(many()))
    check_whole_sentences(conclusions.foremost(many()))
    assert conclusions.listed(many()).startswith("1. **")
    assert or_missing(conclusions.chosen)(many())
