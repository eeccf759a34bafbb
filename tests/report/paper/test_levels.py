from report.paper.roofs import Level, find_levels

SIZES = [round(2 ** (step / 2)) for step in range(40)]
"""Two for each factor of two, from 1 on."""


def staircase(*steps, noise=()):
    """Rates by size: each step is the first size that it serves, and its rate; noise replaces some of them."""
    rates = {size: next(rate for first, rate in reversed(steps) if size >= first) for size in SIZES}
    return rates | dict(noise)


def bounds(rates):
    return [(level.first_byte, level.last_byte) for level in find_levels(rates)]


def test_a_staircase_has_a_level_for_each_step():
    # 2^(13/2) = 90.5, 2^7 = 128 is the first of the second step; 2^(19/2) = 724, 2^10 = 1024
    assert bounds(staircase((1, 400), (100, 200), (1000, 30))) == [(1, 91), (128, 724), (1024, SIZES[-1])]


def test_one_step_is_one_level():
    assert bounds(staircase((1, 50))) == [(1, SIZES[-1])]


def test_what_lies_between_two_levels_belongs_to_neither():
    slope = {128: 150, 181: 110, 256: 80, 362: 55}  # each more than 10 % from the next
    assert bounds(staircase((1, 200), (400, 40), noise=slope.items())) == [(1, 91), (512, SIZES[-1])]


def test_a_disturbance_within_a_level_does_not_split_it():
    assert bounds(staircase((1, 200), (1000, 40), noise=[(45, 120)])) == [(1, 724), (1024, SIZES[-1])]


def test_overhead_on_small_working_sets_is_no_level():
    # Rising to the rate of the first level, as where starting a kernel takes longer than its work.
    rising = {1: 20, 2: 40, 3: 60, 4: 62, 6: 61}
    assert bounds(staircase((1, 200), (1000, 40), noise=rising.items())) == [(8, 724), (1024, SIZES[-1])]


def test_rates_that_wander_by_less_than_a_tenth_are_one_level():
    wandering = {size: 100 * (1.04 if at % 2 else 0.96) for at, size in enumerate(SIZES)}
    assert bounds(wandering) == [(1, SIZES[-1])]


def test_levels_as_near_as_a_fifth_are_two():
    assert bounds(staircase((1, 115), (100, 95))) == [(1, 91), (128, SIZES[-1])]


def test_the_largest_working_set_is_in_the_last_level_whatever_its_rate():
    """Nothing that a cache serves is taken for memory."""
    assert bounds(staircase((1, 100), noise=[(SIZES[-1], 20)])) == [(1, SIZES[-2]), (SIZES[-1], SIZES[-1])]


def test_few_working_sets():
    assert find_levels({}) == []
    assert bounds({8: 10.0}) == [(8, 8)]
    assert bounds({8: 10.0, 16: 1.0}) == [(16, 16)]


def test_a_level_holds_its_ends():
    level = Level(10, 20)
    assert [level.holds(size) for size in (9, 10, 20, 21)] == [False, True, True, False]
