from helpers.counting import by_hand, case, meta, torch

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

TRAIN, STATE, SAVED = (True, 0.1, 1e-5), (SIX, SIX), (SIX, SIX)
FULLY_TRAINED = (
    "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "miopen_batch_norm",
    "cudnn_batch_norm",
)  # fmt: skip


def batch_norms():
    for name in FULLY_TRAINED:
        yield case(name, X, SIX, SIX, *STATE, *TRAIN, other=TRAINED + RUNNING, out=())
    for name in ("_batch_norm_with_update", "_batch_norm_with_update_functional"):
        yield case(name, X, SIX, SIX, *STATE, 0.1, 1e-5, other=TRAINED + RUNNING, out=())
    for name in ("_native_batch_norm_legit_no_training", "_batch_norm_no_update"):
        yield case(name, X, SIX, SIX, *STATE, 0.1, 1e-5, other=FOLDED + APPLIED, out=())
    yield case("native_batch_norm", X, SIX, SIX, *STATE, False, 0.1, 1e-5, other=FOLDED + APPLIED)
    yield case("native_batch_norm", X, SIX, SIX, None, None, *TRAIN, other=TRAINED)  # without running statistics
    yield case("_native_batch_norm_legit", X, SIX, SIX, *TRAIN, other=TRAINED, out=())
    for training, mask, other in [
        (True, EVERY, SUMS + THROUGH),
        (True, (False, True, True), SUMS),
        (False, EVERY, SUMS + CONSTANT),
        (False, (True, False, False), CONSTANT),
        (False, (False, False, True), SUMS),
    ]:
        call = (G, X, SIX, *STATE, *SAVED, training, 1e-5, mask)
        yield case("native_batch_norm_backward", *call, other=other, out=())
    yield case("batch_norm_backward", *call[:7], True, 1e-5, EVERY, meta(0), other=SUMS + THROUGH, out=())
    for name in ("miopen_batch_norm_backward", "cudnn_batch_norm_backward"):
        yield case(name, X, G, SIX, *STATE, *SAVED, 1e-5, meta(0), other=SUMS + THROUGH, out=())
    # In parts: statistics with the deviation (2 a channel); scale and shift (3); sums; their use.
    yield case("batch_norm_stats", X, 1e-5, other=STATISTICS + 6 * 2, out=(SIX, SIX))
    yield case("batch_norm_elemt", X, SIX, SIX, SIX, SIX, 1e-5, other=APPLIED + 6 * 3, out=X)
    yield case("batch_norm_backward_reduce", G, X, SIX, SIX, SIX, *EVERY, other=SUMS, out=(SIX,) * 4)
    yield case("batch_norm_backward_elemt", G, X, SIX, SIX, SIX, SIX, SIX, WHOLE, other=THROUGH, out=X)


def row_norms():
    yield case("native_layer_norm", X, [5], FIVE, FIVE, 1e-5, other=ROWS + 2 * 60)
    yield case("native_layer_norm", X, [5], FIVE, None, 1e-5, other=ROWS + 60)
    # both inner dimensions together: 2 rows of 30
    yield case("native_layer_norm", X, [6, 5], None, None, 1e-5, other=STATISTICS + 2 * 2 + 60)
    # 6 groups: their deviations are 12 operations instead of 24
    yield case("native_group_norm", X, SIX, SIX, 2, 6, 5, 3, 1e-5, other=ROWS - 12 + 2 * 60)
    yield case("native_group_norm", X, None, None, 2, 6, 5, 3, 1e-5, other=ROWS - 12)
    for scaled, mask, other in [
        (FIVE, EVERY, ROWS_INPUT + 60 + ROWS_SCALE + ROWS_SHIFT),
        (None, (True, False, False), ROWS_INPUT),
        (FIVE, (False, True, True), 2 * 60 + ROWS_SCALE + ROWS_SHIFT),
    ]:
        yield case("native_layer_norm_backward", G, X, [5], TWELVE, TWELVE, scaled, scaled, mask, other=other)
    parameters = (60 + 60 - 6) + (60 - 6)
    for scaled, mask, other in [
        (SIX, EVERY, GROUPS_INPUT + 60 + parameters),
        (None, (True, False, False), GROUPS_INPUT),
        (SIX, (False, True, True), 2 * 60 + parameters),
    ]:
        call = (G, X, GROUPS, GROUPS, scaled, 2, 6, 5, 3, mask)
        yield case("native_group_norm_backward", *call, other=other, out=())
    # squares, their mean; deviation; product; scale
    yield case("_fused_rms_norm", X, [5], FIVE, 1e-5, other=60 + 60 + 12 * 2 + 60 + 60, out=(X, TWELVE))
    yield case("_fused_rms_norm", X, [5], None, 1e-5, other=60 + 60 + 12 * 2 + 60, out=(X, TWELVE))
    # normalised input; h; products with it, their sums and means; less it times the mean, times deviation; scale
    through = 60 + 48 + 12 + 3 * 60
    for scaled, mask, other in (
        (FIVE, (True, True), 60 + 60 + through + ROWS_SCALE),
        (None, (True, False), 60 + through),
        (FIVE, (False, True), 60 + ROWS_SCALE),
    ):
        yield case("_fused_rms_norm_backward", G, X, [5], TWELVE, scaled, mask, other=other, out=())
    # 2 rows of 30: squares, 29 additions each, roots, length by norm, products
    lengths = meta(2, 1, 1)
    yield case("_weight_norm_interface", X, lengths, 0, other=60 + 58 + 2 + 2 + 60, out=(X, lengths))
    # products g v, 29 additions and a division for each length; both ratios; v times the one, less, times the other
    call = (G, X, lengths, lengths, 0)
    yield case("_weight_norm_interface_backward", *call, other=60 + 58 + 2 + 2 * 2 + 3 * 60, out=())


CASES = [*batch_norms(), *row_norms()]

test_by_hand = by_hand(CASES)
