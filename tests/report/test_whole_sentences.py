"""Every finding and table that the chapters ask for, of each paper that the tests have: whole, or what is missing.

That the chapters ask for every one of them is tested with the chapters.
"""

import re
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from helpers.chapters import SHARED, calls
from helpers.counted_papers import counted
from helpers.elsewhere_papers import timed_elsewhere
from helpers.fleets import fleet
from helpers.paper_text import COSTS, STEPS
from helpers.papers import REFERENCES, empty, many, tiny, wide, with_variants
from helpers.predicted_papers import predicted
from helpers.profiled_papers import profiled
from helpers.published_papers import printed
from helpers.sentences import check_no_gap, check_whole_sentences
from helpers.spoken import spoken
from helpers.sweep_papers import swept
from helpers.training_papers import trained
from helpers.whole_cache import write_whole

from report.analysis.available import Missing
from report.load.paper import load

TEXTS = sorted(
    {call for call in calls() if "data)" in call or "data," in call if not re.search(r"figures\.|chooser\.", call)}
)
TABLES = r"tables\.|findings\.conclusions\.(gaps|effects|margins|foremost)|findings\.cards\."
"""What is no running text: tables and lists."""

ALWAYS_THERE = {"published.findings.misprint(data)"}
"""What says that there is none where there is no table either."""


@cache
def whole():
    with TemporaryDirectory() as folder:
        write_whole(Path(folder) / "data")
        return load(Path(folder) / "data", REFERENCES)


PAPERS = {
    # The paper, and the texts that it has the data of
    "whole": (
        whole,
        r"^(?!.*(torchinfo|kernels\.candidates|larger_batch|lower_precision|counters_betrayed|meant_models|"
        r"prediction\.typical|language\.|fleet))",
    ),
    "wide": (
        wide,
        r"(?<!published\.)findings\.(chips|comparisons|workload|layers\.(kinds|par|dep)|bounds|machines|"
        r"benchmarks\.(?!sat)|"
        r"training\.(flop_ratios|recomputation|memory|optimisers)|utilisation|counting_programs\.(?!.*torchinfo)|"
        r"predictors|speed_ups\.of_machines)|tables\.chips",
    ),
    "timed elsewhere": (timed_elsewhere, r"findings\.elsewhere(?!_sweeps)|tables\.elsewhere"),
    "swept": (swept, r"findings\.elsewhere_sweeps"),
    "predicted": (predicted, r"findings\.prediction\.|tables\.prediction\.(?!typical)"),
    "many": (many, r"benchmarks\.|(?<!elsewhere_)predictors\.|speed_ups(\.of_machines|\()"),
    "tiny": (
        tiny,
        r"findings\.(workload|bounds|benchmarks)\.(?!sat)|tables\.(workload|counting_programs|roofs)\.|"
        r"tables\.machines\.(?!fleets)",
    ),
    "profiled": (
        profiled,
        r"findings\.waterfall\.(waiting|gaps|system|largest|profiled)|tables\.utilisation\.(?!tried)",
    ),
    "profiled, without a GPU": (
        partial(profiled, gpu=False),
        r"findings\.waterfall\.(waiting|gaps|system|largest|profiled)",
    ),
    "trained": (trained, rf"findings\.({STEPS}|{COSTS}|training\.(peaks|saved|freezing))|tables\.training\."),
    "trained, without a GPU": (partial(trained, gpu=False), rf"findings\.({STEPS}|{COSTS})"),
    "counted": (counted, r"findings\.kernels\.(?!printed|candidates)|tables\.kernels\."),
    "printed": (printed, r"published\.|claims\."),
    "a fleet": (
        partial(fleet, 1, 1.5, 2, 4, 8, peaks=(1, 0.5)),
        r"(findings|tables)\.(fleet|machines)\.(?!timed_by_others)",
    ),
    "language models": (spoken, r"(findings|tables)\.language\."),
    "with variants": (with_variants, r"findings\.speed_ups\.of_variants"),
}


def text_of(call, paper):
    return eval(call, SHARED | {"data": paper, "show": SimpleNamespace(show=lambda content: content)})


@pytest.mark.parametrize("name", PAPERS)
def test_every_text_is_whole_or_says_what_is_missing(name):
    paper, there = PAPERS[name]
    asked = 0
    for call in TEXTS:
        text = text_of(call, paper())
        if re.search(there, call):
            asked += 1
            assert not isinstance(text, Missing), (call, text)
        if isinstance(text, Missing):
            assert text.endswith("."), call
        elif re.search(TABLES, call):
            check_no_gap(text)
        else:
            check_whole_sentences(text)
    assert asked


@pytest.mark.parametrize("call", TEXTS)
def test_without_data_every_text_says_what_is_missing(call):
    text = text_of(call, empty())
    assert isinstance(text, Missing) or call in ALWAYS_THERE
    assert text.endswith(".")
