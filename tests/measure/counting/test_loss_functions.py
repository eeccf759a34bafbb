from helpers.counting import by_hand, case, meta, registered_anew, torch

from measure.counting.formulas import register_other_flop
from measure.counting.fused import _loss, transcription_output

NONE, MEAN, SUM = 0, 1, 2
X, Y, CLASSES = meta(3, 5), meta(3, 5), meta(3, dtype=torch.int64)  # 15 elements; 3 of 5 classes
LOSS = meta()

# Operations an element. Their mean is 14 additions and a division, their sum 14 additions.
PAIRS = {
    "mse_loss": 2,  # difference, square
    "smooth_l1_loss": 6,  # difference, its size, comparison, square, half, quotient
    "huber_loss": 5,
    "soft_margin_loss": 5,  # product, sign, exp, 1 +, log
    "binary_cross_entropy": 8,  # log, 1 - x, log, 1 - y, two products, sum, sign
    "binary_cross_entropy_with_logits": 8,  # 1 - y, x, difference; log of a sigmoid 5
}

# 7 steps of 2 sequences with 5 classes, and 3 targets: 7 states a step, 98. A state: 2 comparisons, 3 differences,
# 3 exponentials, 2 sums, a logarithm, 2 sums more.
STEPS, LENGTHS = meta(7, 2, 5), ([7, 7], [3, 3])
STATES = meta(2, 7, 7)


def cases():
    for name, each in PAIRS.items():
        yield case(name, X, Y, other=15 * each + 15)
        place = {"binary_cross_entropy": (None,), "binary_cross_entropy_with_logits": (None, None)}.get(name, ())
        yield case(name, X, Y, *place, SUM, other=15 * each + 14)
        yield case(name, X, Y, *place, NONE, other=15 * each)
    yield case("binary_cross_entropy", X, Y, Y, other=15 * 9 + 15)
    yield case("binary_cross_entropy_with_logits", X, Y, Y, other=15 * 9 + 15)
    yield case("binary_cross_entropy_with_logits", X, Y, None, Y, NONE, other=15 * 11)  # w - 1, by y, + 1: w shared
    # A sign for each; a product with a weight; the mean of 3, divided by the sum of 3 weights.
    for name, shape, targets in (("nll_loss_forward", X, CLASSES), ("nll_loss2d_forward", meta(1, 5, 1, 3), CLASSES)):
        for reduction, other in ((NONE, 3), (MEAN, 3 + 3), (SUM, 3 + 2)):
            yield case(name, shape, targets, None, reduction, -100, other=other, out=LOSS)
        yield case(name, shape, targets, meta(5), MEAN, -100, other=3 + 3 + 3 + 2, out=LOSS)
        back = name.replace("forward", "backward")
        yield case(back, LOSS, shape, targets, None, MEAN, -100, LOSS, other=3, out=shape)
        yield case(back, LOSS, shape, targets, meta(5), MEAN, -100, LOSS, other=6, out=shape)
    # margin - y, + x, maximum with 0, and the sum over classes or the division by their number.
    yield case("multi_margin_loss", X, CLASSES, other=4 * 15 + 3)
    yield case("multi_margin_loss", X, CLASSES, 2, 1, meta(5), NONE, other=6 * 15, out=CLASSES)
    whole = meta(3, 5, dtype=torch.int64)
    yield case("multilabel_margin_loss_forward", X, whole, MEAN, other=4 * 15 + 3, out=(LOSS, X))
    # Backward: - y, + x, compared, and added to the target's; a square or a weight is a product more.
    yield case("multi_margin_loss_backward", LOSS, X, CLASSES, 1, 1, other=4 * 15, out=X)
    yield case("multi_margin_loss_backward", LOSS, X, CLASSES, 2, 1, meta(5), other=6 * 15, out=X)
    yield case("multilabel_margin_loss_backward", LOSS, X, whole, MEAN, X, other=4 * 15, out=X)
    yield case("mse_loss_backward", LOSS, X, Y, MEAN, other=2 * 15)
    yield case("mse_loss_backward", X, X, Y, NONE, other=3 * 15)
    yield case("smooth_l1_loss_backward", LOSS, X, Y, MEAN, 1.0, other=5 * 15)  # two comparisons
    yield case("huber_loss_backward", LOSS, X, Y, MEAN, 1.0, other=4 * 15)
    yield case("soft_margin_loss_backward", LOSS, X, Y, MEAN, other=7 * 15)
    yield case("binary_cross_entropy_backward", LOSS, X, Y, other=5 * 15)
    yield case("binary_cross_entropy_backward", LOSS, X, Y, Y, other=6 * 15)
    yield case("_ctc_loss", STEPS, meta(2, 3, dtype=torch.int64), *LENGTHS, other=98 * 13, out=(meta(2), STATES))
    # The same backward; a sum, and a joining of two (5); 6 for each of 70 likelihoods.
    call = (meta(2), STEPS, meta(2, 3, dtype=torch.int64), *LENGTHS, meta(2), STATES, 0)
    yield case("_ctc_loss_backward", *call, other=98 * 19 + 70 * 6, out=STEPS)


CASES = list(cases())

test_by_hand = by_hand(CASES)


def test_targets_behind_one_another_are_split_evenly():
    # 5 of 2 sequences: 3 each, with 4 blanks around them; or all of one sequence without a batch
    places = meta(5, dtype=torch.int64)
    assert transcription_output(STEPS, places, None, None)[1].shape == (2, 7, 7)
    assert transcription_output(meta(7, 5), places, None, None)[1].shape == (1, 7, 11)


# A loss of so many operations an element, made anew
PAIR_CASES = [case for case in CASES if case.operator.removeprefix("aten::") in PAIRS and len(case.args) < 4]


def register_losses():
    register_other_flop({name: _loss(each) for name, each in PAIRS.items()})


test_losses_made_anew = registered_anew(PAIR_CASES, register_losses)
