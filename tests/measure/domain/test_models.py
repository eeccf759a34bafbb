import pytest

from measure.domain.models import IMAGE, Model
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
