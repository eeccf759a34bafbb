"""``examples/attention.py``: both kinds compute the same, and a glob selects the grid."""

import pytest
import torch

from examples import attention
from measure.counting.count import count
from measure.errors import UserError
from measure.models import catalog, own_models


def test_both_kinds_are_causal_attention():
    """Against torch's own operator with an explicit mask."""
    torch.manual_seed(0)
    (products, shift), (fused, _) = (getattr(attention, f"{kind}_8_16")(2) for kind in ("products", "fused"))
    fused.load_state_dict(products.state_dict())
    tensors = products.query, products.key, products.value
    mask = torch.ones(16, 16, dtype=torch.bool).tril()
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=mask)
    assert torch.allclose(products(shift), expected, atol=1e-6)
    assert torch.allclose(fused(shift), expected, atol=1e-6)


def test_the_products_are_counted_and_the_scores_are_kept():
    (model,) = catalog.find(["examples.attention:products_16_256"])
    found = count(model, 8).workload
    assert found.forward_flop == 2 * 2 * 8 * 256 * 256 * 16  # two products
    assert found.backward_flop == 2 * found.forward_flop
    assert found.saved_byte > 4 * 8 * 256 * 256  # the softmax keeps its output: fp32, a score for each pair of tokens


def test_a_glob_selects_the_grid_and_any_size_can_be_named():
    assert len(own_models.match("examples.attention:*")) == 2 * 4 * 5
    assert own_models.match("examples.attention:fused_1?_256") == ["examples.attention:fused_16_256"]
    assert own_models.match("examples.transformer:p*") == ["examples.transformer:pair"]
    assert own_models.describe("examples.attention:fused_24_100").input_shape == (1, 24)
    with pytest.raises(UserError, match=r"no function of the module examples.transformer fits 'z\*'; there is encoder"):
        own_models.match("examples.transformer:z*")
    with pytest.raises(UserError, match="has no function 'fused_16'"):
        own_models.describe("examples.attention:fused_16")
