import pytest
from helpers.counting import by_hand, case, meta, named, torch

# Two parameters of 15 and 4 elements.
LISTS, STEPS = [meta(3, 5), meta(4)], [meta(), meta()]
PLAIN = {"lr": 0.1, "weight_decay": 0.0, "maximize": False}
ADAM = {**PLAIN, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "amsgrad": False}
SGD = {**PLAIN, "momentum": 0.0, "dampening": 0.0, "nesterov": False, "is_first_step": False}
ADAGRAD = {**PLAIN, "lr_decay": 0.0, "eps": 1e-8}
DECAY, MORE, LESS, SCALED = {"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}, {"grad_scale": meta()}
MOMENTUM = {"momentum": 0.9}

EACH = [
    # Moments: a difference, a factor, a sum; two factors, a square by one, a sum. The step: root, correction, small
    # constant; quotient, rate, difference.
    ("_fused_adam", 5, ADAM, {}, 3 + 4 + 3 + 3),
    ("_fused_adam", 5, ADAM, DECAY, 13 + 2),
    ("_fused_adam", 5, ADAM, MORE | LESS | SCALED, 13 + 3),  # a maximum, a sign, a quotient
    ("_fused_adamw", 5, ADAM, {}, 13),
    ("_fused_adamw", 5, ADAM, DECAY, 13 + 1),
    ("_fused_sgd", 3, SGD, {}, 2),
    ("_fused_sgd", 3, SGD, DECAY, 2 + 2),
    ("_fused_sgd", 3, SGD, MOMENTUM, 2 + 2),
    ("_fused_sgd", 3, SGD, MOMENTUM | {"dampening": 0.1, "nesterov": True}, 2 + 3 + 2),
    ("_fused_sgd", 3, SGD, MOMENTUM | {"is_first_step": True}, 2),
    # A square, added; root, small constant, quotient, rate, difference.
    ("_fused_adagrad", 4, ADAGRAD, {}, 7),
    ("_fused_adagrad", 4, ADAGRAD, DECAY, 7 + 2),
]

CASES = [
    *(
        case(name, *[LISTS] * (lists - 1), STEPS, **options | more, other=19 * each, out=())
        for name, lists, options, more, each in EACH
    ),
    case("_amp_foreach_non_finite_check_and_unscale", LISTS, meta(), meta(), other=2 * 19, out=()),
    case("_amp_update_scale", meta(1), meta(1, dtype=torch.int32), meta(1), 2.0, 0.5, 2000, other=2, out=()),
]  # fmt: skip

test_by_hand = by_hand(CASES)

ON_LISTS = [
    case("_foreach_add", LISTS, LISTS, other=19),
    case("_foreach_add", LISTS, LISTS, alpha=2, other=2 * 19),
    case("_foreach_norm", LISTS, other=2 * 19),
    case("_foreach_pow", 0.9, LISTS, other=19),
    case("_foreach_sigmoid", LISTS, other=4 * 19),
    case("_foreach_mm", [meta(2, 3), meta(1, 2)], [meta(3, 5), meta(2, 2)],
         flop=2 * 2 * 3 * 5 + 2 * 1 * 2 * 2, out=[meta(2, 5), meta(1, 2)]),
    case("_foreach_zero", LISTS, out=LISTS),
    case("_foreach_add_", LISTS, LISTS, other=19, out=()),  # in place there is no output
]  # fmt: skip


@pytest.mark.parametrize(**named(ON_LISTS))
def test_an_operator_on_lists_is_one_on_each(case):
    assert (case if case.out is not None else case._replace(out=LISTS)).counted() == case.work
