from dataclasses import replace

from helpers.fleets import fleet
from helpers.papers import many
from helpers.sentences import plain

from report.analysis.available import Missing
from report.findings import fleet as findings
from report.findings import machines, speed_ups


def test_spread():
    assert plain(findings.spread(fleet(2, 1, 4))) == (
        "3 machines share cells at fp32. The fastest, student-2, runs them 2.00 times as fast as the median machine, "
        "the slowest, student-3, 0.500 times. Of 3 that are called Example CPU (4 cores) the fastest is 4.00 times as "
        "fast as the slowest: equal names are no equal machines; their measured peaks hardly differ (by a factor "
        "of 1.00)."
    )
    # Peaks of 100, 200 and 100 GFLOP/s
    text = plain(findings.spread(fleet(2, 1, 4, peaks=(1, 2))))
    assert text.endswith("no equal machines; their measured peaks differ, too (by a factor of 2.00).")


def test_machines_that_differ_little_or_in_name():
    assert plain(findings.spread(fleet(1, 1.02, 1.04))).endswith("1.04 times as fast as the slowest.")
    names = [replace(machine.environment, name=f"CPU {k}") for k, machine in enumerate(fleet(1, 2, 4).machines)]
    paper = fleet(1, 2, 4)
    renamed = [replace(machine, environment=name) for machine, name in zip(paper.machines, names, strict=True)]
    assert "called" not in findings.spread(replace(paper, machines=tuple(renamed)))


def test_one_machine():
    assert isinstance(findings.spread(fleet(1)), Missing)


def test_of_many_machines_three_are_held_against_the_first():
    text = plain(speed_ups.of_machines(fleet(1, 2, 4, 8, 16, 32)))
    # Speeds of 1/2 to 1/32 of the first: the slowest, the third of five and the fastest
    assert text.startswith("Of 5 other machines these are the slowest, one in the middle and the fastest. The Example ")
    assert [name for name in ("-2)", "-3)", "-4)", "-5)", "-6)") if f"student{name} shares" in text] == [
        "-2)", "-4)", "-6)"
    ]  # fmt: skip
    assert "Of 3 other" not in speed_ups.of_machines(fleet(1, 2, 4, 8))


def test_a_fleet_is_told_as_a_whole():
    paper = fleet(*[1] * 6, others=(many().machine("gpu"),))
    text = plain(machines.shown(paper))
    assert text.startswith(
        "The cache holds 7 machines: 6 called Example CPU (4 cores) and 1 called Example GPU. Figures"
    )
    # Six times 23 of 24 cells, and all of the GPU's 24
    assert "On all 7 machines together 162 of 168 cells that were tried were measured; none of these were" in text
    assert "student-3" not in text
    text = plain(machines.environments(paper))
    assert text.count(" ran torch ") == 3
    assert "Of all 7 machines 7 ran torch " in text
