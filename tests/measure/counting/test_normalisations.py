import pytest
from helpers.counting import case, meta, named, torch

# 2 images of 6 channels of 5 places: 60 elements. Batch normalisation shares a mean within a channel (10 elements),
# group normalisation of 3 groups within 2 channels of an image (10 elements: 6 groups), layer normalisation within a
# row of 5 (12 rows).
X, G, SIX, TWELVE = meta(2, 6, 5), meta(2, 6, 5), meta(6), meta(2, 6, 1)
FIVE, GROUPS, WHOLE = meta(5), meta(2, 3), meta(1, dtype=torch.int32)
EVERY = (True, True, True)

STATISTICS = 60 + 3 * 60  # mean: sum and division; variance: differences, squares, sum and division
FOLDED = 6 * (2 + 1 + 2)  # deviation (small constant, inverse root), scale, and shift less the scaled mean
RUNNING = 6 * 2 * 3  # old and new value, two products and an addition
APPLIED = 2 * 60  # product and addition
TRAINED = STATISTICS + FOLDED + APPLIED

# Backward: normalised input (difference, product); sums of g and of g times it, 9 additions for each of 6 channels
SUMS = 2 * 60 + 54 + (60 + 54)
# less both means (divisions), the second times the normalised input, times the folded scale (a product)
THROUGH = 6 * 3 + 4 * 60
CONSTANT = 60 + 6  # in inference g times the folded scale

# Rows of 5: statistics, deviation, one product (the difference is at hand).
ROWS = STATISTICS + 12 * 2 + 60
# Backward: normalised input; gradient h; sums of h and h times the input, 4 additions for each of 12 rows, and their
# means; less both, one a product, times deviation.
ROWS_INPUT = 2 * 60 + (48 + 60 + 48 + 24) + 4 * 60
ROWS_SCALE = 60 + 60 - 5  # products, summed over 12 rows for each of 5
ROWS_SHIFT = 60 - 5
# Groups of 10: 9 additions for each of 6 groups; parameters for each of 6 channels.
GROUPS_INPUT = 2 * 60 + (54 + 60 + 54 + 12) + 4 * 60

TRAIN, STATE = (True, 0.1, 1e-5), (SIX, SIX)
SAVED = (SIX, SIX)


def batch_norm_backwards():
    for name, reserve in (("native_batch_norm_backward", ()), ("batch_norm_backward", (meta(0),))):
        for training, mask, other in [
            (True, EVERY, SUMS + THROUGH),
            (True, (False, True, True), SUMS),
            (False, EVERY, SUMS + CONSTANT),
            (False, (True, False, False), CONSTANT),
            (False, (False, True, True), SUMS),
        ]:
            yield case(name, G, X, SIX, *STATE, *SAVED, training, 1e-5, mask, *reserve, other=other, out=())


def row_backwards():
    for scaled, mask, other in [
        (FIVE, EVERY, ROWS_INPUT + 60 + ROWS_SCALE + ROWS_SHIFT),
        (FIVE, (True, False, False), ROWS_INPUT + 60),
        (None, (True, False, False), ROWS_INPUT),
        (FIVE, (False, True, True), 2 * 60 + ROWS_SCALE + ROWS_SHIFT),
        (FIVE, (False, False, True), ROWS_SHIFT),
    ]:
        yield case("native_layer_norm_backward", G, X, [5], TWELVE, TWELVE, scaled, scaled, mask, other=other)
    sizes = (2, 6, 5, 3)
    parameters = (60 + 60 - 6) + (60 - 6)
    for scaled, mask, other in [
        (SIX, EVERY, GROUPS_INPUT + 60 + parameters),
        (None, (True, False, False), GROUPS_INPUT),
        (SIX, (False, True, True), 2 * 60 + parameters),
    ]:
        yield case("native_group_norm_backward", G, X, GROUPS, GROUPS, scaled, *sizes, mask, other=other, out=())


CASES = [
    case("native_batch_norm", X, SIX, SIX, *STATE, *TRAIN, other=TRAINED + RUNNING),
    case("native_batch_norm", X, SIX, SIX, *STATE, False, 0.1, 1e-5, other=FOLDED + APPLIED),
    case("native_batch_norm", X, SIX, SIX, None, None, *TRAIN, other=TRAINED),  # without running statistics
    case("_native_batch_norm_legit", X, SIX, SIX, *STATE, *TRAIN, other=TRAINED + RUNNING),
    case("_native_batch_norm_legit", X, SIX, SIX, *TRAIN, other=TRAINED, out=()),
    case("_native_batch_norm_legit_no_training", X, SIX, SIX, *STATE, 0.1, 1e-5, other=FOLDED + APPLIED),
    case("_batch_norm_no_update", X, SIX, SIX, *STATE, 0.1, 1e-5, other=FOLDED + APPLIED, out=()),
    case("_batch_norm_with_update", X, SIX, SIX, *STATE, 0.1, 1e-5, other=TRAINED + RUNNING, out=()),
    case("_native_batch_norm_legit_functional", X, SIX, SIX, *STATE, *TRAIN, other=TRAINED + RUNNING, out=()),
    case("_batch_norm_with_update_functional", X, SIX, SIX, *STATE, 0.1, 1e-5, other=TRAINED + RUNNING, out=()),
    case("miopen_batch_norm", X, SIX, SIX, *STATE, *TRAIN, other=TRAINED + RUNNING, out=()),
    case("miopen_batch_norm_backward", X, G, SIX, *STATE, *SAVED, 1e-5, other=SUMS + THROUGH, out=()),
    # In parts: statistics with the deviation (2 a channel); scale and shift (3); sums; their use.
    case("batch_norm_stats", X, 1e-5, other=STATISTICS + 6 * 2, out=(SIX, SIX)),
    case("batch_norm_elemt", X, SIX, SIX, SIX, SIX, 1e-5, other=APPLIED + 6 * 3, out=X),
    case("batch_norm_backward_reduce", G, X, SIX, SIX, SIX, *EVERY, other=SUMS, out=(SIX,) * 4),
    case("batch_norm_backward_elemt", G, X, SIX, SIX, SIX, SIX, SIX, WHOLE, other=THROUGH, out=X),
    case("cudnn_batch_norm", X, SIX, SIX, *STATE, *TRAIN, other=TRAINED + RUNNING, out=()),
    *batch_norm_backwards(),
    case("cudnn_batch_norm_backward", X, G, SIX, *STATE, *SAVED, 1e-5, meta(0), other=SUMS + THROUGH, out=()),
    case("native_layer_norm", X, [5], FIVE, FIVE, 1e-5, other=ROWS + 2 * 60),
    case("native_layer_norm", X, [5], FIVE, None, 1e-5, other=ROWS + 60),
    case("native_layer_norm", X, [5], None, None, 1e-5, other=ROWS),
    # both inner dimensions together: 2 rows of 30
    case("native_layer_norm", X, [6, 5], None, None, 1e-5, other=STATISTICS + 2 * 2 + 60),
    # 6 groups: their deviations are 12 operations instead of 24
    case("native_group_norm", X, SIX, SIX, 2, 6, 5, 3, 1e-5, other=ROWS - 12 + 2 * 60),
    case("native_group_norm", X, None, None, 2, 6, 5, 3, 1e-5, other=ROWS - 12),
    *row_backwards(),
    # squares, their mean; deviation; product; scale
    case("_fused_rms_norm", X, [5], FIVE, 1e-5, other=60 + 60 + 12 * 2 + 60 + 60, out=(X, TWELVE)),
    case("_fused_rms_norm", X, [5], None, 1e-5, other=60 + 60 + 12 * 2 + 60, out=(X, TWELVE)),
    # normalised input; h; products with it, their sums and means; less it times the mean, times deviation; scale
    case(
        "_fused_rms_norm_backward",
        *(G, X, [5], TWELVE, FIVE, (True, True)),
        other=60 + 60 + (60 + 48 + 12) + 3 * 60 + ROWS_SCALE,
        out=(),
    ),
    case("_fused_rms_norm_backward", G, X, [5], TWELVE, None, (True, False), other=60 + 120 + 180, out=()),
    case("_fused_rms_norm_backward", G, X, [5], TWELVE, FIVE, (False, True), other=60 + ROWS_SCALE, out=()),
    # 2 rows of 30: squares, 29 additions each, roots, length by norm, products
    case("_weight_norm_interface", X, meta(2, 1, 1), 0, other=60 + 58 + 2 + 2 + 60, out=(X, meta(2, 1, 1))),
    # products g v, 29 additions and a division for each length; both ratios; v times the one, less, times the other
    case(
        "_weight_norm_interface_backward",
        *(G, X, meta(2, 1, 1), meta(2, 1, 1), 0),
        other=60 + 58 + 2 + 2 * 2 + 3 * 60,
        out=(),
    ),
]


@pytest.mark.parametrize(**named(CASES))
def test_by_hand(case):
    assert case.counted() == case.work
