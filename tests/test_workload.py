import pytest

from measure import catalog, workload

torch = pytest.importorskip("torch", reason="counting needs torch")
torchvision = pytest.importorskip("torchvision", reason="counting needs torchvision")

# Those whose published count was made at 224 x 224 (inception_v3: 299), as here, and without auxiliary heads.
SAME_SIZE = [
    model
    for model in catalog.BUILT_IN
    if model.source == "torchvision" and model.name not in ("efficientnet_b7", "fcn_resnet50")
]


@pytest.mark.parametrize("model", SAME_SIZE, ids=lambda model: model.name)
def test_flop_are_twice_the_multiply_adds_that_torchvision_publishes(model):
    published = next(iter(torchvision.models.get_model_weights(model.name))).meta[
        "_ops"
    ]  # in units of 1e9 MAC
    assert workload.count(model, 1).forward_flop / 2e9 == pytest.approx(published, abs=0.0006)


def test_flop_of_the_others_at_their_own_sizes():
    b7 = catalog.Model("efficientnet_b7", "torchvision", "compact", (3, 600, 600))
    assert workload.count(b7, 1).forward_flop / 2e9 == pytest.approx(37.746, abs=0.0006)
    # The published 152.717e9 MAC of FCN include the auxiliary head, which does not run here. At 520 x 520 its input
    # is 1024 maps of 65 x 65: a 3 x 3 convolution to 256 maps and a 1 x 1 convolution to 21,
    # 65 * 65 * (1024 * 256 * 9 + 256 * 21) = 9.990739e9 MAC.
    fcn = catalog.Model("fcn_resnet50", "torchvision", "segmentation", (3, 520, 520))
    assert workload.count(fcn, 1).forward_flop / 2e9 == pytest.approx(152.717 - 9.990739, abs=0.0006)


def test_alexnet_by_hand():
    row = workload.count(catalog.find(["alexnet"])[0], 2)
    assert row.parameter_byte == 4 * 61_100_840
    assert row.input_byte == 2 * 3 * 224 * 224 * 4
    assert row.output_byte == 2 * 1000 * 4
    assert row.input_shape == "3x224x224"
    # Outputs of leaf modules for one image, ReLU in place: convolutions 64*55*55, 192*27*27, 384*13*13, 256*13*13,
    # 256*13*13; pools 64*27*27, 192*13*13, 256*6*6; adaptive pool 256*6*6; dropout returns its input in eval mode;
    # linear 4096, 4096, 1000.
    convolutions = 64 * 55 * 55 + 192 * 27 * 27 + (384 + 256 + 256) * 13 * 13
    pools = 64 * 27 * 27 + 192 * 13 * 13 + 256 * 6 * 6
    linears = 4096 + 4096 + 1000
    own_pool = 256 * 6 * 6
    assert row.activation_byte == 2 * 4 * (convolutions + pools + own_pool + linears)


def test_work_grows_with_the_batch_and_parameters_do_not():
    model = catalog.find(["squeezenet1_0"])[0]
    one, eight = workload.count(model, 1), workload.count(model, 8)
    assert eight.forward_flop == 8 * one.forward_flop
    assert eight.activation_byte == 8 * one.activation_byte
    assert eight.parameter_byte == one.parameter_byte


def test_attention_is_counted_though_eval_mode_would_fuse_it():
    # facts of ViT-B/16: 17.564e9 MAC published; the fused path would leave 11.3e9.
    assert torch.backends.mha.get_fastpath_enabled()
    row = workload.count(catalog.find(["vit_b_16"])[0], 1)
    assert row.forward_flop / 2e9 == pytest.approx(17.564, abs=0.0006)
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_module_that_runs_no_other_is_a_leaf_and_a_storage_counts_once():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
            self.relu = torch.nn.ReLU(inplace=True)

        def forward(self, tokens):
            mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
            return self.relu(mixed)

    network = Attention().eval()
    outputs = workload.LeafOutputs(network)
    with torch.no_grad():
        network(torch.zeros(3, 5, 8))
    assert outputs.byte == 3 * 5 * 8 * 4  # the attention's output; ReLU wrote into it


def test_tensors_are_found_in_nested_outputs():
    a, b = torch.zeros(1), torch.zeros(2)
    assert [t.numel() for t in workload.tensors_in({"x": [a, (b, None)], "y": 3})] == [1, 2]
