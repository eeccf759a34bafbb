import pytest

from measure.errors import UserError
from measure.machine.processor import check_precisions, precision_overrides, tuning


def test_what_is_set_is_told_in_the_order_of_names_and_the_rest_is_not():
    variables = {"OMP_WAIT_POLICY": "ACTIVE", "MALLOC_ARENA_MAX": "1", "HOME": "/root", "OMP_NUM_THREADS": "2"}
    assert tuning(variables) == "MALLOC_ARENA_MAX=1;OMP_WAIT_POLICY=ACTIVE"


def test_nothing_or_an_empty_variable_tunes_nothing():
    assert tuning({}) is None
    assert tuning({"OMP_PROC_BIND": ""}) is None


@pytest.mark.parametrize("value", ["/home/me/lib/libjemalloc.so.2:/x/liba.so", "/home/me/lib/libjemalloc.so.2 liba.so"])
def test_of_libraries_loaded_first_only_the_files_are_told(value):
    assert tuning({"LD_PRELOAD": value}) == "LD_PRELOAD=libjemalloc.so.2,liba.so"


def test_the_sign_that_joins_is_not_in_a_value():
    # CPUs by numactl's and glibc's syntaxes have no semicolon; a hand-typed one must not make two settings of one
    assert tuning({"KMP_AFFINITY": "granularity=fine;compact"}) == "KMP_AFFINITY=granularity=fine,compact"


def test_a_variable_that_decides_over_precisions_is_refused():
    check_precisions({"OMP_PROC_BIND": "close", "NVIDIA_TF32_OVERRIDE": ""})
    variables = {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}
    assert precision_overrides(variables) == ["ONEDNN_DEFAULT_FPMATH_MODE=BF16"]
    with pytest.raises(UserError, match=r"^ONEDNN_DEFAULT_FPMATH_MODE=BF16 sets the precision .* unset it$"):
        check_precisions(variables)
