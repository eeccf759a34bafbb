"""FLOP of direct factorisations and solutions, as LAPACK counts them (LAPACK Working Note 41), without lower orders.

n is a matrix's size. Eigenvalues, singular values and exponentials of matrices iterate until a result is exact enough,
which depends on values: they have no formula.
"""

import math
from typing import Any

from measure.counting.formulas import Args, register_other_flop


def _batch(matrix: Any) -> int:
    return math.prod(matrix.shape[:-2])


def _cubes(matrix: Any, share: float) -> int:
    return round(share * _batch(matrix) * matrix.shape[-1] ** 3)


def _orthogonal(matrix: Any) -> int:
    """Count Householder's reflections of m rows and n columns: 2 k² (longer side - k / 3) for the shorter side k."""
    short, long = sorted(matrix.shape[-2:])
    return round(_batch(matrix) * 2 * short**2 * (long - short / 3))


def _solved(factor: Any, out: Any, triangles: int) -> int:
    """Count n² for each of the right-hand sides and triangles."""
    return int(triangles * factor.shape[-1] * out.numel())


def _qr(args: Args, _out: Any) -> int:
    """Reflections, and as many operations again to form the orthogonal factor."""
    mode = args[1] if len(args) > 1 else "reduced"
    return _orthogonal(args[0]) * (1 if mode == "r" else 2)


register_other_flop(
    {
        "linalg_cholesky_ex linalg_ldl_factor_ex": lambda a, _o: _cubes(a[0], 1 / 3),
        "linalg_lu_factor_ex linalg_lu _linalg_det _linalg_slogdet": lambda a, _o: _cubes(a[0], 2 / 3),
        "linalg_inv_ex": lambda a, _o: _cubes(a[0], 2),
        "cholesky_inverse": lambda a, _o: _cubes(a[0], 2 / 3),
        "linalg_solve_triangular": lambda a, o: _solved(a[0], o, 1),
        "triangular_solve": lambda a, o: _solved(a[1], o[0], 1),
        "cholesky_solve _cholesky_solve_helper": lambda a, o: _solved(a[1], o, 2),
        "linalg_lu_solve linalg_ldl_solve": lambda a, o: _solved(a[0], o, 2),
        "_linalg_solve_ex": lambda a, o: _cubes(a[0], 2 / 3) + _solved(a[0], o[0], 2),
        "geqrf linalg_householder_product": lambda a, _o: _orthogonal(a[0]),
        "linalg_qr": _qr,
    }
)
