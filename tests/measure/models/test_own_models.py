"""A user's own models: ``examples/transformer.py``, and many wrong ones."""

import importlib
import itertools

import pytest
from helpers import counting
from helpers.counting import Own, linear, nn, rows, torch

from measure.counting import count
from measure.errors import UserError
from measure.models import catalog, own_models
from roofwright import batch_axis

NAME = f"{counting.__name__}:network"
numbers = itertools.count()


def find(name):
    (model,) = catalog.find([name])
    return model


def own(function):
    """The model of a function of the batch size."""
    counting.network = function
    return find(NAME)


def test_the_text_encoder_by_hand():
    model = find("examples.transformer:encoder")
    assert (model.name, model.source, model.family) == ("examples.transformer:encoder", "own", "own")
    assert model.input_shape == (128,)
    row, layers, _ = count.count(model, 3)
    # A block on 128 tokens, 256 wide: query, key, value and output are 4 products of 256 x 256 a token, the perceptron
    # 8 of them; scores and their products with the values are 128 x 128 x 256 each. Four blocks, and the head of 12.
    block = 128 * 12 * 256 * 256 + 2 * 128 * 128 * 256
    assert row.forward_flop == 3 * 2 * (4 * block + 256 * 12) == 2_617_264_128
    # Each product has two gradients, since the embedding is learned too.
    assert row.backward_flop == 2 * row.forward_flop
    # 8192 words and 128 positions; weights as above, and biases 4 + 5 and two norms 2 + 2 times the width.
    weights = (8192 + 128) * 256 + 4 * (12 * 256 * 256 + 13 * 256) + 2 * 256 + (256 + 1) * 12
    assert row.parameter_count == weights
    assert row.input_byte == 3 * 128 * (8 + 1)  # token ids of 64 bit, the mask
    assert row.output_byte == 3 * 4 * (256 + 12)
    assert row.uncounted is None
    assert {"attention", "embedding", "linear", "normalisation", "activation"} <= {each.layer_kind for each in layers}


def test_inputs_of_16_and_32_bits_are_cast_and_others_are_not():
    def network(batch):
        state = [torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.int32), 7]
        return Own(lambda self, rows, *_rest: self.layer(rows), layer=linear(3, 2)), (rows(batch, 3), state, True, None)

    call = own_models.prepare(own(network), 4, "cpu", torch.float16)
    given, (double, integer, seven), flag, nothing = call.inputs
    assert (given.dtype, double.dtype, integer.dtype) == (torch.float16, torch.float64, torch.int32)
    assert (seven, flag, nothing) == (7, True, None)


def test_a_shape_of_an_input():
    assert own(lambda batch: (nn.Embedding(9, 2), torch.zeros(batch, dtype=torch.int64))).input_shape == (1,)
    assert own(lambda batch: (linear(3, 2), rows(int(torch.ones(batch).sum()), 3))).input_shape == (3,)


def test_a_network_larger_than_any_memory_is_found():
    wide = 2**30  # 4 EiB of weights
    assert own(lambda batch: (nn.Linear(wide, wide), torch.ones(batch, wide))).input_shape == (wide,)


def test_a_batch_that_is_not_the_first_dimension():
    steps = own(batch_axis(1)(lambda batch: (linear(3, 2), torch.ones(5, batch, 3))))
    assert steps.input_shape == (5, 3)
    last = own(batch_axis(-1)(lambda batch: (linear(2, 2), torch.ones(3, batch))))
    assert last.input_shape == (3,)
    packed = own(batch_axis(None)(lambda batch: (linear(3, 2), torch.ones(7 * batch, 3))))
    assert packed.input_shape == (7, 3)  # of one input
    assert count.count(packed, 2).workload.forward_flop == 2 * 14 * 3 * 2
    graphs = own(lambda batch: (linear(3, 2), {"x": torch.ones(7 * batch, 3), "batch": torch.ones(7 * batch)}))
    assert graphs.input_shape == (7, 3)
    with pytest.raises(TypeError, match=r"@roofwright\.batch_axis\(1\)"):
        batch_axis(fail)


def fail(batch):
    raise ValueError("no weights. Or none here")


@pytest.mark.parametrize(
    ("network", "named"),
    [
        (lambda _batch: linear(3, 2), f"{NAME} returns Linear; "),
        (lambda batch: (linear(3, 2), rows(batch, 3), 1), f"{NAME} returns Linear, Tensor, int; "),
        (lambda _batch: (linear(3, 2), rows(1, 3)), f"{NAME} returned inputs[0] (1, 3) for batch size 2; "),
        (batch_axis(1)(lambda batch: (linear(3, 2), rows(batch, 3))), f"{NAME} returned inputs[0] (2, 3) for batch"),
        (batch_axis(None)(lambda _batch: (linear(3, 2), 7)), f"{NAME} returned no tensors for batch size 2; "),
        (lambda _batch: (linear(3, 2), {"a": rows(3)}), f"{NAME} returned inputs['a'] (3,) for batch size 2; "),
        (lambda _batch: (linear(3, 2), ()), f"{NAME} returned no tensors for batch size 2; "),
        (lambda batch: (linear(3, 2), rows(batch, 3).requires_grad_()), f"{NAME} returns inputs[0] with requires_grad"),
        (fail, f"{NAME}(2) raised ValueError: no weights; "),
    ],
)
def test_a_wrong_function_is_answered_in_one_sentence(network, named):
    with pytest.raises(UserError) as caught:
        own(network)
    assert str(caught.value).startswith(f"--models: {named}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("examples.transformer:encoded", ["'encoded'", "encoder"]),
        ("examples.transformer:WIDTH", ["'WIDTH'", "encoder, pair, speech"]),
        ("examples.transformer:Text", ["Text(2) raised TypeError"]),
        ("no_such_package.models:net", ["no_such_package.models"]),
        ("examples/transformer.py:encoder", ["package.module:function"]),
        # Modules that cannot be imported
        ("import no_such_library", ["raised ModuleNotFoundError: No module named 'no_such_library'"]),
        ("def broken(:", ["raised SyntaxError: "]),
    ],
)
def test_a_missing_function_is_answered_in_one_sentence(name, named, tmp_path, monkeypatch):
    if ":" not in name or " " in name:
        monkeypatch.syspath_prepend(tmp_path)
        module = f"mine_{next(numbers)}"
        (tmp_path / f"{module}.py").write_text(f"{name}\n")
        importlib.invalidate_caches()
        name = f"{module}:network"
    with pytest.raises(UserError) as caught:
        find(name)
    assert str(caught.value).startswith("--models: ")
    assert "\n" not in str(caught.value)
    assert all(each in str(caught.value) for each in named)
