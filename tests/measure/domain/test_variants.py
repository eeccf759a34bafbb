import pytest

from measure.domain import variants
from measure.errors import UserError


def test_a_variant_has_one_name_with_its_parts_in_order():
    everything = "autocast+channels_last+kept_memory+compile+cuda_graph+cold+cudnn_benchmark"
    for name in ("eager", everything):
        assert variants.canonical_name("+".join(reversed(name.split("+")))) == variants.canonical_name(name) == name
    assert "+".join(each.name for each in variants.parts_of(f"{everything}+adam")) == everything
    assert variants.parts_of("eager") == ()
    slow = [variants.first_call_s(name) for name in ("compile", "cuda_graph", "cudnn_benchmark")]
    assert variants.first_call_s(everything) == sum(slow) > 60.0  # more than any call may take
    names = {("cold", "sgd"): "cold", ("eager", "adam"): "adam", ("cold+compile", "adam"): "cold+compile+adam"}
    assert {each: variants.with_optimizer(*each) for each in names} == names
    assert [variants.uses_adam(name) for name in names.values()] == [False, True, True]


def test_unknown_variants_and_second_names_of_a_cell_are_refused():
    unknown, twice = (
        ("fast", "compile+fast", "compile,cold", "", "compile+"),
        ("cold+cold", "eager+eager", "eager+cold"),
    )
    for texts, reason in ((unknown, "is not one of eager, autocast"), (twice, "joins a part twice")):
        for text in texts:
            with pytest.raises(UserError, match=f"--variants: .* {reason}"):
                variants.canonical_name(text)


def test_a_joined_variant_has_what_its_parts_have():
    names = ("eager", "compile+adam", "autocast", "autocast+cold", "cuda_graph", "autocast+cuda_graph")
    assert [variants.is_autocast(name) for name in names] == [False, False, True, True, False, True]
    assert [variants.is_graph(name) for name in names] == [False, False, False, False, True, True]
