"""Models that a user brings: the three of ``examples/transformer.py``, and many that are wrong."""

import importlib
import itertools
import textwrap

import pytest
from helpers.tasks import cell

from measure import __main__ as command
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.counting import count
from measure.errors import UserError
from measure.machine import devices
from measure.models import catalog, own_models
from measure.timing import calls

torch = pytest.importorskip("torch", reason="models are torch's")

NAMES = ["examples.transformer:encoder", "examples.transformer:pair", "examples.transformer:speech"]
SHAPES = [(128,), (128,), (16000,)]
numbers = itertools.count()


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes a module where Python finds it, with the body of a function of the batch size; the function's name."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(body, before=""):
        module = f"mine_{next(numbers)}"
        text = "import torch\nfrom torch import nn\n" + textwrap.dedent(before)
        text += "def network(batch_size):\n" + textwrap.indent(textwrap.dedent(body), "    ")
        (tmp_path / f"{module}.py").write_text(text)
        importlib.invalidate_caches()
        return f"{module}:network"

    return write


@pytest.mark.parametrize(("name", "shape"), list(zip(NAMES, SHAPES, strict=True)))
def test_a_model_is_its_name_and_the_shape_of_its_first_input(name, shape):
    (model,) = catalog.find([name])
    assert (model.name, model.source, model.family, model.input_shape) == (name, "own", "own", shape)


def test_the_text_encoder_by_hand():
    (model,) = catalog.find(["examples.transformer:encoder"])
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


def test_the_speech_model_by_hand():
    (model,) = catalog.find(["examples.transformer:speech"])
    row, *_ = count.count(model, 1)
    frames = (16000 - 400) // 160 + 1  # 98
    trunk = 4 * (frames * 12 * 256 * 256 + 2 * frames * frames * 256)
    assert row.forward_flop == 2 * (frames * 400 * 256 + trunk + 256 * 12)
    # The waveform has no gradient.
    assert row.backward_flop == 2 * row.forward_flop - 2 * frames * 400 * 256


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_trained(name, precision):
    (model,) = catalog.find([name])
    step = calls.prepare(devices.find("cpu"), model, cell(model, 2, precision, phase="step"))
    before = step.network.head.weight.detach().clone()
    step()
    assert not torch.equal(before, step.network.head.weight)
    assert {each.dtype for each in step.network.parameters()} == {
        torch.bfloat16 if precision == "bf16" else torch.float32
    }


def test_inputs_of_16_and_32_bits_are_cast_and_others_are_as_they_are(written):
    name = written(
        """
        class Network(nn.Linear):
            def forward(self, rows, state, flag, nothing=None):
                return super().forward(rows)
        shape = (batch_size, 3)
        state = [torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.int32), 7]
        return Network(3, 2), (torch.ones(shape), state, True, None)
        """
    )
    (model,) = catalog.find([name])
    rows, (double, integer, seven), flag, nothing = own_models.prepare(model, 4, "cpu", torch.float16).inputs
    assert (rows.dtype, double.dtype, integer.dtype) == (torch.float16, torch.float64, torch.int32)
    assert (seven, flag, nothing) == (7, True, None)


def test_an_input_of_one_number_has_a_shape(written):
    (model,) = catalog.find([written("return nn.Embedding(9, 2), torch.zeros(batch_size, dtype=torch.int64)")])
    assert model.input_shape == (1,)


@pytest.mark.parametrize("layout", ["strided", "jagged"])
@pytest.mark.usefixtures("forked_workers")
def test_a_nested_input_has_a_row_with_a_reason_and_other_models_go_on(written, layout, tmp_path):
    nested = written(
        f"""
        parts = [torch.ones(3 + each, 8) for each in range(batch_size)]
        return nn.Linear(8, 4), torch.nested.nested_tensor(parts, layout=torch.{layout})
        """
    )
    dense = written("return nn.Linear(8, 4), torch.ones(batch_size, 8)")
    flags = ["--device", "cpu", "--sections", "workload", "--batch-sizes", "2", "--data", str(tmp_path)]
    assert command.main(["--models", nested, dense, *flags]) == 0
    found = {row.model: row for row in Workloads(tmp_path).rows(Workload)}
    assert found[nested].input_shape == "4x8"  # the longest of two
    assert found[nested].status == "unsupported"
    assert "an input is a nested tensor" in found[nested].reason
    assert found[dense].forward_flop == 2 * 2 * 8 * 4


def test_weights_that_are_shared_are_counted_once(written):
    name = written(
        """
        class Network(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
                self.head.weight = self.embedding.weight
            def forward(self, tokens):
                return self.head(self.embedding(tokens))
        return Network(), {"tokens": torch.randint(9, (batch_size, 5))}
        """
    )
    (model,) = catalog.find([name])
    assert count.count(model, 2, "bf16").workload.parameter_count == 9 * 4


LINEAR = "nn.Linear(3, 2)"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (f"return {LINEAR}", r"returns Linear; return a torch\.nn\.Module and its inputs, \(network, inputs\)"),
        ("pass", "returns NoneType; return a"),
        (f"return torch.ones(batch_size, 3), {LINEAR}", r"returns Tensor, Linear; return a"),
        (f"return {LINEAR}, torch.ones(batch_size, 3), 1", r"returns Linear, Tensor, int; return a"),
        (f"return {LINEAR}, torch.ones(1, 3)", r"returned inputs\[0\] \(1, 3\) for batch size 2; the first"),
        (f"return {LINEAR}, {{'input': torch.ones(3)}}", r"returned inputs\['input'\] \(3,\) for batch size 2"),
        (f"return {LINEAR}, ()", "returned no tensors for batch size 2; the first dimension must be the batch"),
        (f"return {LINEAR}, [3.0, None]", "returned no tensors"),
        (f"return {LINEAR}, 'text'", "returned no tensors"),
        (
            f"return {LINEAR}, torch.ones(batch_size, 3, requires_grad=True)",
            r"returns inputs\[0\] with requires_grad; make inputs that need no gradient",
        ),
        ("raise ValueError('no weights. Or none here')", r"network\(2\) raised ValueError: no weights; fix it"),
        ("return 1 / 0", r"raised ZeroDivisionError: division by zero; fix it: its argument is the batch size"),
    ],
)  # fmt: skip
def test_what_a_function_must_not_do_is_one_sentence(written, body, sentence):
    name = written(body)
    with pytest.raises(UserError, match=sentence) as caught:
        catalog.find([name])
    assert str(caught.value).startswith(f"--models: {name}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("examples.transformer:encoded", "has no function 'encoded'; there is encoder$"),
        ("examples.transformer:", "has no function ''; there is encoder, pair, speech$"),
        ("examples.transformer:*", r"has no function '\*'; there is encoder, pair, speech$"),
        ("examples:encoder", "the module examples has no function 'encoder'; define a function there: return a"),
        ("examples.transformer:WIDTH", "has no function 'WIDTH'; there is encoder, pair, speech$"),
        ("examples.transformer:Text", r"Text\(2\) raised TypeError: .*; fix it: its argument is the batch size"),
        ("no_such_package.models:net", "there is no module no_such_package.models for .*; run where python can"),
        ("examples/transformer.py:encoder", "is not of the form package.module:function"),
        (":encoder", "is not of the form package.module:function"),
        ("my-models:net", "is not of the form package.module:function"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_one_sentence(name, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        catalog.find([name])
    assert str(caught.value).startswith("--models: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        ("import no_such_library\n", "raised ModuleNotFoundError: No module named 'no_such_library'; fix that first"),
        ("def broken(:\n", "raised SyntaxError: .*; fix that first"),
        ("raise SystemExit(3)\n", "raised SystemExit: 3; fix that first"),
    ],
)  # fmt: skip
def test_a_module_that_cannot_be_imported_says_why(written, before, sentence):
    with pytest.raises(UserError, match=sentence):
        catalog.find([written("pass", before)])


def test_a_function_may_need_values(written):
    name = written(f"int(torch.ones(batch_size).sum())\nreturn {LINEAR}, torch.ones(batch_size, 3)")
    (model,) = catalog.find([name])
    assert model.input_shape == (3,)
    assert count.count(model, 1).workload.forward_flop == 2 * 3 * 2


def test_tensors_that_a_network_holds_as_they_are_go_to_meta_too(written):
    name = written(
        """
        class Network(nn.Linear):
            def __init__(self):
                super().__init__(3, 2)
                self.places, self.scale = torch.arange(5), torch.tensor(0.5)
            def forward(self, rows):
                return super().forward(rows + self.places[:, None]) * self.scale
        return Network(), torch.ones(batch_size, 5, 3)
        """
    )
    (model,) = catalog.find([name])
    assert count.count(model, 4).workload.forward_flop == 2 * 4 * 5 * 3 * 2
