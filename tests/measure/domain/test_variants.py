import pytest

from measure.domain import variants
from measure.errors import UserError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("eager", "eager"),
        ("compile", "compile"),
        ("compile+channels_last", "channels_last+compile"),
        ("cold+compile+channels_last+autocast", "autocast+channels_last+compile+cold"),
        ("compile+kept_memory", "kept_memory+compile"),
        ("cudnn_benchmark+compile", "compile+cudnn_benchmark"),
    ],
)
def test_a_variant_has_one_name(text, name):
    assert variants.named(text) == name
    assert variants.named(name) == name


def test_the_first_call_may_take_longer_where_it_sets_something_up():
    alone = [variants.first_call_s(name) for name in ("compile", "cudnn_benchmark")]
    assert min(alone) > 60.0  # more than any call may take
    assert variants.first_call_s("channels_last+compile+cudnn_benchmark") == sum(alone)
    assert variants.first_call_s("eager") == variants.first_call_s("cold") == 0.0


def test_eager_has_no_parts():
    assert variants.parts("eager") == frozenset()
    assert variants.parts("channels_last+compile") == {"channels_last", "compile"}


@pytest.mark.parametrize("text", ["fast", "compile+fast", "compile,cold", "", "compile+"])
def test_a_word_that_is_no_variant_is_answered_with_those_that_are(text):
    with pytest.raises(UserError, match=r"--variants: .* is not one of eager, autocast, channels_last"):
        variants.named(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cold+cold", "'cold+cold' names a part twice; name each once"),
        ("eager+eager", "'eager+eager' names a part twice; name each once"),
        ("eager+cold", "'eager+cold' joins eager, the network as it is, with a variant; leave it out"),
        ("cold+eager", "'cold+eager' joins eager, the network as it is, with a variant; leave it out"),
    ],
)
def test_a_cell_has_no_second_name(text, complaint):
    with pytest.raises(UserError) as caught:
        variants.named(text)
    assert str(caught.value) == f"--variants: {complaint}"


@pytest.mark.parametrize(
    ("variant", "optimizer", "name"),
    [
        ("eager", "sgd", "eager"),
        ("cold", "sgd", "cold"),
        ("eager", "adam", "adam"),
        ("autocast+compile", "adam", "autocast+compile+adam"),
    ],
)
def test_an_optimiser_other_than_the_default_is_the_last_part(variant, optimizer, name):
    assert variants.with_optimizer(variant, optimizer) == name
    assert (variants.ADAM in variants.parts(name)) == (optimizer == "adam")
