"""Models of libraries: their names, their published parameters and sizes, and their inputs."""

import subprocess
import sys

import pytest
import torch
import torchaudio
from helpers.places import ROOT
from torchvision import models

from measure.models import catalog
from measure.models.libraries import LENGTHS, RECIPES, TRANSFORMERS, Language

VISION = {model.name: model for model in catalog.find(["torchvision:*"], native_size=True)}
MODULES = (models, models.segmentation, models.detection, models.video, models.optical_flow)


def found(name, native_size=False):
    if name.startswith("timm:"):
        pytest.importorskip("timm", reason="timm is an extra")
    (model,) = catalog.find([name], native_size)
    return model


def slow_but(names, fast):
    return [pytest.param(name, marks=[] if name in fast else pytest.mark.slow) for name in names]


def parameters_of(network):
    assert all(tensor.is_meta for tensor in [*network.parameters(), *network.buffers()])
    assert not network.training
    return sum(parameter.numel() for parameter in network.parameters())


def test_every_model_is_offered_or_left_out_for_a_reason():
    assert sorted(VISION) == sorted(name for module in MODULES for name in models.list_models(module))
    assert "other" not in {model.family for model in VISION.values()}
    reasons = ("_model", "Model", "pretrain_base", "pretrain_large", "pretrain_xlarge", "RNNTBeamSearch")
    sizeless = {"Conformer", "Emformer", "RNNT", "Hypothesis"}
    behind_factories = {"ConvTasNet", "HDemucs", "SquimObjective", "SquimSubjective"}
    offered = {name for name in torchaudio.models.__all__ if not name.endswith(reasons)}
    assert set(RECIPES) == offered - sizeless - behind_factories
    # The usual lengths that a language model takes, or any other in a name
    match = Language().match
    assert match("gpt2_*") == [f"gpt2_{phase}_{length}" for phase in ("prefill", "decode") for length in (128, 512)]
    assert match("llama*_decode_*") == [f"llama_1b_decode_{length}" for length in LENGTHS]
    assert (match("gpt2_prefill_77"), match("gpt4*")) == (["gpt2_prefill_77"], [])


# Of each way to build a network: positions, frozen normalisation, a backbone without weights. The smallest
# classification models of each kind are counted by test_count.
BUILT = (
    "vit_b_32", "lraspp_mobilenet_v3_large", "fasterrcnn_mobilenet_v3_large_fpn", "fcos_resnet50_fpn", "mvit_v2_s",
    "r2plus1d_18", "raft_small",
)  # fmt: skip


@pytest.mark.parametrize("name", slow_but(VISION, BUILT))
def test_torchvisions_networks_have_the_published_parameters(name):
    published = models.get_model_weights(name).DEFAULT.meta["num_params"]
    assert parameters_of(catalog.build_on_meta(VISION[name])) == published


# 192 wide, 12 blocks, 196 patches of 16 x 16 and a class token. A block: norms 2 x 384, qkv 192 x 576 + 576,
# projection 192 x 192 + 192, perceptron 192 x 768 + 768 + 768 x 192 + 192: 444,864 in all.
VIT_TINY = 12 * 444_864 + (16 * 16 * 3 * 192 + 192) + 192 + 197 * 192 + 384 + (192 * 1000 + 1000)


@pytest.mark.parametrize(
    ("name", "shape", "published"),
    [
        ("timm:inception_v4", (3, 299, 299), 42_679_816),  # Szegedy et al. 2016: 299 x 299; as timm prints
        ("timm:gluon_inception_v3", (3, 299, 299), 23_834_568),  # a name of an earlier timm
        ("timm:vit_tiny_patch16_224", (3, 224, 224), VIT_TINY),  # it reads its drop rates
        # Of the weights published as openai-community/gpt2, google-bert/bert-base-uncased, meta-llama/Llama-3.2-1B
        ("language:gpt2_prefill_8", (8,), 124_439_808),
        ("language:bert_base_encode_8", (8,), 109_482_240),
        ("language:llama_1b_decode_8", (1,), 1_235_814_400),
    ],
)
def test_a_network_has_its_own_size_and_published_parameters(name, shape, published):
    model = found(name)
    assert model.input_shape == shape
    network = catalog.build_on_meta(model)
    assert parameters_of(network) == published
    if name.startswith("timm:"):
        with torch.no_grad():
            assert network(*catalog.make_inputs(model, 2, "meta")).shape == (2, 1000)


@pytest.mark.parametrize(
    ("name", "million"),
    [
        # Baevski et al. 2020 (wav2vec 2.0): BASE has 95 million parameters.
        ("wav2vec2_base", 95),
        # Luo and Mesgarani 2019 (Conv-TasNet): 5.1 million for the best model.
        ("conv_tasnet_base", 5.1),
    ],
)
def test_parameters_are_as_in_the_papers(name, million):
    network = catalog.build_on_meta(found(f"torchaudio:{name}"))
    # the papers' include the head of pre-training
    assert parameters_of(network) / 1e6 == pytest.approx(million, rel=0.025)
    if name in TRANSFORMERS:
        assert network.encoder.transformer.layer_drop == 0  # no layer is left out in training


@pytest.mark.parametrize(
    ("name", "family", "shape"),
    [
        # From the tables and the inference transforms of https://docs.pytorch.org/vision/stable/models.html
        ("inception_v3", "inception", (3, 299, 299)),
        ("vgg11", "plain", (3, 224, 224)),
        ("r3d_18", "video", (3, 16, 112, 112)),
        ("ssd300_vgg16", "detection", (3, 300, 300)),
        ("raft_small", "optical flow", (3, 512, 512)),
    ],
)
def test_families_and_the_sizes_of_the_default_weights(name, family, shape):
    assert (VISION[name].family, VISION[name].input_shape) == (family, shape)
    # Unless the native size is asked for, images are 224 wide; Inception, which is built in, takes 299.
    has_one_size = family in ("inception", "video", "detection", "optical flow")
    assert found(f"torchvision:{name}").input_shape == (shape if has_one_size else (3, 224, 224))


@pytest.mark.parametrize(
    ("name", "of_the_head", "shape"),
    # The heads of FCN, DeepLab and Inception have two convolutions; GoogLeNet's published parameters have no head.
    # Segmentation has the 20 classes of PASCAL VOC and the background.
    [("fcn_resnet50", 2, (2, 21, 224, 224)), ("inception_v3", 2, (2, 1000)), ("googlenet", 0, (2, 1000))],
)
def test_auxiliary_heads_keep_their_parameters_and_never_run(name, of_the_head, shape):
    model = found(f"torchvision:{name}")
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
        ("torchvision:alexnet", [(2, 3, 224, 224)]),
        ("torchvision:raft_small", [(2, 3, 512, 512), (2, 3, 512, 512)]),
        ("torchvision:ssd300_vgg16", [[(3, 300, 300), (3, 300, 300)]]),
        ("torchaudio:wavlm_base", [(2, 16000)]),
        # In stereo at 8, 16 and 44.1 kHz; one voice at 8 kHz; 80 bands of 100 frames
        ("torchaudio:hdemucs_low", [(2, 2, 8000)]), ("torchaudio:hdemucs_medium", [(2, 2, 16000)]),
        ("torchaudio:hdemucs_high", [(2, 2, 44100)]), ("torchaudio:conv_tasnet_base", [(2, 1, 8000)]),
        ("torchaudio:DeepSpeech", [(2, 1, 100, 80)]), ("torchaudio:Wav2Letter", [(2, 1, 16000)]),
        ("torchaudio:WaveRNN", [(2, 1, 1000), (2, 1, 128, 9)]),  # (9 - 5 + 1) frames of 200 samples
        ("torchaudio:Tacotron2", [(2, 20), (2,), (2, 80, 86), (2,)]),
        # 16 layers, keys and values, 2 texts, 8 heads of keys, 8 places, 64 numbers
        ("language:llama_1b_decode_7", [(2, 1), (16, 2, 2, 8, 8, 64)]),
    ],
)  # fmt: skip
def test_inputs_have_the_networks_shapes(name, shapes):
    inputs = catalog.make_inputs(found(name), 2, "meta", torch.bfloat16)
    assert [[each.shape for each in part] if isinstance(part, list) else part.shape for part in inputs] == shapes
    tensors = [each for part in inputs for each in (part if isinstance(part, list) else [part])]
    assert all(each.is_meta and each.dtype in (torch.bfloat16, torch.int32, torch.int64) for each in tensors)


# WaveRNN takes a second for each 200 steps on the meta device; the others read numbers, which it does not have. 2 is
# the batch.
SHAPES_ON_CPU = {
    # 104 frames with 4 of padding, four in one by time reduction: 25; 20 symbols; 4097 scores
    "emformer_rnnt_base": (2, 25, 20, 4097),
    "Tacotron2": (2, 80, 86),  # 22050 / 256 = 86 frames of 80 mel bands
    "WaveRNN": (2, 1, 1000, 512),  # scores of 512 classes for each sample
    "hdemucs_low": (2, 4, 2, 8000),  # four sources in stereo
    "hdemucs_medium": (2, 4, 2, 16000),
    "hdemucs_high": (2, 4, 2, 44100),
}


@pytest.mark.parametrize("name", slow_but(RECIPES, ("wav2vec2_base", "conv_tasnet_base")))
def test_networks_of_torchaudio_take_their_inputs(name):
    model = found(f"torchaudio:{name}")
    device = "cpu" if name in SHAPES_ON_CPU else "meta"
    network = catalog.build(model) if name in SHAPES_ON_CPU else catalog.build_on_meta(model)
    for training in (False, True):
        with torch.no_grad():
            result = network.train(training)(*catalog.make_inputs(model, 2, device))
        outputs = result if isinstance(result, (tuple, list)) else [result]
        assert {output.shape[0] for output in outputs if isinstance(output, torch.Tensor)} == {2}
        assert tuple(outputs[0].shape) == SHAPES_ON_CPU.get(name, tuple(outputs[0].shape))


WITHOUT_COMPILER = """
import sys
import torch
from measure.models import libraries

network = libraries.import_package("torchvision").models.resnet18()
network(torch.zeros(1, 3, 64, 64))
print("torch._dynamo" in sys.modules)
from torchvision.ops.roi_align import is_compile_supported as asked
answer = asked("cpu")
print("torch._dynamo" in sys.modules)
from torch._dynamo.utils import is_compile_supported
print(answer == is_compile_supported("cpu"))
"""


def test_torchvision_imports_the_compiler_only_when_it_asks_it():
    """It takes as long as torch itself."""
    command = [sys.executable, "-c", WITHOUT_COMPILER]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "True", "True"]
