import shutil

import pytest
from helpers.world import WORLD

from measure.cache.table import write
from measure.domain.models import DECODE, PREFILL, Size
from measure.domain.schema import file_of
from measure.predicting import timings
from measure.predicting.prediction_terms import PLACE
from measure.published.records import PublishedTokens

SMALL = Size((PREFILL, DECODE), 8, 3, 4, 2, 16, 100, 64)
"""Three layers of width 8 with keys of width 4: 8 * (2 * 8 + 2 * 4 + 3 * 16) = 576 parameters each, 800 of the head."""


def test_a_token_reads_the_parameters_and_half_of_the_cache():
    found = timings.work_of_tokens(SMALL, DECODE, 10)
    assert found.parameter_byte == 2 * (3 * 576 + 800)
    assert found.flop[PLACE["linear"]] == 2 * (3 * 576 + 800)
    # Keys and values of 5 tokens, 4 wide, in three layers; a score and a sum for each of 8
    assert found.footprint_byte - found.parameter_byte == 2 * 2 * 4 * 5 * 3
    assert found.flop[PLACE["attention"]] == 4 * 5 * 8 * 3
    assert found.sort == "decoding"


def test_a_prompt_reads_the_parameters_once_and_scores_one_token():
    found = timings.work_of_tokens(SMALL, PREFILL, 10)
    assert found.flop[PLACE["linear"]] == 2 * (10 * 3 * 576 + 800)
    assert found.flop[PLACE["attention"]] == 4 * 10 * 10 * 8 * 3
    assert found.byte[PLACE["other"]] == 4 * 2 * 4 * 10 * 10 * 3  # four heads' scores, written and read


def test_the_sizes_are_those_of_the_published_models():
    # 16.06 GB at 16 bits with the embedding of 128,256 by 4,096, which no token reads but for its row
    size = timings.LLAMAS["LLaMA 3 8B"]
    embedding = 2 * size.vocabulary * size.width
    assert timings.work_of_tokens(size, DECODE, 1).parameter_byte + embedding == pytest.approx(16.06e9, rel=1e-3)


def test_a_published_rate_is_a_timed_call(tmp_path):
    shutil.copy(WORLD / "chips.csv", tmp_path)
    rows = [
        PublishedTokens("made", "NVIDIA T4", gpus, "LLaMA 3 8B", weights, phase, 512, 20.0)
        for gpus, weights, phase in ((1, "F16", DECODE), (1, "F16", PREFILL), (2, "F16", DECODE), (1, "Q4_K_M", DECODE))
    ]
    path = file_of(PublishedTokens, tmp_path)
    path.parent.mkdir(parents=True)
    write(path, PublishedTokens, rows)
    found = list(timings.served(tmp_path))
    # A token at 20 a second; 512 tokens of a prompt
    assert [(each.setting.variant, each.latency_s) for each in found] == [(DECODE, 0.05), (PREFILL, 25.6)]
