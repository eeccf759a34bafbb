"""Where the meta device and fake tensors can both count a network, they count the same."""

import pytest
from helpers.counting import nn, torch
from helpers.places import ROOT

from measure.cache import table
from measure.cache.schema import file_of
from measure.cache.workload_records import PublishedCount
from measure.counting.count import count_network
from measure.domain.models import BUILT_IN
from measure.models import catalog
from measure.models.call import Call, casting, copy_to_meta, empty_inputs


def counts_of(call, fake):
    with torch.random.fork_rng(), casting(call.network, "fp32", None, fake=fake) as (device, dtype):
        torch.manual_seed(0)  # a network may drop layers at random
        return count_network(call.network, empty_inputs(call, device, dtype).inputs)[0]


def smallest_of_families():
    """Names of timm's networks, the smallest of each of the 50 families with the smallest ones."""
    rows = [row for row in table.read(file_of(PublishedCount, ROOT / "data"), PublishedCount) if row.parameter_count]
    smallest = {}
    for row in sorted(rows, key=lambda row: row.parameter_count):
        if row.model.startswith("timm:"):
            smallest.setdefault(row.family, row.model)
    return list(smallest.values())[:50]


# A view of a whole tensor that is written in place: autograd copies the gradient by strides, but replays the view
# under a mode of torch such as that of fake tensors.
REPLAYED = {"timm:ghostnet_050": 0.04}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*(model.name for model in BUILT_IN), *smallest_of_families()])
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


class Shifted(nn.Module):
    """Adds numbers that it makes on the processor in each call."""

    def forward(self, inputs):
        return inputs + torch.arange(1000.0, device="cpu").to(inputs.device)


def test_a_constant_that_moves_to_the_device_is_no_traffic():
    call = Call(Shifted(), (torch.ones(2, 1000),))
    for fake in (False, True):
        # 1,000 numbers are made; the addition reads them and 2,000 others, and writes 2,000.
        assert counts_of(copy_to_meta(call, fake), fake)["traffic_byte"] == 4 * (1000 + 1000 + 2000 + 2000)


@pytest.mark.parametrize(
    "overflows",
    [lambda value: not torch.isfinite(value).all(), lambda value: torch.isinf(value).any() or value.isnan().any()],
)
def test_a_guard_against_overflow_finds_none(overflows):
    """As in DETR's layers: a product of 2 x 3 by 3 x 4, and none of the guarded branch's 2 x 4 products by 4."""

    class Guarded(nn.Linear):
        def forward(self, value):
            output = super().forward(value)
            return output @ torch.ones(4, 4) if overflows(output) else output

    call = copy_to_meta(Call(Guarded(3, 4, bias=False), (torch.ones(2, 3),)))
    assert counts_of(call, fake=True)["forward_flop"] == 2 * 2 * 3 * 4
