import pytest

from measure.models import catalog

torch = pytest.importorskip("torch", reason="building models needs torch")
torchvision = pytest.importorskip("torchvision", reason="building models needs torchvision")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402
from torchvision import models  # noqa: E402

ALL = {model.name: model for model in catalog.find(["torchvision:*"], native_size=True)}
MODULES = (models, models.segmentation, models.detection, models.video, models.optical_flow)


def found(name):
    (model,) = catalog.find([f"torchvision:{name}"])
    return model


def test_every_model_of_the_five_kinds_is_offered_in_a_family():
    assert sorted(ALL) == sorted(name for module in MODULES for name in models.list_models(module))
    assert "other" not in {model.family for model in ALL.values()}


# Of each way to build a network: positions, frozen normalisation, a backbone without weights. All classification models
# are built by test_count_models.
BUILT = [
    "vit_b_32", "lraspp_mobilenet_v3_large", "fasterrcnn_mobilenet_v3_large_fpn", "fcos_resnet50_fpn", "mvit_v2_s",
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
        ("wide_resnet50_2", "residual", (3, 224, 224)),
        ("inception_v3", "inception", (3, 299, 299)),
        ("efficientnet_b7", "compact", (3, 600, 600)),
        ("vgg11", "plain", (3, 224, 224)),
        ("vit_h_14", "transformer", (3, 518, 518)),
        ("swin_v2_t", "transformer", (3, 256, 256)),
        ("deeplabv3_resnet101", "segmentation", (3, 520, 520)),
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raft_small", "r3d_18", "s3d", "swin3d_t", "mvit_v1_b"])
def test_the_sizes_of_video_and_optical_flow_are_those_that_torchvision_counts_at(name):
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        catalog.build_on_meta(found(name)).train()(*catalog.make_inputs(found(name), 1, "meta"))
    published = models.get_model_weights(name).DEFAULT.meta["_ops"]  # in multiply-adds, 2 FLOP each
    assert counter.get_total_flops() / 2e9 == pytest.approx(published, abs=0.001)


@pytest.mark.parametrize(
    ("name", "of_the_head", "shape"),
    # The heads of FCN, DeepLab and Inception have two convolutions; GoogLeNet's published parameters have no head.
    # Segmentation has the 20 classes of PASCAL VOC and the background.
    [
        ("fcn_resnet50", 2, (2, 21, 224, 224)),
        pytest.param("deeplabv3_mobilenet_v3_large", 2, (2, 21, 224, 224), marks=pytest.mark.slow),
        ("inception_v3", 2, (2, 1000)),
        ("googlenet", 0, (2, 1000)),
    ],
)
def test_auxiliary_heads_keep_their_parameters_and_never_run(name, of_the_head, shape):
    model = found(name)
    network = catalog.build_on_meta(model)
    ran, convolutions = [], 0
    for path, module in network.named_modules():
        if path.startswith("auxiliary_head"):
            convolutions += isinstance(module, torch.nn.Conv2d)
            module.register_forward_hook(lambda *_: ran.append(1))
    assert convolutions == of_the_head
    for training in (False, True):
        with torch.no_grad():
            result = network.train(training)(*catalog.make_inputs(model, 2, "meta"))
        (output,) = result.values() if model.family == "segmentation" else [result]
        assert output.shape == shape
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
