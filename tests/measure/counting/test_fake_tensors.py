"""Where the meta device and fake tensors can both count a network, they count the same."""

import pytest
from helpers.counting import torch

from measure.counting.count import count_network
from measure.domain.models import BUILT_IN
from measure.models import catalog
from measure.models.call import casting, empty_inputs

pytest.importorskip("timm", reason="its networks are compared too")
pytestmark = pytest.mark.long
NAMES = [model.name for model in BUILT_IN]
TIMM = catalog.LIBRARIES["timm"].match("*")
SOME = [f"timm:{name}" for name in TIMM[:: len(TIMM) // 50]]


@pytest.mark.parametrize("name", [*NAMES, *SOME])
def test_fake_tensors_give_the_counts_of_the_meta_device(name):
    (model,) = catalog.find([name])
    counts = []
    for fake in (False, True):
        (call,) = catalog.prepare_on_meta(model, [2], keep_constants=fake)
        with torch.random.fork_rng(), casting(call.network, "fp32", None, fake=fake) as (device, dtype):
            torch.manual_seed(0)  # a network may drop layers at random
            inputs = empty_inputs(call, device, dtype).inputs
            counts.append(count_network(call.network, inputs)[0])
    on_meta, faked = counts
    # torch fills slices by a copy on meta and by a fill elsewhere, which reads 4 B less.
    for column, value in on_meta.items():
        is_close = column.endswith("traffic_byte") and value is not None
        assert faked[column] == (pytest.approx(value, rel=1e-3) if is_close else value), column
