import pytest

from measure.domain.models import SIZES, LanguageTask, parse_task
from measure.errors import UserError


def test_a_name_says_what_is_done_with_how_many_tokens():
    assert parse_task("gpt2_prefill_384") == LanguageTask(SIZES["gpt2"], "prefill", 384)
    assert (parse_task("gpt2_decode_384").read, parse_task("gpt2_decode_384").positions) == (1, 385)
    assert parse_task("bert_base_encode_512").read == 512
    for name in ("gpt2", "gpt2_prefill", "gpt2_encode_8", "bert_base_decode_8", "gpt3_prefill_8", "vgg11"):
        assert parse_task(name) is None
    with pytest.raises(UserError, match="takes 1024 tokens at most, not the 1025 of gpt2_decode_1024; name fewer"):
        parse_task("gpt2_decode_1024")
