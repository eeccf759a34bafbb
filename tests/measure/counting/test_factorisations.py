from helpers.counting import by_hand, case, meta, torch

# 2 matrices of 6 by 6, and 5 right-hand sides; matrices of 6 by 3 and 3 by 6.
SQUARE, SIDES, TALL, WIDE = meta(2, 6, 6), meta(2, 6, 5), meta(2, 6, 3), meta(2, 3, 6)
OF_COMPLEX = meta(2, 6, 6, dtype=torch.complex64)
PIVOTS = meta(2, 6, dtype=torch.int32)
CUBE = 2 * 6**3
SOLVED = 2 * 6 * 6 * 5  # n² for each right-hand side and triangle
REFLECTED = 2 * (2 * 9 * (6 - 1))  # 2 n² (m - n / 3) each

CASES = [
    *(case(name, SQUARE, other=CUBE // 3) for name in ("linalg_cholesky_ex", "linalg_ldl_factor_ex")),
    *(
        case(name, SQUARE, other=2 * CUBE // 3)
        for name in ("linalg_lu_factor_ex", "linalg_lu", "_linalg_det", "_linalg_slogdet", "cholesky_inverse")
    ),
    case("linalg_inv_ex", SQUARE, other=2 * CUBE),
    # a multiply-add of complex numbers is four real ones
    case("linalg_inv_ex", OF_COMPLEX, other=4 * 2 * CUBE),
    *(
        case(name, OF_COMPLEX, PIVOTS, meta(2, 6, 5, dtype=torch.complex64), other=4 * 2 * SOLVED)
        for name in ("linalg_lu_solve", "linalg_ldl_solve")
    ),
    case("linalg_solve_triangular", SQUARE, SIDES, upper=True, other=SOLVED),
    case("triangular_solve", SIDES, SQUARE, other=SOLVED),
    case("cholesky_solve", SIDES, SQUARE, other=2 * SOLVED),
    case("_cholesky_solve_helper", SIDES, SQUARE, False, other=2 * SOLVED),
    *(case(name, SQUARE, PIVOTS, SIDES, other=2 * SOLVED) for name in ("linalg_lu_solve", "linalg_ldl_solve")),
    case("_linalg_solve_ex", SQUARE, SIDES, other=2 * CUBE // 3 + 2 * SOLVED),
    case("geqrf", TALL, other=REFLECTED, out=(TALL, meta(2, 3))),
    case("linalg_householder_product", TALL, meta(2, 3), other=REFLECTED),
    *(case("linalg_qr", matrix, other=2 * REFLECTED) for matrix in (TALL, WIDE)),
    case("linalg_qr", TALL, "r", other=REFLECTED),
]

test_by_hand = by_hand(CASES)
