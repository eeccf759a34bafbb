import subprocess
import sys

import pytest
import torch
from helpers.gpu.operators import Ledger
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from measure.domain.models import BUILT_IN, QUICK, STORY
from measure.errors import UserError
from measure.models import catalog


@pytest.mark.parametrize(
    ("patterns", "selected"),
    [
        # Globs select in the catalog's order and once
        (["vgg1?", "alexnet", "vgg11"], ["alexnet", "vgg11", "vgg16", "vgg19"]),
        # The built-in models come before libraries' and own ones
        (
            ["examples.transformer:pair", "torchvision:resnet34", "vgg1?"],
            ["vgg11", "vgg16", "vgg19", "examples.transformer:pair", "resnet34"],
        ),
        (["torchvision:inception_v3", "torchaudio:wav2vec2_base"], ["inception_v3", "wav2vec2_base"]),
        # A language model needs no library's name: tables and the paper have none
        (["bert_*_512", "gpt2_decode_7"], ["bert_base_encode_512", "gpt2_decode_7"]),
    ],
)
def test_patterns_select_by_name(patterns, selected):
    assert [model.name for model in catalog.find(patterns)] == selected


def test_a_built_in_model_has_a_native_size_as_well():
    shapes = {model.name: model.input_shape for model in catalog.find(["*"], native_size=True)}
    assert list(shapes) == [model.name for model in BUILT_IN] == list(dict.fromkeys(shapes))
    assert set(STORY) <= set(QUICK) <= set(shapes)
    assert shapes["efficientnet_b7"] == (3, 600, 600)  # Tan and Le 2019: B7 takes 600 x 600
    assert shapes["fcn_resnet50"] == (3, 520, 520)
    assert shapes["wav2vec2_base"] == (16000,)
    (own,) = catalog.find(["examples.transformer:pair"], native_size=True)
    assert own.input_shape == (128,)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("resnet19", ["'resnet19'", "resnet18"]),
        ("xyzzy*", ["'xyzzy*'", "--list"]),
        ("torchvision:ResNet101", ["'ResNet101'", "resnet101"]),
        ("fastai:resnet18", ["no module fastai for fastai:resnet18"]),
        ("hf:gpt5", ["hf has no model 'gpt5'", "gpt2"]),
        ("hf:bert_decode_4", ["bert cannot decode"]),
        ("hf:gpt2_prefill_2000", ["gpt2 takes 1024 tokens at most", "2000"]),
        ("hf:nowhere/config.json", ["nowhere/config.json", "No such file"]),
        ("hf:", ["hf has no model ''"]),
        ("hf:gpt2\nx", ["hf has no model", "gpt2"]),
        ("res\nnet", ["no model is called", "resnet"]),
        ("resnet34", ["torchvision:resnet34"]),
        ("hubert_b*", ["torchaudio:hubert_b*"]),
    ],
)
def test_a_wrong_name_is_answered_in_one_sentence(pattern, named):
    for source, package in {"timm": "timm", "hf": "transformers"}.items():
        if pattern.startswith(f"{source}:"):
            pytest.importorskip(package, reason="an optional extra")
    with pytest.raises(UserError) as caught:
        catalog.find(["alexnet", pattern])
    assert all(each in str(caught.value) for each in named)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "package"), [("timm:resnet18d", "timm"), ("hf:mixtral", "transformers")])
def test_a_name_without_its_library_is_answered_with_it(name, package):
    pytest.importorskip(package, reason="an optional extra")
    with pytest.raises(UserError, match=f"write {name}$"):
        catalog.find([name.partition(":")[2]])


@pytest.mark.parametrize(
    ("source", "package", "extra"),
    [("torchaudio", "torchaudio", "measure"), ("timm", "timm", "timm"), ("hf", "transformers", "hf")],
)
def test_a_missing_library_is_named_with_its_extra(source, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"models of {source} need {package}; .* 'roofwright\[{extra}\]'"):
        catalog.find([f"{source}:*"])


def test_naming_built_in_models_imports_no_torch():
    code = "import sys; from measure.models import catalog; catalog.find(['resnet*']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["squeezenet1_0", "examples.transformer:encoder"])
def test_a_network_and_its_inputs_share_device_and_type(name):
    (model,) = catalog.find([name])
    call = catalog.prepare(model, 3, "cpu", torch.bfloat16)
    assert {parameter.dtype for parameter in call.network.parameters()} == {torch.bfloat16}
    tensors = [*call.inputs, *call.keywords.values()]
    assert {tensor.shape[0] for tensor in tensors} == {3}
    assert torch.float32 not in {tensor.dtype for tensor in tensors}
    on_meta = catalog.prepare_on_meta(model, [3, 5])
    assert [[*each.inputs, *each.keywords.values()][0].shape[0] for each in on_meta] == [3, 5]
    assert all(parameter.is_meta for each in on_meta for parameter in each.network.parameters())
    assert not any(each.network.training for each in (call, *on_meta))


class Allocations(TorchDispatchMode):
    """Notes the bytes of all tensors that live at once."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger(capacity_byte=2**40)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.ledger.add(leaf)
        return result


# A layer: queries and outputs, 2 of 8 heads' keys and values, a router to 8 experts, their three matrices, two norms.
MIXTURE = 2 * 32000 * 1024 + 10 * (1024 * (2 * 1024 + 2 * 256 + 8 + 2) + 8 * 3 * 1024 * 3584) + 1024


@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bert_base_encode_16", 109_482_240),  # Devlin et al. 2019: "110M"
        pytest.param("hf:examples/mixture_1b.json_prefill_16", MIXTURE, marks=pytest.mark.slow),
    ],
)
def test_a_network_is_built_in_its_own_precision(name, parameters, precision):
    """bf16 cast from fp32 takes twice its size."""
    if name.startswith("hf:"):
        pytest.importorskip("transformers", reason="an optional extra")
    (model,) = catalog.find([name])
    with Allocations() as allocations:
        catalog.prepare(model, 1, "meta", precision)
    assert 1.0 <= allocations.ledger.peak_byte / (parameters * precision.itemsize) < 1.01


@pytest.mark.parametrize(
    ("name", "parameters"), [("regnet_x_400mf", 5_495_976), ("ssdlite320_mobilenet_v3_large", 3_440_060)]
)
def test_a_network_of_16_bits_is_the_same_network(name, parameters):
    """By torchvision's ``num_params``: RegNet computes its widths in floats, and SSDlite's constructor calls a part."""
    (model,) = catalog.find([f"torchvision:{name}"])
    network = catalog.prepare(model, 1, "cpu", torch.bfloat16).network
    assert sum(each.numel() for each in network.parameters()) == parameters
    tensors = [*network.parameters(), *network.buffers()]
    assert {each.dtype for each in tensors} == {torch.bfloat16, torch.int64}  # of batch normalisations' counters
