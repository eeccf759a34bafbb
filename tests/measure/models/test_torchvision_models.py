import pytest

from measure.models import catalog

torch = pytest.importorskip("torch", reason="building models needs torch")
torchvision = pytest.importorskip("torchvision", reason="building models needs torchvision")

from torchvision import models  # noqa: E402

ALL = catalog.find(["torchvision:*"], native_size=True)
MODULES = (models, models.segmentation, models.detection, models.video, models.optical_flow)


def test_every_model_of_the_five_kinds_is_offered():
    names = [name for module in MODULES for name in models.list_models(module)]
    assert sorted(model.name for model in ALL) == sorted(names)


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.name)
def test_parameters_are_those_that_torchvision_publishes(model):
    network = catalog.build_on_meta(model)
    published = models.get_model_weights(model.name).DEFAULT.meta["num_params"]
    assert sum(parameter.numel() for parameter in network.parameters()) == published
    assert all(tensor.is_meta for tensor in [*network.parameters(), *network.buffers()])
    assert not network.training


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        # From the tables and the inference transforms of https://docs.pytorch.org/vision/stable/models.html
        ("resnet50", (3, 224, 224)),
        ("inception_v3", (3, 299, 299)),
        ("efficientnet_b7", (3, 600, 600)),
        ("vit_h_14", (3, 518, 518)),
        ("swin_v2_t", (3, 256, 256)),
        ("deeplabv3_resnet101", (3, 520, 520)),
        ("mvit_v2_s", (3, 16, 224, 224)),
        ("r3d_18", (3, 16, 112, 112)),
        ("ssd300_vgg16", (3, 300, 300)),
        ("fasterrcnn_resnet50_fpn", (3, 800, 800)),
    ],
)
def test_native_sizes_are_those_of_the_default_weights(name, shape):
    (model,) = catalog.find([f"torchvision:{name}"], native_size=True)
    assert model.input_shape == shape


@pytest.mark.parametrize("name", ["raft_large", "raft_small", "r3d_18", "s3d", "swin3d_t", "mvit_v1_b"])
def test_the_sizes_of_video_and_optical_flow_are_those_that_torchvision_counts_at(name):
    from torch.utils.flop_counter import FlopCounterMode

    (model,) = catalog.find([f"torchvision:{name}"])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        catalog.build_on_meta(model).train()(*catalog.make_inputs(model, 1, "meta"))
    published = models.get_model_weights(name).DEFAULT.meta["_ops"]  # in multiply-adds, 2 FLOP each
    assert counter.get_total_flops() / 2e9 == pytest.approx(published, abs=0.001)


def test_images_are_224_pixels_wide_unless_the_native_size_is_asked_for():
    shapes = {model.input_shape for model in catalog.find(["torchvision:vit_*", "torchvision:fcn*"])}
    assert shapes == {(3, 224, 224)}


def test_every_model_has_a_family():
    assert {model.family for model in ALL} == {
        *("plain", "residual", "inception", "compact", "transformer"),
        *("segmentation", "detection", "video", "optical flow"),
    }
    families = {model.name: model.family for model in ALL}
    assert families["wide_resnet50_2"] == "residual"
    assert families["swin_v2_b"] == "transformer"
    assert families["swin3d_b"] == "video"
    assert families["fasterrcnn_mobilenet_v3_large_fpn"] == "detection"


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("name", "of_the_head"),
    [("fcn_resnet50", 2), ("deeplabv3_mobilenet_v3_large", 2), ("inception_v3", 2), ("googlenet", 0)],
)
def test_auxiliary_heads_keep_their_parameters_and_never_run(name, of_the_head, training):
    (model,) = catalog.find([f"torchvision:{name}"])
    network = catalog.build_on_meta(model).train(training)
    ran, convolutions = [], 0
    for path, module in network.named_modules():
        if path.startswith("auxiliary_head"):
            convolutions += isinstance(module, torch.nn.Conv2d)
            module.register_forward_hook(lambda *_: ran.append(1))
    # The heads of FCN, DeepLab and Inception have two convolutions; GoogLeNet's published parameters have no head.
    assert convolutions == of_the_head
    with torch.no_grad():
        result = network(*catalog.make_inputs(model, 2, "meta"))
    if model.family == "segmentation":
        assert list(result) == ["out"]
        assert result["out"].shape == (2, 21, 224, 224)  # 20 classes of PASCAL VOC and the background
    else:
        assert result.shape == (2, 1000)
    assert not ran


def test_inputs_are_what_the_networks_take():
    def shapes(name):
        (model,) = catalog.find([f"torchvision:{name}"])
        return [
            [tuple(image.shape) for image in value] if isinstance(value, list) else tuple(value.shape)
            for value in catalog.make_inputs(model, 2, "meta")
        ]

    assert shapes("alexnet") == [(2, 3, 224, 224)]
    assert shapes("r3d_18") == [(2, 3, 16, 112, 112)]
    assert shapes("raft_small") == [(2, 3, 512, 512), (2, 3, 512, 512)]
    assert shapes("ssd300_vgg16") == [[(3, 300, 300), (3, 300, 300)]]


def test_a_detector_finds_as_many_images_as_it_is_given():
    (model,) = catalog.find(["torchvision:ssdlite320_mobilenet_v3_large"])
    with torch.no_grad():
        found = catalog.build(model)(*catalog.make_inputs(model, 2, "cpu"))
    assert len(found) == 2
