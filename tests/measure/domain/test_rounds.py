from helpers.rows import run, samples

from measure.domain.latency import Cell, of_cells


def test_the_samples_of_a_round_are_those_of_its_run():
    runs = [run(round_=0), run(round_=1), run("other")]
    timed = [*samples(2, round_=0), *samples(1, round_=1), *samples(1, round_=2)]  # the last has no run
    rounds = of_cells(runs, timed)
    assert set(rounds) == {Cell.of(runs[0]), Cell.of(runs[2])}
    assert rounds[Cell.of(runs[0])].latencies == ((0.1, 1.1), (0.1,))
    assert rounds[Cell.of(runs[2])].latencies == ()


def test_a_round_with_a_result_decides_and_without_one_the_first_failure():
    failed, late = run(status="oom", reason="first", round_=0), run(status="timeout", reason="second", round_=1)
    (rounds,) = of_cells([failed, late], []).values()
    assert rounds.deciding == failed
    ok = run(round_=2)
    (rounds,) = of_cells([failed, ok], samples(1, round_=2)).values()
    assert (rounds.deciding, rounds.latencies) == (ok, ((0.1,),))
