import pytest
import torch
from torch import nn
from torchvision import models

from measure.counting.blocks import part_of_modules


def block_types(network):
    parts = dict.fromkeys(part_of_modules(network).values())
    return [part.type for part in parts if part.is_block]


@pytest.mark.parametrize(
    ("build", "blocks"),
    [
        # The blocks of each stage, as the papers' tables print them.
        (models.resnet18, ["BasicBlock"] * (2 + 2 + 2 + 2)),
        (models.resnet50, ["Bottleneck"] * (3 + 4 + 6 + 3)),
        (models.densenet121, ["_DenseLayer"] * (6 + 12 + 24 + 16)),
        (models.mobilenet_v2, ["InvertedResidual"] * (1 + 2 + 3 + 4 + 3 + 3 + 1)),
        (models.vit_b_16, ["EncoderBlock"] * 12),
        (models.swin_t, ["SwinTransformerBlock"] * (2 + 2 + 6 + 2)),  # and a merging of patches between the stages
    ],
)
def test_blocks_are_those_of_the_papers(build, blocks):
    with torch.device("meta"):
        assert [each for each in block_types(build()) if each != "PatchMerging"] == blocks


def test_an_encoder_and_a_decoder_are_no_blocks_but_their_layers_are():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = (nn.TransformerEncoder(layer(), 3, enable_nested_tensor=False) for _ in "ab")

    def layer():
        return nn.TransformerEncoderLayer(8, 2, 8)

    assert block_types(Pair()) == ["TransformerEncoderLayer"] * 6


def test_one_of_a_kind_in_a_list_is_not_repeated():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.listed = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 8))
            self.apart = nn.TransformerEncoderLayer(8, 2, 8)

    assert block_types(Pair()) == ["TransformerEncoderLayer"] * 2  # the outermost modules: none is repeated


def test_a_network_without_repeated_modules_has_its_layers_as_blocks():
    layers = nn.Linear(3, 5), nn.Sequential(nn.ReLU(), nn.Linear(5, 2))
    assert block_types(nn.Sequential(*layers)) == ["Linear", "ReLU", "Linear"]


def test_the_rest_is_in_parts_around_the_blocks():
    with torch.device("meta"):
        network = models.resnet18()
    parts = part_of_modules(network)
    assert parts[network.layer2[0].conv1].path == "layer2.0"
    assert parts[network.fc].path == "fc"
    assert (parts[network.layer2].path, parts[network].path) == ("layer2", ".")
