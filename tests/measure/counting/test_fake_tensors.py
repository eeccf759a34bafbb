"""Where the meta device and fake tensors can both count a network, they count the same."""

import pytest
from helpers.counting import Own, nn, torch

from measure.counting.count import count_network
from measure.models import catalog
from measure.models.call import Call, casting, copy_to_meta, empty_inputs


def counts_of(call, fake):
    with torch.random.fork_rng(), casting(call.network, "fp32", None, fake=fake) as (device, dtype):
        torch.manual_seed(0)  # a network may drop layers at random
        return count_network(call.network, empty_inputs(call, device, dtype).inputs)[0]


# Small networks, and of timm those of other operators than torchvision's
TORCHVISION = (
    "squeezenet1_0 shufflenet_v2_x1_0 mobilenet_v3_large googlenet densenet121 efficientnet_b0 vit_b_32 swin_t"
)
TIMM = "ghostnet_050 levit_128s crossvit_tiny_240 pit_ti_224 xcit_nano_12_p16_224 gmixer_24_224 botnet26t_256"
NAMES = [*TORCHVISION.split(), "fcn_resnet50", "wav2vec2_base", *(f"timm:{name}" for name in TIMM.split())]

# A view of a whole tensor that is written in place: autograd copies the gradient by strides, but replays the view
# under a mode of torch such as that of fake tensors.
REPLAYED = {"timm:ghostnet_050": 0.04}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_fake_tensors_give_the_counts_of_the_meta_device(name):
    if name.startswith("timm:"):
        pytest.importorskip("timm", reason="its networks are compared too")
    (model,) = catalog.find([name])
    on_meta, faked = (
        counts_of(catalog.prepare_on_meta(model, [2], keep_constants=fake)[0], fake) for fake in (False, True)
    )
    # torch fills slices by a copy on meta and by a fill elsewhere, which reads 4 B less.
    for column, value in on_meta.items():
        is_close = column.endswith("traffic_byte") and value is not None
        close = pytest.approx(value, rel=REPLAYED.get(name, 1e-4)) if is_close else value
        assert faked[column] == close, column


@pytest.mark.parametrize("fake", [False, True])
def test_a_constant_that_moves_to_the_device_is_no_traffic(fake):
    shifted = Own(lambda _self, inputs: inputs + torch.arange(1000.0, device="cpu").to(inputs.device))
    call = copy_to_meta(Call(shifted, (torch.ones(2, 1000),)), fake)
    # 1,000 numbers are made; the addition reads them and 2,000 others, and writes 2,000.
    assert counts_of(call, fake)["traffic_byte"] == 4 * (1000 + 1000 + 2000 + 2000)


@pytest.mark.parametrize(
    "overflows",
    [lambda value: not torch.isfinite(value).all(), lambda value: torch.isinf(value).any() or value.isnan().any()],
)
def test_a_guard_against_overflow_finds_none(overflows):
    """As in DETR's layers: a product of 2 x 3 by 3 x 4, and none of the guarded branch's 2 x 4 products by 4."""

    def guarded(self, value):
        output = self.linear(value)
        return output @ torch.ones(4, 4) if overflows(output) else output

    call = copy_to_meta(Call(Own(guarded, linear=nn.Linear(3, 4)), (torch.ones(2, 3),)))
    assert counts_of(call, fake=True)["forward_flop"] == 2 * 2 * 3 * 4
