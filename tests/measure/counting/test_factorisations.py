import pytest
from helpers.counting import Own, case, meta, named, nn, torch, total, trained

# 2 matrices of 6 by 6, and 5 right-hand sides; matrices of 6 by 3 and 3 by 6.
SQUARE, SIDES, TALL, WIDE = meta(2, 6, 6), meta(2, 6, 5), meta(2, 6, 3), meta(2, 3, 6)
PIVOTS = meta(2, 6, dtype=torch.int32)
CUBE = 2 * 6**3
SOLVED = 2 * 6 * 6 * 5  # n² for each right-hand side and triangle
REFLECTED = 2 * (2 * 9 * (6 - 1))  # 2 n² (m - n / 3) each

CASES = [
    case("linalg_cholesky_ex", SQUARE, other=CUBE // 3),
    case("linalg_ldl_factor_ex", SQUARE, other=CUBE // 3),
    case("linalg_lu_factor_ex", SQUARE, other=2 * CUBE // 3),
    case("linalg_lu", SQUARE, other=2 * CUBE // 3),
    case("_linalg_det", SQUARE, other=2 * CUBE // 3),
    case("_linalg_slogdet", SQUARE, other=2 * CUBE // 3),
    case("linalg_inv_ex", SQUARE, other=2 * CUBE),
    case("cholesky_inverse", SQUARE, other=2 * CUBE // 3),
    case("linalg_solve_triangular", SQUARE, SIDES, upper=True, other=SOLVED),
    case("triangular_solve", SIDES, SQUARE, other=SOLVED),
    case("cholesky_solve", SIDES, SQUARE, other=2 * SOLVED),
    case("_cholesky_solve_helper", SIDES, SQUARE, False, other=2 * SOLVED),
    case("linalg_lu_solve", SQUARE, PIVOTS, SIDES, other=2 * SOLVED),
    case("linalg_ldl_solve", SQUARE, PIVOTS, SIDES, other=2 * SOLVED),
    case("_linalg_solve_ex", SQUARE, SIDES, other=2 * CUBE // 3 + 2 * SOLVED),
    case("geqrf", TALL, other=REFLECTED, out=(TALL, meta(2, 3))),
    case("linalg_householder_product", TALL, meta(2, 3), other=REFLECTED),
    case("linalg_qr", TALL, other=2 * REFLECTED),
    case("linalg_qr", WIDE, other=2 * REFLECTED),
    case("linalg_qr", TALL, "r", other=REFLECTED),
    # of complex numbers, whose multiply-adds are four real ones
    case("linalg_inv_ex", meta(2, 6, 6, dtype=torch.complex64), other=4 * 2 * CUBE),
]


@pytest.mark.parametrize(**named(CASES))
def test_by_hand(case):
    assert case.counted() == case.work


def test_a_system_of_equations_in_a_network():
    matrix = nn.Parameter(torch.zeros(4, 4))
    network = Own(lambda self, sides: torch.linalg.solve(self.matrix, sides), matrix=matrix)
    forward, backward = trained(network, meta(4, 3))
    # A factorisation, 2 * 64 / 3 = 42.7, and two triangles of 16 for each of 3 sides.
    assert total(forward, "other_flop") == 43 + 2 * 16 * 3
    # Backward, two triangles of the transposed factors; the matrix's gradient is a product 4 by 3 by 4, with a sign.
    assert total(backward, "flop") == 2 * 4 * 3 * 4
    assert total(backward, "other_flop") == 2 * 16 * 3 + 16
