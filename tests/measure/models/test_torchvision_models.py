import pytest

from measure.models import catalog

torch = pytest.importorskip("torch", reason="building models needs torch")
torchvision = pytest.importorskip("torchvision", reason="building models needs torchvision")

from torchvision import models  # noqa: E402

ALL = {model.name: model for model in catalog.find(["torchvision:*"], native_size=True)}
MODULES = (models, models.segmentation, models.detection, models.video, models.optical_flow)


def found(name):
    (model,) = catalog.find([f"torchvision:{name}"])
    return model


def test_every_model_of_the_five_kinds_is_offered():
    assert sorted(ALL) == sorted(name for module in MODULES for name in models.list_models(module))


# Of each way to build a network: an auxiliary head, positions, frozen normalisation, a backbone without weights. All
# classification models are built by test_count_models.
BUILT = [
    "googlenet", "inception_v3", "vit_b_32", "swin_v2_t", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large",
    "ssdlite320_mobilenet_v3_large", "fasterrcnn_mobilenet_v3_large_fpn", "keypointrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn_v2", "fcos_resnet50_fpn", "retinanet_resnet50_fpn_v2", "mvit_v2_s", "s3d", "swin3d_t",
    "r2plus1d_18", "raft_small",
]  # fmt: skip


@pytest.mark.parametrize(
    "name", [*BUILT, *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in BUILT)]
)
def test_parameters_are_those_that_torchvision_publishes(name):
    network = catalog.build_on_meta(ALL[name])
    published = models.get_model_weights(name).DEFAULT.meta["num_params"]
    assert sum(parameter.numel() for parameter in network.parameters()) == published
    assert all(tensor.is_meta for tensor in [*network.parameters(), *network.buffers()])
    assert not network.training


@pytest.mark.parametrize(
    ("name", "family", "shape"),
    [
        # From the tables and the inference transforms of https://docs.pytorch.org/vision/stable/models.html
        ("resnet50", "residual", (3, 224, 224)),
        ("wide_resnet50_2", "residual", (3, 224, 224)),
        ("inception_v3", "inception", (3, 299, 299)),
        ("efficientnet_b7", "compact", (3, 600, 600)),
        ("vgg11", "plain", (3, 224, 224)),
        ("vit_h_14", "transformer", (3, 518, 518)),
        ("swin_v2_t", "transformer", (3, 256, 256)),
        ("deeplabv3_resnet101", "segmentation", (3, 520, 520)),
        ("mvit_v2_s", "video", (3, 16, 224, 224)),
        ("r3d_18", "video", (3, 16, 112, 112)),
        ("ssd300_vgg16", "detection", (3, 300, 300)),
        ("fasterrcnn_resnet50_fpn", "detection", (3, 800, 800)),
        ("raft_small", "optical flow", (3, 512, 512)),
    ],
)
def test_families_and_the_sizes_of_the_default_weights(name, family, shape):
    assert (ALL[name].family, ALL[name].input_shape) == (family, shape)
    # Unless the native size is asked for, images are 224 wide; Inception, which is built in, takes 299.
    has_one_size = family in ("inception", "video", "detection", "optical flow")
    assert found(name).input_shape == (shape if has_one_size else (3, 224, 224))


def test_every_model_has_a_family():
    assert "other" not in {model.family for model in ALL.values()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raft_large", "raft_small", "r3d_18", "s3d", "swin3d_t", "mvit_v1_b"])
def test_the_sizes_of_video_and_optical_flow_are_those_that_torchvision_counts_at(name):
    from torch.utils.flop_counter import FlopCounterMode

    model = found(name)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        catalog.build_on_meta(model).train()(*catalog.make_inputs(model, 1, "meta"))
    published = models.get_model_weights(name).DEFAULT.meta["_ops"]  # in multiply-adds, 2 FLOP each
    assert counter.get_total_flops() / 2e9 == pytest.approx(published, abs=0.001)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("name", "of_the_head"),
    [("fcn_resnet50", 2), ("deeplabv3_mobilenet_v3_large", 2), ("inception_v3", 2), ("googlenet", 0)],
)
def test_auxiliary_heads_keep_their_parameters_and_never_run(name, of_the_head, training):
    model = found(name)
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


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("alexnet", [(2, 3, 224, 224)]),
        ("r3d_18", [(2, 3, 16, 112, 112)]),
        ("raft_small", [(2, 3, 512, 512), (2, 3, 512, 512)]),
        ("ssd300_vgg16", [[(3, 300, 300), (3, 300, 300)]]),
    ],
)
def test_inputs_are_what_the_networks_take(name, shapes):
    inputs = catalog.make_inputs(found(name), 2, "meta")
    assert [[each.shape for each in part] if isinstance(part, list) else part.shape for part in inputs] == shapes


@pytest.mark.slow
def test_a_detector_finds_as_many_images_as_it_is_given():
    model = found("ssdlite320_mobilenet_v3_large")
    with torch.no_grad():
        assert len(catalog.build(model)(*catalog.make_inputs(model, 2, "cpu"))) == 2
