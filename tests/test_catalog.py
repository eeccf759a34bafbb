import pytest

from measure import catalog
from measure.errors import UserError

torch = pytest.importorskip("torch", reason="building models needs torch")
torchvision = pytest.importorskip("torchvision", reason="building models needs torchvision")

PUBLISHED = [model for model in catalog.BUILT_IN if model.source == "torchvision"]


@pytest.mark.parametrize("model", PUBLISHED, ids=lambda model: model.name)
def test_parameters_are_those_that_torchvision_publishes(model):
    published = next(iter(torchvision.models.get_model_weights(model.name))).meta["num_params"]
    network = catalog.build_on_meta(model)
    assert sum(parameter.numel() for parameter in network.parameters()) == published


def test_wav2vec2_has_the_parameters_of_its_paper():
    # Baevski et al. 2020, table 2 and section 4.2: the base model has 95 million parameters.
    pytest.importorskip("torchaudio", reason="the audio model needs torchaudio")
    network = catalog.build_on_meta(catalog.find(["wav2vec2_base"])[0])
    assert round(sum(parameter.numel() for parameter in network.parameters()) / 1e6) in (94, 95)


def test_networks_are_built_for_inference():
    assert not catalog.build_on_meta(catalog.find(["alexnet"])[0]).training


def test_the_auxiliary_head_of_a_segmentation_network_never_runs():
    network = catalog.build_on_meta(catalog.find(["fcn_resnet50"])[0])
    ran = []
    heads = [module for name, module in network.named_modules() if "aux_classifier" in name]
    assert heads
    for head in heads:
        head.register_forward_hook(lambda *_: ran.append(1))
    with torch.no_grad():
        scores = network(torch.empty(1, 3, 64, 96, device="meta"))["out"]
    assert scores.shape == (1, 21, 64, 96)  # 20 classes of PASCAL VOC and the background
    assert not ran


def test_globs_select_in_the_catalogs_order_and_once():
    names = [model.name for model in catalog.find(["vgg1?", "alexnet", "vgg11"])]
    assert names == ["alexnet", "vgg11", "vgg16", "vgg19"]


def test_names_are_unique_and_the_quick_ones_known():
    names = [model.name for model in catalog.BUILT_IN]
    assert len(set(names)) == len(names)
    assert set(catalog.QUICK) <= set(names)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet19", "the nearest are resnet18"),
        ("xyzzy*", "--list shows them all"),
        ("MobileNet", "mobilenet_v2"),
    ],
)
def test_an_unknown_model_is_answered_with_the_nearest_names(name, hint):
    with pytest.raises(UserError) as caught:
        catalog.find(["alexnet", name])
    assert repr(name) in str(caught.value)
    assert hint in str(caught.value)


def test_a_timm_model_has_its_own_input_size():
    pytest.importorskip("timm", reason="timm is an extra")
    (model,) = catalog.find(["timm:inception_v4"])
    assert model.input_shape == (3, 299, 299)  # Szegedy et al. 2016: Inception-v4 takes 299 x 299
    network = catalog.build_on_meta(model)
    with torch.no_grad():
        assert network(*catalog.make_inputs(model, 2, "meta")).shape == (2, 1000)


def test_an_unknown_timm_model_is_answered_with_the_nearest_names():
    pytest.importorskip("timm", reason="timm is an extra")
    with pytest.raises(UserError, match="timm has no model 'resnet19'; the nearest are resnet"):
        catalog.find(["timm:resnet19"])
