import torchvision  # noqa: F401 - registers its operators
from helpers.counting import by_hand, case, meta, torch

IMAGE, VOLUME = meta(2, 3, 7, 5), meta(2, 3, 4, 5, 6)


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


def other_samplings():
    # 2 volumes, 4 by 6 by 5 places, 3 channels: 240 places, 720 outputs. A place is scaled, moved and rounded down
    # along three axes (9), and for linear weights subtracted (3). An output is 4 + 2 + 1 lines (21).
    grid, out = meta(2, 4, 6, 5, 3), meta(2, 3, 4, 6, 5)
    yield case("grid_sampler_3d", VOLUME, grid, 0, 0, False, other=12 * 240 + 21 * 720)
    yield case("grid_sampler_3d", VOLUME, grid, 1, 0, False, other=9 * 240)
    # Backward. Input: three weights from 1, four products of two and eight of three (15); eight products and additions
    # an output (16). Grid: of eight corners, four differences along x and three lines of them (4 + 9); four lines along
    # x of the same differences (8), two differences along y and a line of them (2 + 3); two lines along y (4), their
    # difference (1); three slopes by g and summed over 3 channels (6 an output less 3 a place), by half the sizes (3).
    into_input, into_grid = 15 * 240 + 16 * 720, (13 + 13 + 5 + 6) * 720
    for mask, other in (((True, True), into_input + into_grid), ((False, True), into_grid)):
        yield case("grid_sampler_3d_backward", out, VOLUME, grid, 0, 0, False, mask, other=12 * 240 + other, out=())
    # Bicubic, 48 places and 144 outputs: weights of four taps along two axes, ((a x + b) x + c) x + d without one term
    # (5, 5) or with all (6, 6), at x + 1, x, 1 - x, 2 - x (3): 25; four lines of 4 products and 3 additions, and one
    # across (35). Backward: 16 weights, 16 products and additions; slopes of the weights (a x + b) x (+ c) of 3, 3, 4
    # and 4 along two axes; five lines along each axis (70), by g and summed (4).
    grid, out = meta(2, 4, 6, 2), meta(2, 3, 4, 6)
    places = (8 + 2 * 25) * 48
    yield case("grid_sampler_2d", IMAGE, grid, 2, 0, False, other=places + 35 * 144)
    other = places + 16 * 48 + 32 * 144 + 28 * 48 + 74 * 144
    yield case("grid_sampler_2d_backward", out, IMAGE, grid, 2, 0, False, (True, True), other=other, out=())
    # By other names, bilinear
    forward, back = 8 * 48 + 9 * 144, 8 * 48 + 6 * 48 + 8 * 144 + 14 * 144
    yield case("_grid_sampler_2d_cpu_fallback", IMAGE, grid, 0, 0, False, other=forward, out=out)
    both = (0, 0, False, (True, True))
    yield case("_grid_sampler_2d_cpu_fallback_backward", out, IMAGE, grid, *both, other=back, out=())
    yield case("cudnn_grid_sampler", IMAGE, grid, other=forward, out=out)
    yield case("cudnn_grid_sampler_backward", IMAGE, grid, out, other=back, out=())
    # A matrix of 2 by 3 for each of 2 images, by 4 by 6 places; of 3 by 4 by 4 by 6 by 5 places.
    yield case("affine_grid_generator", meta(2, 2, 3), [2, 3, 4, 6], False, flop=2 * 2 * 24 * 2 * 3)
    yield case("affine_grid_generator", meta(2, 3, 4), [2, 3, 4, 6, 5], False, flop=2 * 2 * 120 * 3 * 4)
    yield case("cudnn_affine_grid_generator", meta(2, 2, 3), 2, 3, 4, 6, flop=2 * 2 * 24 * 2 * 3, out=grid)
    yield case("cudnn_affine_grid_generator_backward", grid, 2, 3, 4, 6, flop=2 * 2 * 24 * 2 * 3, out=())


def regions():
    """4 regions of 3 by 2 bins, each the mean of 2 by 2 places: 96 places. 5 channels: 120 means of 480 values."""
    boxes, out, mapping = meta(4, 5), meta(4, 5, 3, 2), meta(4, 5, 3, 2, dtype=torch.int32)
    # A place is 8 and a value three lines; three additions and a division. Backward: the places, four weights (6), a
    # division, four products and additions a value.
    forward, back = 8 * 96 + 9 * 480 + 4 * 120, (8 + 6) * 96 + 120 + 8 * 480
    image, size = meta(2, 5, 7, 5), (2, 5, 7, 5)
    yield case("torchvision::roi_align", image, boxes, 1.0, 3, 2, 2, False, other=forward, out=out)
    yield case("torchvision::_roi_align_backward", out, boxes, 1.0, 3, 2, *size, 2, False, other=back, out=image)
    # Each bin has channels of its own: 5 of 30.
    thirty, size = meta(2, 30, 7, 5), (2, 30, 7, 5)
    yield case("torchvision::ps_roi_align", thirty, boxes, 1.0, 3, 2, 2, other=forward, out=(out, mapping))
    call = (out, boxes, mapping, 1.0, 3, 2, 2, *size)
    yield case("torchvision::_ps_roi_align_backward", *call, other=back, out=thirty)
    # An addition each, to the largest element of a bin
    call = (out, boxes, mapping, 1.0, 3, 2, 2, 5, 7, 5)
    yield case("torchvision::_roi_pool_backward", *call, other=120, out=image)


CASES = [*samplings(), *other_samplings(), *regions(), *deformations()]

test_by_hand = by_hand(CASES)


def test_bins_of_unknown_size_have_no_formula():
    for ratio in (-1, 0):
        call = IMAGE, meta(4, 5), 1.0, 3, 2, ratio, False
        assert case("torchvision::roi_align", *call, out=meta(4, 5, 3, 2)).counted() is None
