import pytest
from helpers.counting import case, meta, named, nn, recorder, torch, total, trained
from torch.nn import functional

IMAGE = meta(2, 3, 7, 5)  # 6 maps of 7 by 5
VOLUME = meta(2, 3, 4, 5, 6)
INDICES = meta(2, 3, 3, 2, dtype=torch.int64)

# Elements in all windows of a map. Windows of 3, stride 2: along 7 the starts 0, 2, 4 hold 3 each, 9; along 5 the
# starts 0, 2 hold 6. With padding 1: along 7 the starts -1, 1, 3, 5 hold 2 + 3 + 3 + 2 = 10; along 5 the starts -1, 1,
# 3 hold 2 + 3 + 2 = 7. Rounded up, windows of 3 and stride 3 along 7 start at 0, 3, 6 and hold 3 + 3 + 1 = 7, along 5
# at 0, 3: 3 + 2 = 5. With dilation 2, windows 0 2 4, 2 4 6 along 7: 6 elements; along 5 one: 3.
PLAIN, PADDED, CEILED, DILATED = 9 * 6, 10 * 7, 7 * 5, 6 * 3

# Adaptive, from 7 to 3: 0 to 3, 2 to 5, 4 to 7 hold 9; from 5 to 2: 0 to 3, 2 to 5 hold 6. They overlap.
ADAPTIVE = 9 * 6


def poolings():
    for name, options, elements, outputs in [
        ("max_pool2d_with_indices", ([3, 3], [2, 2]), PLAIN, 6),
        ("max_pool2d_with_indices", ([3, 3], [2, 2], [1, 1]), PADDED, 12),
        ("max_pool2d_with_indices", ([3, 3], [], [0, 0], [1, 1], True), CEILED, 6),
        ("max_pool2d_with_indices", ([3], [1], [0], [2]), 9 * 3, 3),  # starts 0, 1, 2 along 7, 0 along 5
        ("max_pool2d_with_indices", ([3, 3], [2, 2], [0, 0], [2, 2]), DILATED, 2),
        ("max_pool2d_with_indices", ([3, 2], [2, 1]), 9 * 8, 12),  # windows of 2 along 5, stride 1: 4 of them
        ("adaptive_max_pool2d", ([3, 2],), ADAPTIVE, 6),
    ]:
        yield case(name, IMAGE, *options, other=6 * (elements - outputs))  # a comparison less than elements
        yield case(name, IMAGE[0], *options, other=3 * (elements - outputs))  # an image that is no batch
    for options, elements in [
        (([3, 3], [2, 2]), PLAIN),
        (([3, 3], [2, 2], [1, 1]), PADDED),
        (([3, 3], [2, 2], [1, 1], False, False), PADDED),  # padding may count as a divisor, never as an addition
        (([3, 3], [], [0, 0], True), CEILED),
        (([7, 5],), 35),
    ]:
        yield case("avg_pool2d", IMAGE, *options, other=6 * elements)  # additions, and a division
        yield case("avg_pool2d", IMAGE[0], *options, other=3 * elements)
    # Volumes: windows of 2 by 2 by 3, stride 2: 2 by 2 by 2 of them, and 6 maps; 12 elements each
    yield case("max_pool3d_with_indices", VOLUME, [2, 2, 3], [2, 2, 2], other=6 * 8 * 11)
    yield case("avg_pool3d", VOLUME, [2, 2, 3], [2, 2, 2], other=6 * 8 * 12)
    # From 4, 5 and 6 to 2 each: 4 + 6 + 6 elements along the three.
    yield case("adaptive_max_pool3d", VOLUME, [2, 2, 2], other=6 * (4 * 6 * 6 - 8))
    yield case("_adaptive_avg_pool3d", VOLUME, [2, 2, 2], other=6 * 4 * 6 * 6)
    yield case("_adaptive_avg_pool2d", IMAGE, [3, 2], other=6 * ADAPTIVE)
    yield case("_adaptive_avg_pool2d", IMAGE, [1, 1], other=6 * 35)


def pooling_backwards():
    # An addition for each gradient of an output of 3 by 2; an average first divides each, and adds it to its window.
    largest, choice = meta(2, 3, 3, 2), ([3, 3], [2, 2], [0, 0], [1, 1], False, INDICES)
    yield case("max_pool2d_with_indices_backward", largest, IMAGE, *choice, other=36)
    yield case("adaptive_max_pool2d_backward", largest, IMAGE, INDICES, other=36)
    average = ([3, 3], [2, 2], [0, 0], False, True, None)
    yield case("avg_pool2d_backward", largest, IMAGE, *average, other=36 + 6 * PLAIN)
    padded = ([3, 3], [2, 2], [1, 1], False, True, None)
    yield case("avg_pool2d_backward", meta(2, 3, 4, 3), IMAGE, *padded, other=72 + 6 * PADDED)
    yield case("_adaptive_avg_pool2d_backward", largest, IMAGE, other=36 + 6 * ADAPTIVE)
    cube, where = meta(2, 3, 2, 2, 2), meta(2, 3, 2, 2, 2, dtype=torch.int64)
    yield case("max_pool3d_with_indices_backward", cube, VOLUME, *([2] * 3,) * 4, False, where, other=48, out=())
    yield case("adaptive_max_pool3d_backward", cube, VOLUME, where, other=48, out=())
    shape = ([2, 2, 3], [2, 2, 2], [0, 0, 0], False, True, None)
    yield case("avg_pool3d_backward", cube, VOLUME, *shape, other=48 + 6 * 8 * 12)
    yield case("_adaptive_avg_pool3d_backward", cube, VOLUME, other=48 + 6 * 4 * 6 * 6)


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


def samplings():
    # 2 images of 4 by 6 places, 3 channels: 48 places, 144 outputs. A place is scaled and moved (4), rounded down (2)
    # and for bilinear weights subtracted (2). An output is 3 lines of a + w (b - a).
    grid, out = meta(2, 4, 6, 2), meta(2, 3, 4, 6)
    yield case("grid_sampler_2d", IMAGE, grid, 0, 0, False, other=8 * 48 + 9 * 144)
    yield case("grid_sampler_2d", IMAGE, grid, 1, 0, False, other=6 * 48)
    # Backward, the places again. Input: weights 1 - u, 1 - v and four products a place; four products and additions
    # an output. Grid: b - a, d - c; one line of them, 3; two lines a + u (b - a), 4; their difference, 1; both slopes
    # times g, 2, and summed over 3 channels, 2 * 2 a place; times half the sizes, 2 a place.
    into_input = (2 + 4) * 48 + 8 * 144
    into_grid = (2 + 3 + 4 + 1 + 2) * 144 + (4 + 2) * 48
    for mask, other in [
        ((True, True), into_input + into_grid),
        ((True, False), into_input),
        ((False, True), into_grid),
    ]:
        yield case("grid_sampler_2d_backward", out, IMAGE, grid, 0, 0, False, mask, other=8 * 48 + other, out=())
    nearest = (1, 0, False, (True, True))
    yield case("grid_sampler_2d_backward", out, IMAGE, grid, *nearest, other=6 * 48 + 144, out=())


def deformations():
    """16 places of 9 taps, each at a place of its own (144) of 3 channels (432 values), and 5 channels of outputs."""
    image, weight, bias, out = meta(1, 3, 6, 6), meta(5, 3, 3, 3), meta(5), meta(1, 5, 4, 4)
    offset, mask, how = meta(1, 18, 4, 4), meta(1, 9, 4, 4), (1, 1, 0, 0, 1, 1, 1, 1)
    # Each of 80 outputs sums 27 products. A place: an offset, rounding and a remainder for two coordinates (6); a
    # value: three lines (9), a mask's product (1). Backward: the input's four weights a place (6), four products and
    # additions a value (8); an offset's slope a value (5 + 5 + 4) less an addition for two sums a place (2); the mask's
    # product, its sum and the masked gradient (3); the bias's sum 80 - 5.
    for masked in (False, True):
        sampling = 6 * 144 + (9 + masked) * 432
        call = image, weight, offset, mask, bias, *how, masked
        yield case("torchvision::deform_conv2d", *call, flop=4320, other=sampling + 80, out=out)
        other = 6 * 144 + 8 * 432 + 14 * 432 - 2 * 144 + 3 * 432 * masked + 75
        backward = {"flop": 2 * 4320, "other": other, "recompute": sampling}
        yield case("torchvision::_deform_conv2d_backward", out, *call, **backward, out=())


CASES = [*deformations(), *poolings(), *pooling_backwards(), *repetitions(), *interpolations(), *samplings()]


@pytest.mark.parametrize(**named(CASES))
def test_by_hand(case):
    assert case.counted() == case.work


@pytest.mark.parametrize(
    ("layer", "shape", "forward", "backward"),
    [
        # lines: windows of 3 and stride 2 in 7 hold 9 elements, 3 windows
        (nn.MaxPool1d(3, 2), (2, 3, 7), 6 * (9 - 3), 6 * 3),
        (nn.AvgPool1d(3, 2), (2, 3, 7), 6 * 9, 6 * (3 + 9)),
        (nn.AdaptiveAvgPool1d(3), (2, 3, 7), 6 * 9, 6 * (3 + 9)),
        (nn.AdaptiveMaxPool1d(3), (2, 3, 7), 6 * (9 - 3), 6 * 3),
        (nn.MaxPool2d(3, 2, padding=1), (2, 3, 7, 5), 6 * (70 - 12), 6 * 12),
        (nn.AvgPool2d(3, 3, ceil_mode=True), (2, 3, 7, 5), 6 * 35, 6 * (6 + 35)),
        # over the whole map it is a mean: a sum, and a division; backward a division that all share
        (nn.AdaptiveAvgPool2d(1), (2, 3, 7, 5), 6 * 35, 6 * 35),
        (nn.Upsample(scale_factor=2), (2, 3, 4, 4), 0, 6 * 64),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 4, 4), 9 * 6 * 64, 8 * 6 * 64),
        (nn.ReflectionPad2d(1), (2, 3, 4, 4), 0, 6 * 36),
        (nn.ZeroPad2d(1), (2, 3, 4, 4), 0, 0),
        (nn.Unfold(2), (2, 3, 4, 4), 0, 2 * 12 * 9),
        (nn.PixelShuffle(2), (2, 4, 3, 3), 0, 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_layers(layer, shape, forward, backward):
    parts = trained(layer, meta(*shape, requires_grad=True))
    assert (total(parts[0], "other_flop"), total(parts[1], "other_flop")) == (forward, backward)


def test_sampling_takes_what_its_parts_take():
    def in_parts(image, grid):
        x, y = (grid[..., axis] * 3.5 + 3.0 for axis in (0, 1))
        u, v = ((place - place.floor()).unsqueeze(1) for place in (x, y))
        a, b, c, d = (image[:, :, :4, :6] for _ in range(4))  # the corners, looked up
        upper, lower = a + u * (b - a), c + u * (d - c)
        return upper + v * (lower - upper)

    image, grid = meta(2, 3, 7, 6), meta(2, 4, 6, 2)
    counts = []
    for sample in (in_parts, lambda image, grid: functional.grid_sample(image, grid, align_corners=False)):

        class Network(nn.Module):
            def forward(self, image, grid, sample=sample):
                return sample(image, grid)

        counts.append(recorder.record_inference(Network(), [image, grid])[0].forward.total("other_flop"))
    assert counts[0] == counts[1] > 0
