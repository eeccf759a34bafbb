import pytest

from measure.models import catalog

torch = pytest.importorskip("torch", reason="building models needs torch")
pytest.importorskip("timm", reason="timm is an extra")


def test_names_may_carry_a_tag_or_be_globs_and_stay_apart_from_torchvisions():
    names = [model.name for model in catalog.find(["timm:resnet50.a1_in1k", "timm:vgg1?", "vgg11"])]
    assert names == ["vgg11", "timm:resnet50.a1_in1k", "timm:vgg11", "timm:vgg13", "timm:vgg16", "timm:vgg19"]


# 192 wide, 12 blocks, 196 patches of 16 x 16 and a class token. A block: norms 2 x 384, qkv 192 x 576 + 576,
# projection 192 x 192 + 192, perceptron 192 x 768 + 768 + 768 x 192 + 192: 444,864 in all.
VIT_TINY = 12 * 444_864 + (16 * 16 * 3 * 192 + 192) + 192 + 197 * 192 + 384 + (192 * 1000 + 1000)


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [
        ("inception_v4", (3, 299, 299), 42_679_816),  # Szegedy et al. 2016: 299 x 299; as timm prints
        ("gluon_inception_v3", (3, 299, 299), 23_834_568),  # a name of an earlier timm
        ("vit_tiny_patch16_224", (3, 224, 224), VIT_TINY),  # it reads its drop rates
    ],
)
def test_a_network_is_built_on_meta_at_its_own_size(name, shape, parameters):
    (model,) = catalog.find([f"timm:{name}"])
    assert model.input_shape == shape
    network = catalog.build_on_meta(model)
    assert all(parameter.is_meta for parameter in network.parameters())
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
    with torch.no_grad():
        assert network(*catalog.make_inputs(model, 2, "meta")).shape == (2, 1000)
