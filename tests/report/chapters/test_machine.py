"""The appendix on the machines."""

from dataclasses import replace

from helpers.world import world

from report import facts
from report.chapters.machine import tables
from report.paper.printed import FlopPerCycle


def on(machine, **environment):
    return replace(machine, environment=replace(machine.environment, **environment))


ZEN_4 = FlopPerCycle("AuthenticAMD", 25, "16-31", "Zen 4", "avx2", "fp32", 32, "a", "")


def test_the_machine_at_hand_is_described_and_only_a_virtual_one_has_a_hypervisor():
    (cpu, *_) = world().machines
    found = facts.of_chapter("machine", world())
    assert (found.machines.number, found.several, str(found.at_hand.name)) == (2, True, world().at_hand.name)
    assert found.at_hand.threads.number == world().at_hand.environment.threads
    for said, known in (("KVM", "KVM"), ("none", None), (None, None)):
        found = facts.of_chapter("machine", replace(world(), machines=(on(cpu, hypervisor=said),)))
        assert (found.at_hand.hypervisor.text, found.several) == (known, False)


def test_the_year_is_that_of_the_chip_or_else_of_its_microarchitecture():
    (cpu, *_) = world().machines
    named = on(cpu, name=world().chips.chip.iloc[0])
    assert tables.year(world(), named) == world().chips.year.iloc[0]
    virtual = on(cpu, name="AMD EPYC", cpu_vendor="AuthenticAMD", cpu_family=25, cpu_model=17, vector_extension="avx2")
    genoa = world().chips.iloc[:2].assign(die="Zen 4 CCD", year=[2024, 2022], chip=["EPYC of 2024", "EPYC of 2022"])
    known = replace(world(), flop_per_cycle=(ZEN_4,), chips=genoa)
    assert tables.year(known, virtual) == 2022
    assert tables.year(replace(world(), flop_per_cycle=()), virtual) is None
    unheard_of = replace(known, flop_per_cycle=(replace(ZEN_4, microarchitecture="Zen 9"),))
    assert tables.year(unheard_of, virtual) is None
