import pandas as pd
import pytest

from measure.domain.words import LAYER_KINDS
from report.paper.operator_groups import RULES, group_of, with_groups, without_conversions


@pytest.mark.parametrize(
    ("operator", "kind", "stage", "group"),
    [
        ("convolution", "convolution", "inference", "convolution"),  # as it is counted
        ("conv2d", "convolution", "inference", "convolution"),  # as a profile names it
        ("conv2d", "depthwise convolution", "forward", "depthwise convolution"),
        ("convolution_backward", "convolution", "backward", "convolution, both gradients"),
        ("cudnn_convolution_backward_input", "", "backward", "convolution, data gradient"),
        ("cudnn_convolution_backward_weight", "", "backward", "convolution, weight gradient"),
        ("addmm", "linear", "inference", "matrix product"),
        ("addmm", "attention", "inference", "attention"),
        ("native_batch_norm_backward", "normalisation", "backward", "batch norm, backward"),
        ("native_layer_norm_backward", "normalisation", "backward", "layer norm"),
        ("relu_", "activation", "inference", "elementwise"),
        ("mean", "pooling", "inference", "pooling"),
        ("mean", "other", "inference", "reduction"),
        ("_to_copy", "other", "inference", "memory copy and set"),
        ("_convert_indices_from_coo_to_csr", "other", "inference", "other"),  # a pattern finds no part of a word
        ("add_", "", "update", "optimiser"),
    ],
)
def test_an_operator_belongs_to_a_group_by_name_layer_and_stage(operator, kind, stage, group):
    assert group_of(operator, kind, stage) == group


def test_rules_speak_of_known_kinds():
    assert {rule.kind for rule in RULES} <= {"", *LAYER_KINDS}


def test_rows_get_the_kind_of_their_layer():
    layers = pd.DataFrame({"model": ["net"] * 2, "path": ["a"] * 2, "layer_kind": ["attention"] * 2})
    times = pd.DataFrame({
        "model": ["net", "net", "web"], "path": ["a", None, "a"], "operator": ["mm"] * 3, "stage": ["forward"] * 3
    })  # fmt: skip
    rows = with_groups(times, layers)
    assert rows.layer_kind.tolist() == ["attention", "", ""]
    assert rows.group.tolist() == ["attention", "matrix product", "matrix product"]


def test_conversions_inside_an_operator_are_a_group_of_their_own():
    """Of a convolution's 10 s 3 + 1 are conversions; the rest of the profile keeps its times."""
    cell = dict.fromkeys(("environment_id", "model", "precision", "phase", "variant", "stage"), "x") | {"batch": 1}
    at = [cell | {"path": path, "operator": operator} for path, operator in (("a", "conv2d"), (None, "add"))]
    times = pd.DataFrame([at[0] | {"group": "convolution", "time_s": 10.0}, at[1] | {"group": "add", "time_s": 2.0}])
    kernels = (("nchwToNhwcKernel", 3.0), ("xmma_fprop", 6.0), ("nhwcToNchwKernel", 1.0))
    rows = without_conversions(times, pd.DataFrame([at[0] | {"kernel": name, "time_s": s} for name, s in kernels]))
    expected = {"convolution": 6.0, "add": 2.0, "layout conversion": 4.0}
    assert rows.set_index("group").time_s.to_dict() == expected
    none = pd.DataFrame(columns=[*at[0], "kernel", "time_s"])  # a processor runs no kernels
    assert without_conversions(times, none).time_s.tolist() == [10.0, 2.0]
