import subprocess
import sys

import pytest

from measure.domain.models import BUILT_IN, QUICK, STORY
from measure.errors import UserError
from measure.models import catalog

pytest.importorskip("torchvision", reason="building models needs torchvision")


def test_networks_are_built_for_inference():
    assert not catalog.build_on_meta(catalog.find(["alexnet"])[0]).training


def test_globs_select_in_the_catalogs_order_and_once():
    names = [model.name for model in catalog.find(["vgg1?", "alexnet", "vgg11"])]
    assert names == ["alexnet", "vgg11", "vgg16", "vgg19"]


def test_names_are_unique_and_the_quick_ones_known():
    names = [model.name for model in BUILT_IN]
    assert len(set(names)) == len(names)
    assert set(QUICK) <= set(names)
    assert set(STORY) <= set(QUICK)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("resnet19", "the nearest are resnet18"), ("xyzzy*", "--list shows them all"), ("MobileNet", "mobilenet_v2")],
)
def test_an_unknown_model_is_answered_with_the_nearest_names(name, hint):
    with pytest.raises(UserError) as caught:
        catalog.find(["alexnet", name])
    assert repr(name) in str(caught.value)
    assert hint in str(caught.value)


def test_a_prefix_selects_in_a_whole_library_and_keeps_the_built_in_models():
    models = catalog.find(["torchvision:resnet*", "resnet18", "torchaudio:wav2vec2_*", "torchvision:inception_v3"])
    names = [model.name for model in models]
    assert len(set(names)) == len(names)
    built_in = ["resnet18", "resnet50", "inception_v3", "wav2vec2_base"]
    assert names[:4] == built_in
    assert all(model in BUILT_IN for model in models[:4])
    assert {"resnet34", "resnet101", "resnet152", "wav2vec2_xlsr_1b"} <= set(names[4:])
    assert "resnext50_32x4d" not in names
    assert {model.source for model in models} == {"torchvision", "torchaudio"}


def test_a_built_in_model_has_a_native_size_as_well():
    shapes = {model.name: model.input_shape for model in catalog.find(["*"], native_size=True)}
    assert list(shapes) == [model.name for model in BUILT_IN]
    assert shapes["efficientnet_b7"] == (3, 600, 600)  # Tan and Le 2019: B7 takes 600 x 600
    assert shapes["fcn_resnet50"] == (3, 520, 520)
    assert shapes["wav2vec2_base"] == (16000,)


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("torchvision:resnet102", "torchvision has no model 'resnet102'; the nearest are .*resnet101"),
        ("torchvision:ResNet101", "torchvision has no model 'ResNet101'; the nearest are .*resnet101"),
        ("torchvision:xyzzy*", "python -m measure --models 'torchvision:\\*' --plan shows them all"),
        ("torchaudio:deepspeech", "torchaudio has no model 'deepspeech'; the nearest are DeepSpeech"),
        ("fastai:resnet18", "there is no module fastai for fastai:resnet18, nor a library of models"),
    ],
)
def test_an_unknown_name_in_a_library_is_answered_in_one_sentence(pattern, sentence):
    with pytest.raises(UserError, match=sentence):
        catalog.find([pattern])


@pytest.mark.parametrize(
    ("source", "package", "extra"),
    [("torchaudio", "torchaudio", "measure"), ("timm", "timm", "timm"), ("hf", "transformers", "hf")],
)
def test_a_library_that_is_missing_is_named_with_the_extra_that_brings_it(source, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"models of {source} need {package}; .* 'roofwright\[{extra}\]'"):
        catalog.find([f"{source}:*"])


def test_naming_built_in_models_imports_no_torch():
    code = "import sys; from measure.models import catalog; catalog.find(['resnet*']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_models_of_libraries_and_of_ones_own_stand_beside_one_another():
    models = catalog.find(["examples.transformer:pair", "torchvision:resnet34", "vgg1?"])
    names = ["vgg11", "vgg16", "vgg19", "examples.transformer:pair", "resnet34"]
    assert [model.name for model in models] == names
    assert catalog.find(["examples.transformer:pair"], native_size=True) == [models[3]]


@pytest.mark.parametrize("name", ["resnet18", "examples.transformer:encoder"])
def test_a_network_and_its_inputs_are_on_the_device_and_in_the_type(name):
    torch = pytest.importorskip("torch")
    (model,) = catalog.find([name])
    call = catalog.prepare(model, 3, "cpu", torch.bfloat16)
    assert not call.network.training
    assert {parameter.dtype for parameter in call.network.parameters()} == {torch.bfloat16}
    tensors = [*call.inputs, *call.keywords.values()]
    assert {tensor.shape[0] for tensor in tensors} == {3}
    assert torch.float32 not in {tensor.dtype for tensor in tensors}
    on_meta = catalog.prepare_on_meta(model, [3, 5])
    assert [[*each.inputs, *each.keywords.values()][0].shape[0] for each in on_meta] == [3, 5]
    assert all(parameter.is_meta for each in on_meta for parameter in each.network.parameters())
