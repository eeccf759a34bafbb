from report.analysis.effect import Effect, median_of


def test_an_effect():
    assert Effect(0.25, None, 3).size == 4
    assert [Effect(2.0, interval, 6).side for interval in (None, (1.1, 3), (0.9, 3), (0.5, 0.9))] == [0, 1, 0, -1]
    # 6.6 / 2.0 is a wide interval, 1.9 / 1.7 a narrow one
    assert str(Effect(3.07, (1.98, 6.56), 24)) == "3.1 (2.0 to 6.6)"
    assert str(Effect(1.8, (1.7, 1.9), 24)) == "1.80 (1.70 to 1.90)"
    assert str(Effect(1.8, None, 3)) == "1.8"


def test_median_of():
    # Of six values the ends enclose the median with 1 - 2 / 64, 97 %; of five with 94 % only
    assert median_of([6, 1, 5, 2, 4, 3]) == Effect(3.5, (1, 6), 6)
    assert median_of([5, 1, 4, 2, 3]) == Effect(3, None, 5)
