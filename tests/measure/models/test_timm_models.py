import pytest

from measure.errors import UserError
from measure.models import catalog

torch = pytest.importorskip("torch", reason="building models needs torch")
pytest.importorskip("timm", reason="timm is an extra")


@pytest.mark.parametrize("native_size", [False, True])
def test_a_model_has_its_own_input_size(native_size):
    (model,) = catalog.find(["timm:inception_v4"], native_size)
    assert model.input_shape == (3, 299, 299)  # Szegedy et al. 2016: Inception-v4 takes 299 x 299
    network = catalog.build_on_meta(model)
    with torch.no_grad():
        assert network(*catalog.make_inputs(model, 2, "meta")).shape == (2, 1000)


def test_names_may_carry_a_tag_or_be_globs_and_stay_apart_from_torchvisions():
    names = [model.name for model in catalog.find(["timm:resnet50.a1_in1k", "timm:vgg1?", "vgg11"])]
    assert names == ["vgg11", "timm:resnet50.a1_in1k", "timm:vgg11", "timm:vgg13", "timm:vgg16", "timm:vgg19"]


def test_a_network_that_reads_its_drop_rates_is_built_on_meta():
    (model,) = catalog.find(["timm:vit_tiny_patch16_224"])
    parameters = list(catalog.build_on_meta(model).parameters())
    assert all(parameter.is_meta for parameter in parameters)
    # 192 wide, 12 blocks, 196 patches of 16 x 16 and a class token. A block: norms 2 x 384, qkv 192 x 576 + 576,
    # projection 192 x 192 + 192, perceptron 192 x 768 + 768 + 768 x 192 + 192: 444,864 in all.
    ends = (16 * 16 * 3 * 192 + 192) + 192 + 197 * 192 + 384 + (192 * 1000 + 1000)
    assert sum(parameter.numel() for parameter in parameters) == 12 * 444_864 + ends


def test_an_unknown_model_is_answered_with_the_nearest_names():
    with pytest.raises(UserError, match="timm has no model 'resnet19'; the nearest are resnet"):
        catalog.find(["timm:resnet19"])


def test_a_name_of_an_earlier_timm_is_the_model_of_today():
    (model,) = catalog.find(["timm:gluon_inception_v3"])
    assert model.input_shape == (3, 299, 299)  # Szegedy et al. 2016: Inception-v3 takes 299 x 299
    assert sum(each.numel() for each in catalog.build_on_meta(model).parameters()) == 23_834_568  # as timm prints
