import pytest

from measure.models import catalog
from measure.models.libraries import RECIPES, TRANSFORMERS

torch = pytest.importorskip("torch", reason="building models needs torch")
torchaudio = pytest.importorskip("torchaudio", reason="the audio models need torchaudio")

# WaveRNN takes a second for each 200 steps on the meta device; the others look at numbers, which it has none of. 2 is
# the batch.
SHAPES_ON_CPU = {
    # 104 frames, of which 4 are padding, four in one by time reduction: 25; 20 symbols; 4097 scores
    "emformer_rnnt_base": (2, 25, 20, 4097),
    "Tacotron2": (2, 80, 86),  # 22050 / 256 = 86 frames of 80 mel bands
    "WaveRNN": (2, 1, 1000, 512),  # scores of 512 classes for each sample
    "hdemucs_low": (2, 4, 2, 8000),  # four sources in stereo
    "hdemucs_medium": (2, 4, 2, 16000),
    "hdemucs_high": (2, 4, 2, 44100),
}
FAST = ("wav2vec2_base", "Wav2Letter", "conv_tasnet_base")
ON_META = [
    pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in RECIPES if name not in SHAPES_ON_CPU
]


def found(name):
    (model,) = catalog.find([f"torchaudio:{name}"])
    return model


def test_every_factory_of_torchaudio_is_offered_or_left_out_for_a_reason():
    reasons = ("_model", "Model", "pretrain_base", "pretrain_large", "pretrain_xlarge", "RNNTBeamSearch")
    sizeless = {"Conformer", "Emformer", "RNNT", "Hypothesis"}
    behind_factories = {"ConvTasNet", "HDemucs", "SquimObjective", "SquimSubjective"}
    offered = {name for name in torchaudio.models.__all__ if not name.endswith(reasons)}
    assert set(RECIPES) == offered - sizeless - behind_factories


@pytest.mark.parametrize("name", ON_META)
def test_networks_take_their_inputs_on_meta(name):
    model = found(name)
    network = catalog.build_on_meta(model)
    assert all(tensor.is_meta for tensor in [*network.parameters(), *network.buffers()])
    for training in (False, True):
        with torch.no_grad():
            result = network.train(training)(*catalog.make_inputs(model, 2, "meta"))
        outputs = result if isinstance(result, (tuple, list)) else [result]
        assert {output.shape[0] for output in outputs if output is not None} == {2}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES_ON_CPU)
def test_networks_take_their_inputs_on_the_cpu(name):
    model = found(name)
    with torch.no_grad():
        result = catalog.build(model)(*catalog.make_inputs(model, 2, "cpu"))
    assert tuple((result[0] if isinstance(result, tuple) else result).shape) == SHAPES_ON_CPU[name]


@pytest.mark.parametrize(
    ("name", "million"),
    [
        # Baevski et al. 2020 (wav2vec 2.0): BASE and LARGE have 95 and 317 million parameters.
        ("wav2vec2_base", 95),
        ("wav2vec2_large", 317),
        # Babu et al. 2021 (XLS-R), the size called 2B.
        ("wav2vec2_xlsr_2b", 2162),
        # Hsu et al. 2021 (HuBERT), BASE and X-LARGE.
        ("hubert_base", 95),
        ("hubert_xlarge", 964),
        # Luo and Mesgarani 2019 (Conv-TasNet): 5.1 million for the best model.
        ("conv_tasnet_base", 5.1),
    ],
)
def test_parameters_are_those_of_the_papers(name, million):
    network = catalog.build_on_meta(found(name))
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count / 1e6 == pytest.approx(million, rel=0.025)  # the papers' include the head of pre-training
    if name in TRANSFORMERS:
        assert network.encoder.transformer.layer_drop == 0  # no layer is left out in training


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("wavlm_base", [(3, 16000)]),
        ("squim_subjective_base", [(3, 16000), (3, 16000)]),
        ("WaveRNN", [(3, 1, 1000), (3, 1, 128, 9)]),  # (9 - 5 + 1) frames of 200 samples
        ("Tacotron2", [(3, 20), (3,), (3, 80, 86), (3,)]),
    ],
)
def test_inputs_besides_the_sound(name, shapes):
    assert [tuple(value.shape) for value in catalog.make_inputs(found(name), 3, "meta")] == shapes
