import pytest
from helpers.counting import Own, by_hand, case, meta, nn, torch, trained

from measure.counting.products import grouped_output

EVERY, FEW = (True, True, True), (True, False, False)
FP8 = [meta(16, 32, dtype=torch.float8_e4m3fn), meta(32, 48, dtype=torch.float8_e4m3fn)]

# Inputs, weights and how they are applied: (stride, padding, dilation, transposed, output padding, groups); multiply-
# adds of one pass, and the output's shape.
CONVOLUTIONS = [
    # (7 + 2 - 3) / 2 + 1 = 4 by (9 - 2 * 1 - 1) + 1 = 7 places, 6 channels, a sum over 2 of 4 channels of 3 by 2
    ((2, 4, 7, 9), (6, 2, 3, 2), ([2, 1], [1, 0], [1, 2], False, [0, 0], 2), 2 * (4 * 7) * 6 * (2 * 3 * 2),
     (2, 6, 4, 7)),
    # 2 by 3 by 4 places, 5 channels, each a sum over 3 channels of 2 by 2 by 2
    ((1, 3, 3, 4, 5), (5, 3, 2, 2, 2), ([1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1), 24 * 5 * 3 * 8, (1, 5, 2, 3, 4)),
    # each of 2 * 4 * 3 * 5 inputs is spread over 3 of 6 channels of 2 by 3
    ((2, 4, 3, 5), (4, 3, 2, 3), ([2, 2], [0, 0], [1, 1], True, [0, 0], 2), 2 * 4 * 15 * (3 * 2 * 3), (2, 6, 6, 11)),
]  # fmt: skip


def convolutions():
    for inputs, weight, how, multiply_adds, outputs in CONVOLUTIONS:
        images, filters, out = meta(*inputs), meta(*weight), meta(*outputs)
        bias = out.numel()  # an addition for each output
        yield case("convolution", images, filters, None, *how, flop=2 * multiply_adds)
        yield case("convolution", images, filters, meta(outputs[1]), *how, flop=2 * multiply_adds, other=bias)
        yield case("_convolution", images, filters, None, *how, False, False, True, flop=2 * multiply_adds, out=out)
        for mask in [EVERY, (False, True, True), FEW]:
            # the bias's gradient is a sum over all places and images: an addition less for each channel
            work = {"flop": 2 * multiply_adds * (mask[0] + mask[1]), "other": (bias - outputs[1]) * mask[2]}
            yield case("convolution_backward", out, images, filters, [outputs[1]], *how, mask, **work)


MATRICES = [
    case("mm", meta(2, 3), meta(3, 5), flop=2 * 2 * 3 * 5),
    case("mm", *[meta(2, 2, dtype=torch.complex64)] * 2, flop=8 * 2 * 2 * 2),  # 4 products, 2 + 2 additions
    case("mm", *[meta(2, 2, dtype=torch.int64)] * 2),  # no floating-point operation, whatever the operator
    case("convolution", *[meta(1, 1, 3, 3, dtype=torch.int32)] * 2, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    case("bmm", meta(7, 2, 3), meta(7, 3, 5), flop=2 * 7 * 2 * 3 * 5),
    case("_scaled_mm", *FP8, meta(), meta(), flop=2 * 16 * 32 * 48, out=meta(16, 48)),  # with a scale for each
    case("addmm", meta(5), meta(2, 3), meta(3, 5), flop=2 * 2 * 3 * 5, other=10),
    case("addmm", meta(5), meta(2, 3), meta(3, 5), beta=0, flop=60),
    case("addmm", meta(5), meta(2, 3), meta(3, 5), beta=2, alpha=0.5, flop=60, other=10 + 10 + 10),
    case("baddbmm", meta(7, 2, 5), meta(7, 2, 3), meta(7, 3, 5), flop=2 * 7 * 30, other=70),
    case("mv", meta(2, 3), meta(3), flop=2 * 2 * 3),
    case("addmv", meta(2), meta(2, 3), meta(3), flop=2 * 2 * 3, other=2),
    case("dot", meta(7), meta(7), flop=2 * 7),
    case("vdot", meta(7), meta(7), flop=2 * 7),
]

BF16 = {"dtype": torch.bfloat16}
ENDS = meta(4, dtype=torch.int32)  # of four groups
INT8, INT4 = meta(5, 4, dtype=torch.int8), meta(5, 2, dtype=torch.uint8)

# 64 rows of 32, each by one of four 32 x 48: 2 * 64 * 32 * 48, however they are split. Its two gradients likewise: rows
# by the transposed matrices, and four sums over parts of the 64 rows.
GROUPED = 196_608
GROUPS = [
    case("_grouped_mm", meta(64, 32, **BF16), meta(4, 32, 48, **BF16), ENDS, flop=GROUPED),
    case("_grouped_mm", meta(32, 64, **BF16), meta(64, 48, **BF16), ENDS, flop=GROUPED, out=meta(4, 32, 48)),
    case("_grouped_mm", meta(4, 32, 16, **BF16), meta(16, 48, **BF16), ENDS, flop=2 * 32 * 16 * 48, out=meta(32, 48)),
    case("_grouped_mm", meta(4, 8, 16), meta(4, 16, 24), flop=2 * 4 * 8 * 16 * 24, out=meta(4, 8, 24)),
    case("_grouped_mm", meta(6, 8), meta(4, 8, 9), ENDS, meta(4, 9), flop=2 * 6 * 8 * 9, other=54, out=meta(6, 9)),
    *(
        case(name, *FP8, meta(16), meta(48), flop=2 * 16 * 32 * 48, out=meta(2, 16, 48))
        for name in ("_scaled_grouped_mm", "_scaled_grouped_mm_v2")
    ),
]

# nn.Bilinear(4, 5, 6) on 2 rows: a row's 4 * 5 products of coordinates (2 * 20 = 40), each by 6 weights (2 * 240 FLOP).
# Its gradients: of the weight the same; of the first input 2 * 6 * 5 products, each by 4 weights.
ROWS, WEIGHT, COLUMNS = meta(2, 4), meta(6, 4, 5), meta(2, 5)
BILINEAR = [
    case("_trilinear", ROWS, WEIGHT, COLUMNS, [1, 3], [0], [1, 2], [2, 3], flop=480, other=40),
    case("_trilinear", meta(2, 6), WEIGHT, COLUMNS, [2, 3], [0], [1, 2], [1, 3], flop=480, other=60, out=ROWS),
]

# By one library's name: 2 images of 4 channels, 6 filters of 3 by 3 on 8 by 8, 6 by 6 places. A bias is an addition an
# output, a ReLU a comparison, another tensor an addition, and its factor a product.
IMAGES, FILTERS, BIAS, OUT = meta(2, 4, 8, 8), meta(6, 4, 3, 3), meta(6), meta(2, 6, 6, 6)
VOLUMES, CUBES, SPACE = meta(2, 4, 4, 4, 4), meta(6, 4, 3, 3, 3), meta(2, 6, 2, 2, 2)
ONE, NO, SQUARE = [1, 1], [0, 0], [3, 3]
CONVOLVED, OUTPUTS, DEPTH = 2 * 2 * 36 * 6 * 36, 2 * 6 * 36, 2 * 2 * 8 * 6 * 108
# Transposed: each of 2 * 6 * 36 inputs is spread over 4 channels of 3 by 3, to outputs of 2 * 4 * 8 * 8.
SPREAD, FOUR = 2 * 2 * 36 * 6 * 36, meta(4)


def library_convolutions():
    """The places of options differ by name, with the bias among them or without one."""
    for name, *options in (
        ("cudnn_convolution", NO, ONE, ONE, 1, False, False, True),
        ("miopen_convolution", BIAS, NO, ONE, ONE, 1, False, False),
        ("miopen_depthwise_convolution", BIAS, NO, ONE, ONE, 1, False, False),
        ("mkldnn_convolution", BIAS, NO, ONE, ONE, 1),
        ("_mps_convolution", BIAS, NO, ONE, ONE, 1),
        ("_nnpack_spatial_convolution", BIAS, NO),
        ("_conv_depthwise2d", SQUARE, BIAS, ONE, NO, ONE),
        ("_slow_conv2d_forward", SQUARE, BIAS, ONE, NO),
        ("slow_conv_dilated2d", SQUARE, BIAS),
    ):
        biases = OUTPUTS * any(each is BIAS for each in options)
        yield case(name, IMAGES, FILTERS, *options, flop=CONVOLVED, other=biases, out=OUT)
        bare = [None if each is BIAS else each for each in options]
        yield case(name, IMAGES, FILTERS, *bare, flop=CONVOLVED, out=OUT)
    yield case("slow_conv_dilated2d", IMAGES, FILTERS, SQUARE, flop=CONVOLVED, out=OUT)
    for name in ("conv_depthwise3d", "slow_conv3d_forward", "slow_conv_dilated3d"):
        yield case(name, VOLUMES, CUBES, [3] * 3, BIAS, flop=DEPTH, other=96, out=SPACE)
    for name, biases, *options in (
        ("cudnn_convolution_transpose", 0, NO, NO, ONE, ONE, 1, False, False, True),
        ("miopen_convolution_transpose", 512, FOUR, NO, NO, ONE, ONE, 1, False, False),
        ("_mps_convolution_transpose", 0, NO, NO, ONE, ONE, 1),
        ("slow_conv_transpose2d", 512, SQUARE, FOUR),
    ):
        yield case(name, OUT, FILTERS, *options, flop=SPREAD, other=biases, out=IMAGES)
    yield case("slow_conv_transpose3d", SPACE, CUBES, [3] * 3, FOUR, flop=DEPTH, other=512, out=VOLUMES)
    for library in ("cudnn", "miopen"):
        for name, added, *front in (
            ("relu", 2, BIAS),
            ("add_relu", 3, OUT, None, BIAS),
            ("add_relu", 2, OUT, 1, None),
            ("add_relu", 4, OUT, 0.5, BIAS),
        ):
            call = (IMAGES, FILTERS, *front, ONE, NO, ONE, 1)
            yield case(f"{library}_convolution_{name}", *call, flop=CONVOLVED, other=added * OUTPUTS, out=OUT)
    how = (ONE, NO, ONE, False, NO, 1)
    yield case("convolution_overrideable", IMAGES, FILTERS, BIAS, *how, flop=CONVOLVED, other=OUTPUTS, out=OUT)
    for mask, flop, other in ((EVERY, 2 * CONVOLVED, OUTPUTS - 6), (FEW, CONVOLVED, 0)):
        work = {"flop": flop, "other": other, "out": ()}
        yield case("convolution_backward_overrideable", OUT, IMAGES, FILTERS, *how, mask, **work)
        yield case("_slow_conv2d_backward", OUT, IMAGES, FILTERS, SQUARE, ONE, NO, mask, **work)
        yield case("mps_convolution_backward", IMAGES, OUT, FILTERS, NO, ONE, ONE, 1, mask, **work)
    transposed = (OUT, IMAGES, FILTERS, NO, NO, ONE, ONE, 1)
    yield case("mps_convolution_transpose_backward", *transposed, (True, True), flop=2 * SPREAD, out=())
    # A linear layer: 3 rows of 4 by 5 columns.
    inputs, back, layer = meta(3, 4), meta(3, 5), meta(5, 4)
    for name in ("linear_backward", "mkldnn_linear_backward"):
        yield case(name, inputs, back, layer, EVERY, flop=2 * 120, other=15 - 5, out=())
        yield case(name, inputs, back, layer, FEW, flop=120, out=())
    yield case("mkldnn_linear_backward_input", [3, 4], back, layer, flop=120, out=inputs)
    yield case("mkldnn_linear_backward_weights", back, inputs, layer, True, flop=120, other=15 - 5, out=())


PRODUCTS = [
    case("_int_mm", *[meta(32, 32, dtype=torch.int8)] * 2, out=meta(32, 32, dtype=torch.int32)),  # integers
    # three 4 x 5 by 5 x 6, summed to 4 x 6, and an addition for each: 2 * 3 * 4 * 5 * 6 and 24
    case("addbmm", meta(4, 6), meta(3, 4, 5), meta(3, 5, 6), flop=720, other=24),
    case("addr", meta(4, 6), meta(4), meta(6), flop=2 * 4 * 6, other=24),
    case("_addmm_activation", meta(5), meta(2, 3), meta(3, 5), flop=60, other=10 + 10, out=meta(2, 5)),
    case("_addmm_activation", meta(5), meta(2, 3), meta(3, 5), use_gelu=True, flop=60, other=10 + 90, out=meta(2, 5)),
    # 7 + 2 - 2 places, 2 images, 5 channels, each a sum over 3 taps of 4 channels; and its bias
    case("conv_tbc", meta(7, 2, 4), meta(3, 4, 5), meta(5), 1, flop=2 * 7 * 2 * 5 * 12, other=70),
    # 3 rows of 4 by 5 columns of 4 stored in 8 or 4 bits. A scale for each result, or a scale and a shift a weight.
    case("_weight_int8pack_mm", meta(3, 4), INT8, meta(5), flop=120, other=15, out=meta(3, 5)),
    *(
        case(name, meta(3, 4), INT4, 32, meta(1, 5, 2), flop=120, other=40, out=meta(3, 5))
        for name in ("_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu", "_weight_int4pack_mm_with_scales_and_zeros")
    ),
    case("_mixed_dtypes_linear", meta(3, 4), INT8, meta(5), flop=120, out=meta(3, 5)),
    case("_dyn_quant_matmul_4bit", meta(3, 4), INT4, 32, 4, 5, flop=120, out=meta(3, 5)),
    case("mkldnn_linear", meta(3, 4), meta(5, 4), flop=120, out=meta(3, 5)),
    case("mkldnn_linear", meta(3, 4), meta(5, 4), meta(5), flop=120, other=15, out=meta(3, 5)),
    case("_scaled_mm_v2", *FP8, flop=2 * 16 * 32 * 48, out=meta(16, 48)),
    *(
        case(name, *FP8, *options, bias=meta(48), flop=2 * 16 * 32 * 48, other=16 * 48, out=meta(16, 48))
        for name, options in (("_scaled_mm", [meta(), meta()]), ("_scaled_mm_v2", []))
    ),
]

# 2 * 4 * 5 = 40 pairs of points of 3 coordinates. Order 2: 3 differences, 3 squares, 2 additions, a root: 9. Order 1
# and the largest: 3 differences, 3 absolute values, 2 additions or comparisons: 8. Order 3: 3 powers and a root more,
# 12.
POINTS, OTHERS, DISTANCES = meta(2, 4, 3), meta(2, 5, 3), meta(2, 4, 5)
PAIR = {2.0: 9, 1.0: 8, float("inf"): 8, 3.0: 12}
# Backward, for each of 120 coordinates: a difference and a product (2), and a division a pair; with signs 3; with
# absolute values and comparisons 5; with powers 5, and 2 a pair. And an addition each, less one for each of 24 results.
PAIR_BACKWARD = {2.0: 240 + 40, 1.0: 360, float("inf"): 600, 3.0: 600 + 80}
DISTANCE_CASES = [
    *(case("_cdist_forward", POINTS, OTHERS, order, None, other=40 * each) for order, each in PAIR.items()),
    *(
        case("_cdist_backward", DISTANCES, POINTS, OTHERS, order, DISTANCES, other=each + 120 - 24, out=POINTS)
        for order, each in PAIR_BACKWARD.items()
    ),
    case("_cdist_backward", DISTANCES, POINTS, OTHERS, 0.0, DISTANCES, out=POINTS),
    # 4 points: 6 pairs. Both points of a pair get its gradient: 2 * 18 additions less 12.
    case("_pdist_forward", meta(4, 3), other=54),
    case("_pdist_backward", meta(6), meta(4, 3), 2.0, meta(6), other=36 + 6 + 36 - 12),
    # As rows of 3 + 2: products 2 * 40 * 5; lengths 2 * 24 - 8 and 2 * 30 - 10; x by -2: 24; at least 0, and a root.
    case("_euclidean_dist", POINTS, OTHERS, flop=400, other=40 + 50 + 24 + 80),
]

CASES = [*MATRICES, *GROUPS, *BILINEAR, *PRODUCTS, *DISTANCE_CASES, *convolutions(), *library_convolutions()]

test_by_hand = by_hand(CASES)


def test_convolution_gradients_by_time_cost_their_forward_pass():
    weights = {"weight": nn.Parameter(torch.zeros(3, 4, 5)), "bias": nn.Parameter(torch.zeros(5))}
    network = Own(lambda self, steps: torch.conv_tbc(steps, self.weight, self.bias, 1), **weights)
    forward, backward = trained(network, meta(7, 2, 4, requires_grad=True))
    # 7 places, 2 sequences, 5 channels, each a sum over 3 taps of 4; a bias for each, summed over 14 places.
    assert (forward[""].flop, forward[""].other_flop) == (2 * 14 * 5 * 12, 70)
    assert (backward[""].flop, backward[""].other_flop) == (2 * 2 * 14 * 5 * 12, 70 - 5)


@pytest.mark.parametrize(
    ("left", "right", "ends", "shape"),
    [
        ((64, 32), (4, 32, 48), 4, (64, 48)),  # rows of a group by the group's matrix
        ((4, 32, 16), (16, 48), 4, (32, 48)),
        ((32, 64), (64, 48), 4, (4, 32, 48)),  # sums over the columns of a group
        ((4, 8, 16), (4, 16, 24), None, (4, 8, 24)),
    ],
)
def test_grouped_products_have_the_shape_and_type_of_their_groups(left, right, ends, shape):
    ends = None if ends is None else meta(ends, dtype=torch.int32)
    found = grouped_output(meta(*left, dtype=torch.float16), meta(*right, dtype=torch.float16), ends)
    assert (tuple(found.shape), found.dtype, found.device.type) == (shape, torch.float16, "meta")
    assert grouped_output(meta(*left), meta(*right), ends, out_dtype=torch.bfloat16).dtype == torch.bfloat16
