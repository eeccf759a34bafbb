"""Networks of transformers and what they take, from stand-ins of configurations: nothing here needs the library."""

import inspect
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from measure.errors import UserError
from measure.models.hugging_face import HuggingFaceTask, _kind, _network, _parse, _task


def config(**settings):
    found = SimpleNamespace(**{"is_encoder_decoder": False, "sub_configs": (), "vocab_size": 50} | settings)
    found.get_text_config = lambda decoder: found
    found.model_type = "net"
    return found


def task(config, main, required=(), optional=(), length=128):
    """A network whose ``forward`` takes the main input, and these by name."""
    kind = inspect.Parameter.KEYWORD_ONLY
    names = [*((name, inspect.Parameter.empty) for name in (main, *required)), *((name, None) for name in optional)]
    parameters = [inspect.Parameter(name, kind, default=default) for name, default in names]

    def forward(*_given):
        raise NotImplementedError

    forward.__signature__ = inspect.Signature(parameters)
    return HuggingFaceTask(config, SimpleNamespace(forward=forward, main_input_name=main, __name__="Net"), "", length)


VISION = SimpleNamespace(image_size=336, num_channels=3, sub_configs=())
SPECTROGRAM = SimpleNamespace(num_mel_bins=64, spec_size=256)


@pytest.mark.parametrize(
    ("task", "shapes"),
    [
        (task(config(), "input_ids", optional=["attention_mask"], length=64), {"input_ids": (64,)}),
        (task(config(), "input_ids", required=["bbox"]), {"input_ids": (128,), "bbox": (128, 4)}),
        # T5 and Whisper: the decoder's tokens too; 30 s are 3000 frames, 2 for each place of the encoder
        (
            task(config(is_encoder_decoder=True), "input_ids", optional=["decoder_input_ids"]),
            {"input_ids": (128,), "decoder_input_ids": (128,)},
        ),
        (
            task(
                config(is_encoder_decoder=True, num_mel_bins=80, max_source_positions=1500), "input_features",
                optional=["decoder_input_ids"],
            ),
            {"input_features": (80, 3000), "decoder_input_ids": (128,)},
        ),
        # BLIP-2 has the argument without an encoder for it
        (task(config(), "input_ids", optional=["decoder_input_ids"]), {"input_ids": (128,)}),
        # Images and videos
        (task(config(), "pixel_values"), {"pixel_values": (3, 224, 224)}),
        (task(config(image_size=(192, 256), num_channels=1), "pixel_values"), {"pixel_values": (1, 192, 256)}),
        (task(config(num_frames=8), "pixel_values"), {"pixel_values": (8, 3, 224, 224)}),
        (task(config(), "pixel_values_videos"), {"pixel_values_videos": (16, 3, 224, 224)}),
        (task(config(scaled_images_ratios=[0.25, 0.5, 1], patch_size=384), "pixel_values"),
         {"pixel_values": (3, 1536, 1536)}),
        # CLIP takes both; LLaVA a text alone
        (
            task(config(vision_config=VISION), "input_ids", optional=["pixel_values"]),
            {"input_ids": (128,), "pixel_values": (3, 336, 336)},
        ),
        (task(config(vision_config=VISION, image_token_id=7), "input_ids", optional=["pixel_values"]),
         {"input_ids": (128,)}),
        # A second of sound at 16 kHz, or frames of 10 ms; CLAP folds 256 x 256 / 64 frames
        (task(config(), "input_values"), {"input_values": (16000,)}),
        (task(config(audio_channels=2), "input_values"), {"input_values": (2, 16000)}),
        (task(config(num_mel_bins=128, max_length=1024), "input_values"), {"input_values": (1024, 128)}),
        (task(config(), "input_features"), {"input_features": (100, 80)}),
        (task(config(input_feat_per_channel=40), "input_features"), {"input_features": (100, 40)}),
        (
            task(config(audio_config=SPECTROGRAM), "input_ids", optional=["input_features", "return_loss"]),
            {"input_ids": (128,), "input_features": (1, 1024, 64)},
        ),
        # A series of 7 channels, 512 steps long
        (task(config(context_length=512, num_input_channels=7), "past_values"), {"past_values": (512, 7)}),
    ],
)  # fmt: skip
def test_shapes_of_inputs_without_the_batch(task, shapes):
    assert task.shapes() == shapes
    made = task.arguments(2, "cpu", torch.float16)
    assert {name: tuple(tensor.shape) for name, tensor in made.items()} == {
        name: (2, *shape) for name, shape in shapes.items()
    }
    is_whole = [name.endswith("input_ids") or name == "bbox" for name in made]
    assert [not tensor.is_floating_point() for tensor in made.values()] == is_whole
    assert all(tensor.min() >= 0 and tensor.max() < 50 for name, tensor in made.items() if "ids" in name)


def test_the_main_input_is_the_first_and_may_have_the_name_of_the_whole_networks():
    part = task(config(), "pixel_values", required=["input_ids"])
    assert list(part.shapes()) == ["pixel_values", "input_ids"]
    part.network.main_input_name = "input_features"
    assert list(part.shapes()) == ["pixel_values", "input_ids"]


def test_other_inputs_and_a_missing_vocabulary_are_one_sentence():
    with pytest.raises(UserError, match=r"^--models: Net takes boxes and masks; write a function"):
        task(config(), "pixel_values", required=["boxes", "masks"]).shapes()
    with pytest.raises(UserError, match=r"^--models: net names no vocabulary; write a function"):
        task(config(vocab_size=None), "input_ids").shapes()


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("gpt2", ("gpt2", None, None)), ("gpt2_decode_512", ("gpt2", "decode", 512)),
        ("a_b/config.json_prefill", ("a_b/config.json", "prefill", None)),
        ("gpt2_decode_0", ("gpt2_decode_0", None, None)), ("net_encode_9999999", ("net", "encode", 9_999_999)),
    ],
)  # fmt: skip
def test_a_name_may_end_in_a_phase_and_a_length(name, parts):
    assert _parse(name) == parts


class Decoder(SimpleNamespace):
    def __init__(self, **settings):
        super().__init__(**vars(config(architectures=[], max_position_embeddings=64, layerdrop=0.1)) | settings)


Bert, Translator, Autoencoder, Vision, Clip = (type(name, (Decoder,), {}) for name in "btavc")
SEES, READS = SimpleNamespace(main_input_name="pixel_values"), SimpleNamespace(main_input_name="input_ids")
MAPPINGS = {
    "MODEL_FOR_CAUSAL_LM_MAPPING": {Decoder: ("net", "another"), Bert: "bert"},
    "MODEL_FOR_MASKED_LM_MAPPING": {Bert: "bert"},
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING": {}, "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING": {},
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING": {Translator: "translator"},
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING": {Vision: "vision", Clip: "clip"},
    "MODEL_MAPPING": {Decoder: "base", Vision: SEES, Clip: READS},
}  # fmt: skip
AUTO = SimpleNamespace(
    configuration_auto=SimpleNamespace(CONFIG_MAPPING_NAMES=["net", "vision"]),
    modeling_auto=SimpleNamespace(**MAPPINGS),
)
CONFIGURATIONS = {"net": Decoder, "vision": Vision}
API = type("Api", (), {"models": SimpleNamespace(auto=AUTO), "CONFIG_MAPPING": CONFIGURATIONS, "Own": "own"} | MAPPINGS)


@pytest.mark.parametrize(
    ("kind", "is_pair", "task"),
    [
        (Decoder, False, "decodes"), (Bert, False, "encodes"),  # in both mappings
        (Translator, True, "translates"), (Autoencoder, True, "encodes"),
        (Vision, False, "classifies"), (Clip, False, "encodes"),  # its main input is a text
    ],
)  # fmt: skip
def test_a_configuration_has_the_task_of_its_networks(kind, is_pair, task):
    assert _kind(API, kind(is_encoder_decoder=is_pair)) == task


def test_the_named_network_goes_before_one_with_a_head_before_any(monkeypatch):
    head = ("MODEL_FOR_CAUSAL_LM_MAPPING",)
    assert _network(API, Decoder(architectures=["Missing", "Own"]), head) == "own"
    assert _network(API, Decoder(), head) == "net"  # the first of two
    assert _network(API, Decoder(), ()) == "base"
    # A part of another network is in no mapping, but in the module of its configuration
    part = type("Part", (Decoder,), {"__module__": "configuration_part"})
    module = ModuleType("modeling_part")
    for name, of in (("PartModel", part), ("Layer", None), ("PartPreTrainedModel", part)):
        setattr(module, name, type(name, (), {"config_class": of}))
    monkeypatch.setitem(sys.modules, "modeling_part", module)
    assert _network(API, part(), ()) is module.PartModel
    assert _network(API, Autoencoder(), ()) is None


def test_a_task_has_a_phase_and_a_length_that_the_network_can():
    prefill, decode = _task(API, "net"), _task(API, "net_decode_63")
    assert (prefill.phase, prefill.length, decode.phase, decode.length) == ("prefill", 64, "decode", 63)
    assert (prefill.config.use_cache, prefill.config.layerdrop, prefill.network) == (False, 0.0, "net")
    assert (_task(API, "vision").phase, _task(API, "vision").network) == ("encode", "vision")
    for name, words in (
        ("net_decode_64", "net takes 64 tokens at most, not the 65 of net_decode_64; name fewer"),
        ("net_encode", "net cannot encode; its networks prefill or decode"),
        ("nets", "model_type in nets"),
    ):
        with pytest.raises(UserError) as caught:
            _task(API, name)
        assert words in str(caught.value)
