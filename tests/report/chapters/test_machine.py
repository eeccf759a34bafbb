"""The appendix on the machines."""

from dataclasses import replace

import pytest
from helpers.papers import empty, tiny

from report import facts
from report.chapters.machine import tables
from report.display import Missing
from report.paper.printed import FlopPerCycle


def on(machine, **environment):
    return replace(machine, environment=replace(machine.environment, **environment))


def zen4(**changed):
    columns = {
        "vendor": "AuthenticAMD", "family": 25, "models": "16-31", "microarchitecture": "Zen 4",
        "vector_extension": "avx2", "precision": "fp32", "flop_per_cycle": 32, "source": "a", "note": "",
    }  # fmt: skip
    return FlopPerCycle(**columns | changed)


def test_the_machine_at_hand_is_described_and_several_are_told():
    found = facts.of_chapter("machine", tiny())
    assert found.machines.number == len(tiny().machines) == 2
    assert found.several
    assert str(found.at_hand.name) == tiny().at_hand.name
    assert found.at_hand.threads.number == tiny().at_hand.environment.threads


def test_only_a_virtual_machine_has_a_hypervisor():
    (cpu, *_) = tiny().machines
    for said, known in (("KVM", "KVM"), ("none", None), (None, None)):
        found = facts.of_chapter("machine", replace(tiny(), machines=(on(cpu, hypervisor=said),)))
        assert found.at_hand.hypervisor.text == known
        assert not found.several


def test_the_year_is_that_of_the_chip_or_else_of_its_microarchitecture():
    (cpu, *_) = tiny().machines
    named = on(cpu, name=tiny().chips.chip.iloc[0])
    assert tables.year(tiny(), named) == tiny().chips.year.iloc[0]
    virtual = on(cpu, name="AMD EPYC", cpu_vendor="AuthenticAMD", cpu_family=25, cpu_model=17, vector_extension="avx2")
    genoa = tiny().chips.iloc[:2].assign(die="Zen 4 CCD", year=[2024, 2022], chip=["EPYC of 2024", "EPYC of 2022"])
    known = replace(tiny(), flop_per_cycle=(zen4(),), chips=genoa)
    assert tables.year(known, virtual) == 2022
    assert tables.year(replace(tiny(), flop_per_cycle=()), virtual) is None
    unheard_of = replace(known, flop_per_cycle=(zen4(microarchitecture="Zen 9"),))
    assert tables.year(unheard_of, virtual) is None


def test_a_row_says_what_the_system_reports():
    lines = tables.machines.__wrapped__(tiny()).splitlines()
    assert len(lines) == 2 + len(tiny().machines)
    assert f"PyTorch {tiny().at_hand.environment.torch}".replace(".", "\\.") in lines[2]


def test_without_a_machine_there_is_a_command_and_no_table():
    with pytest.raises(Missing, match="python -m measure"):
        tables.machines.__wrapped__(empty())
    found = facts.of_chapter("machine", empty())
    assert all(value.is_missing for _, value, _ in facts.entries("machine", found))
