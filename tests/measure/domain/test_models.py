import pytest

from measure.domain.models import IMAGE, SIZES, LanguageTask, Model, parse_task
from measure.errors import UserError
from measure.models import catalog


@pytest.mark.parametrize(
    ("model", "selector"),
    [
        (Model("resnet18", "torchvision", "residual", IMAGE), "torchvision:resnet18"),
        (Model("timm:resnet18", "timm", "other", IMAGE), "timm:resnet18"),
        (Model("package.module:function", "own", "own", (3,)), "package.module:function"),
    ],
)
def test_a_selector_names_the_library_once(model, selector):
    assert model.selector == selector


@pytest.mark.slow
def test_a_selector_finds_the_model():
    pytest.importorskip("timm", reason="timm is an extra")
    for name in ("resnet18", "torchaudio:hubert_base", "timm:vgg11", "examples.transformer:pair"):
        (model,) = catalog.find([name])
        assert catalog.find([model.selector]) == [model]


def test_a_name_says_what_is_done_with_how_many_tokens():
    assert parse_task("gpt2_prefill_384") == LanguageTask(SIZES["gpt2"], "prefill", 384)
    assert (parse_task("gpt2_decode_384").read, parse_task("gpt2_decode_384").positions) == (1, 385)
    assert parse_task("bert_base_encode_512").read == 512


@pytest.mark.parametrize(
    "name", ["gpt2", "gpt2_prefill", "gpt2_encode_8", "bert_base_decode_8", "gpt3_prefill_8", "vgg11"]
)
def test_another_name_says_nothing(name):
    assert parse_task(name) is None


@pytest.mark.parametrize(("name", "most"), [("gpt2_decode_1024", 1024), ("bert_base_encode_513", 512)])
def test_a_text_that_is_too_long_is_told(name, most):
    with pytest.raises(UserError, match=f"takes {most} tokens at most, not the {most + 1} of {name}; name fewer"):
        parse_task(name)
