import pytest

from measure.cache.models import BUILT_IN, EARLIER_SHAPES, IMAGE, MEASURED_SHAPES, Model
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


def test_a_selector_finds_the_model():
    pytest.importorskip("timm", reason="timm is an extra")
    for name in ("resnet18", "torchaudio:hubert_base", "timm:vgg11", "examples.transformer:pair"):
        (model,) = catalog.find([name])
        assert catalog.find([model.selector]) == [model]


def test_shapes_that_rows_of_an_earlier_version_do_not_name_stay_what_they_were():
    other = {"inception_v3": "3x299x299", "wav2vec2_base": "16000"}
    assert {model.name: other.get(model.name, "3x224x224") for model in BUILT_IN} == EARLIER_SHAPES
    assert MEASURED_SHAPES == EARLIER_SHAPES | {"wav2vec2_base": "160000"}  # 10 s at 16 kHz
