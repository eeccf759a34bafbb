import pytest
from helpers.papers import empty, tiny
from helpers.spoken import spoken

from report.analysis import language
from report.analysis.available import DataMissingError


def test_cells():
    rows = language.cells(spoken().machine("cpu")).set_index(["model", "batch"])
    prefill, decode = rows.loc[("gpt2_prefill_100", 1)], rows.loc[("gpt2_decode_100", 4)]
    assert (prefill.network, prefill.phase, prefill.length) == ("gpt2", "prefill", 100)
    # 100 tokens in 0.4 s; 4 in 0.25 s
    assert prefill.tokens_per_s == pytest.approx(250)
    assert decode.tokens_per_s == pytest.approx(16)
    assert rows.loc[("bert_base_encode_128", 1)].network == "bert_base"


def test_without_language_models_the_command_is_named():
    for paper in (tiny(), spoken()):
        with pytest.raises(
            DataMissingError, match=r"on the Example GPU; .* inference --models 'language:\*'` measures"
        ):
            language.cells(paper.machine("gpu"))
    assert empty().machine("cpu") is None


def test_bytes_of_the_cache():
    # keys and values x 12 layers x 12 heads x 64 numbers x 2 B are 36,864 B a token
    assert language.cache_byte("gpt2_decode_512", 1, 2) == 512 * 36_864
    # with 8 heads of keys for 32, 16 layers: 32,768 B a token, although it is ten times the size
    assert language.cache_byte("llama_1b_decode_512", 4, 2) == 4 * 512 * 32_768
    assert language.cache_byte("llama_1b_prefill_512", 4, 2) is None
    assert language.cache_byte("vgg11", 4, 2) is None
