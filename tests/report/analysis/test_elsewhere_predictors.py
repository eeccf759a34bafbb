from helpers.elsewhere_papers import timed_elsewhere

from report.analysis.elsewhere_predictors import BOUND, OWN, orders


def test_orders():
    found = {(order.device, order.computed, order.predictor): order.coefficient for order in orders(timed_elsewhere())}
    # Our processor: lean, broad, tokens, deep; elsewhere lean, tokens, broad, deep: 1 - 6 (1 + 1) / (4 (16 - 1)) = 0.8
    own = found["Bead 2", "fp16", OWN]
    assert (round(own.value, 6), own.models) == (0.8, 4)
    assert ("Cog 3", "fp16", OWN) not in found
    # All models ask for as much as their number; on Cog 3 each elm takes longer than each oak, in their order
    assert found["Cog 3", "fp16", "FLOP"].models == 24
    assert found["Cog 3", "fp16", BOUND.name].value == found["Cog 3", "fp16", "FLOP"].value
    assert ("Cog 3", "fp16", "parameters") not in found  # all have as many
