from helpers.counting import by_hand, case, meta, registered_anew, torch

from measure.counting.formulas import register_other_flop
from measure.counting.windows import _poolings, _smoothing

IMAGE = meta(2, 3, 7, 5)  # 6 maps of 7 by 5
VOLUME = meta(2, 3, 4, 5, 6)
INDICES = meta(2, 3, 3, 2, dtype=torch.int64)
SMALL, CUBE = meta(2, 3, 3, 2), meta(2, 3, 2, 2, 2)  # maps of 3 by 2, and of 2 by 2 by 2

# Elements in all windows of a map. Windows of 3, stride 2: along 7 the starts 0, 2, 4 hold 3 each, 9; along 5 the
# starts 0, 2 hold 6. With padding 1: along 7 the starts -1, 1, 3, 5 hold 2 + 3 + 3 + 2 = 10; along 5 the starts -1, 1,
# 3 hold 2 + 3 + 2 = 7. Rounded up, windows of 3 and stride 3 along 7 start at 0, 3, 6 and hold 3 + 3 + 1 = 7, along 5
# at 0, 3: 3 + 2 = 5. With padding 1 and dilation 2, windows -1 1 3, 1 3 5 and 3 5 7 along 7 hold 2 + 3 + 2; -1 1 3 and
# 1 3 5 along 5 hold 2 + 2.
PLAIN, PADDED, CEILED, DILATED = 9 * 6, 10 * 7, 7 * 5, 7 * 4

# Adaptive, from 7 to 3: 0 to 3, 2 to 5, 4 to 7 hold 9; from 5 to 2: 0 to 3, 2 to 5 hold 6. They overlap.
ADAPTIVE = 9 * 6
# Windows of 2 by 2 by 3, stride 2, in a volume: 2 by 2 by 2 of them, 12 elements each. From 4, 5 and 6 to 2 each:
# 4 + 6 + 6 elements along the three.
CUBES, ADAPTIVE_CUBES = 8 * 12, 4 * 6 * 6


def poolings():
    for options, elements, outputs in [
        (([3, 3], [2, 2]), PLAIN, 6),
        (([3, 3], [2, 2], [1, 1]), PADDED, 12),
        (([3, 3], [], [0, 0], [1, 1], True), CEILED, 6),
        (([3], [1], [0], [2]), 9 * 3, 3),  # starts 0, 1, 2 along 7, 0 along 5
        (([3, 3], [2, 2], [1, 1], [2, 2]), DILATED, 6),
    ]:
        # a comparison less than elements
        yield case("max_pool2d_with_indices", IMAGE, *options, other=6 * (elements - outputs))
    yield case("adaptive_max_pool2d", IMAGE, [3, 2], other=6 * (ADAPTIVE - 6))
    for options, elements in [
        (([3, 3], [2, 2]), PLAIN),
        (([3, 3], [2, 2], [1, 1], False, False), PADDED),  # padding may count as a divisor, never as an addition
        (([3, 3], [], [0, 0], True), CEILED),
    ]:
        yield case("avg_pool2d", IMAGE, *options, other=6 * elements)  # additions, and a division
    yield case("max_pool3d_with_indices", VOLUME, [2, 2, 3], [2, 2, 2], other=6 * (CUBES - 8))
    yield case("avg_pool3d", VOLUME, [2, 2, 3], [2, 2, 2], other=6 * CUBES)
    yield case("adaptive_max_pool3d", VOLUME, [2, 2, 2], other=6 * (ADAPTIVE_CUBES - 8))
    yield case("_adaptive_avg_pool3d", VOLUME, [2, 2, 2], other=6 * ADAPTIVE_CUBES)
    yield case("_adaptive_avg_pool2d", IMAGE, [3, 2], other=6 * ADAPTIVE)
    # Of random regions
    yield case("fractional_max_pool2d", IMAGE, [3, 2], [2, 2], meta(2, 3, 2), other=24 * 5, out=(meta(2, 3, 2, 2),))
    yield case("fractional_max_pool3d", VOLUME, [2] * 3, [2] * 3, meta(2, 3, 3), other=48 * 7, out=(CUBE,))
    # By a library's name
    yield case("mkldnn_max_pool2d", IMAGE, [3, 3], [2, 2], [1, 1], other=6 * (PADDED - 12), out=meta(2, 3, 4, 3))
    dilated = ([3, 3], [2, 2], [1, 1], [2, 2])
    yield case("mkldnn_max_pool2d", IMAGE, *dilated, other=6 * (DILATED - 6), out=SMALL)
    # Along 4 windows of 2, 4 elements; along 5 windows 0 2 and 2 4; along 6 windows 0 to 2 and 2 to 4.
    dilated = ([2, 2, 3], [2, 2, 2], [0] * 3, [1, 2, 1])
    yield case("mkldnn_max_pool3d", VOLUME, *dilated, other=6 * (4 * 4 * 6 - 8), out=CUBE)
    yield case("mkldnn_adaptive_avg_pool2d", IMAGE, [3, 2], other=6 * ADAPTIVE, out=SMALL)


def pooling_backwards():
    # An addition for each gradient of an output of 3 by 2; an average first divides each, and adds it to its window.
    choice, once = ([3, 3], [2, 2], [0, 0], [1, 1], False, INDICES), ([2] * 3,) * 4
    where = meta(2, 3, 2, 2, 2, dtype=torch.int64)
    yield case("max_pool2d_with_indices_backward", SMALL, IMAGE, *choice, other=36)
    yield case("adaptive_max_pool2d_backward", SMALL, IMAGE, INDICES, other=36)
    yield case("max_pool3d_with_indices_backward", CUBE, VOLUME, *once, False, where, other=48, out=())
    yield case("adaptive_max_pool3d_backward", CUBE, VOLUME, where, other=48, out=())
    for dimensions, gradient in ((2, SMALL), (3, CUBE)):
        added = gradient.numel()
        name = f"fractional_max_pool{dimensions}d_backward"
        yield case(name, gradient, VOLUME, [2], [2], INDICES, other=added, out=())
        yield case(f"mkldnn_max_pool{dimensions}d_backward", gradient, gradient, VOLUME, [2], other=added, out=())
    padded = ([3, 3], [2, 2], [1, 1], False, True, None)
    yield case("avg_pool2d_backward", meta(2, 3, 4, 3), IMAGE, *padded, other=72 + 6 * PADDED)
    shape = ([2, 2, 3], [2, 2, 2], [0, 0, 0], False, True, None)
    yield case("avg_pool3d_backward", CUBE, VOLUME, *shape, other=48 + 6 * CUBES)
    for name in ("_adaptive_avg_pool2d_backward", "mkldnn_adaptive_avg_pool2d_backward"):
        yield case(name, SMALL, IMAGE, other=36 + 6 * ADAPTIVE, out=())
    for name in ("_adaptive_avg_pool3d_backward", "adaptive_avg_pool3d_backward"):
        yield case(name, CUBE, VOLUME, other=48 + 6 * ADAPTIVE_CUBES, out=())


def repetitions():
    """An addition for each gradient of an output, whatever was repeated."""
    for dimensions in (1, 2, 3):
        gradient = meta(2, 3, *[6] * dimensions)
        for name in ("upsample_nearest", "_upsample_nearest_exact", "reflection_pad", "replication_pad"):
            yield case(f"{name}{dimensions}d_backward", gradient, other=6 * 6**dimensions, out=())
    yield case("col2im", meta(2, 12, 20), [6, 5], [2, 2], [1, 1], [0, 0], [1, 1], other=2 * 12 * 20)
    yield case("unfold_backward", meta(3, 3), [5], 0, 3, 1, other=9)


def interpolations():
    """A line of 2 is 3 operations, of 4 is 7; backward a product and an addition for each element of it."""
    for name, size, line, back in [
        ("upsample_linear1d", [9], 3, 2 * 2),
        ("upsample_bilinear2d", [9, 8], 2 * 3 + 3, 2 * 4),  # two lines, and one across
        ("upsample_trilinear3d", [5, 6, 7], 4 * 3 + 2 * 3 + 3, 2 * 8),
        ("upsample_bicubic2d", [9, 8], 4 * 7 + 7, 2 * 16),
    ]:
        inputs, out = meta(2, 3, *[4] * len(size)), meta(2, 3, *size)
        yield case(name, inputs, size, False, other=out.numel() * line)
        yield case(f"{name}_backward", out, size, inputs.shape, False, other=out.numel() * back)


def smoothings():
    """Interpolation without aliases: 6 maps from 7 by 5 to 3 by 2, a line along the width and then along the height.

    Centres 7/6, 3.5 and 35/6 weigh elements up to the step of 7/3 away: rounded, 0 to 4, 1 to 6 and 4 to 7 (4 + 5 + 3);
    along 5, with 2.5, centres 1.25 and 3.75: 0 to 4 and 1 to 5 (4 + 4). Bicubic reaches twice as far, 14/3: 0 to 6, 0
    to 7 and 1 to 7 (6 + 7 + 6); 5: all of 5 (10). Lanczos thrice, all of 7 and of 5.
    """
    for kind, tall, wide in (("bilinear", 12, 8), ("bicubic", 19, 10), ("lanczos", 21, 10)):
        name = f"_upsample_{kind}2d_aa"
        # 7 rows, each of two lines of ``wide`` weights; two columns, each of three lines.
        forward = 6 * (7 * (2 * wide - 2) + 2 * (2 * tall - 3))
        yield case(name, IMAGE, [3, 2], False, other=forward, out=SMALL)
        yield case(f"{name}_backward", SMALL, [3, 2], [2, 3, 7, 5], False, other=6 * 2 * tall * wide, out=IMAGE)
    # Twice as large, centres 1/4, 3/4 ... 15/4 weigh elements up to 1 away: 1 of them at both ends, else 2: 14.
    small, big = meta(1, 1, 4, 4), meta(1, 1, 8, 8)
    yield case("_upsample_bilinear2d_aa", small, [8, 8], False, other=4 * (28 - 8) + 8 * (28 - 8), out=big)
    # With aligned corners steps of 3/7: 1 element at 3/14, else 2, 15; one output at 0 weighs 1 of them.
    yield case("_upsample_bilinear2d_aa", small, [8, 8], True, other=(4 + 8) * (30 - 8), out=big)
    yield case("_upsample_bilinear2d_aa", small, [1, 1], True, other=4 * (2 - 1) + 1 * (2 - 1), out=meta(1, 1, 1, 1))


CASES = [*poolings(), *pooling_backwards(), *repetitions(), *interpolations(), *smoothings()]

test_by_hand = by_hand(CASES)


def register_factories():
    for dimensions in (2, 3):
        register_other_flop(_poolings(dimensions))
    for kind, reach in (("bilinear", 1), ("bicubic", 2), ("lanczos", 3)):
        register_other_flop({f"_upsample_{kind}2d_aa{end}": count for end, count in _smoothing(reach).items()})


test_poolings_and_smoothings_made_anew = registered_anew(CASES, register_factories)
