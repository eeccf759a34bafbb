"""The appendix on the machines."""

from dataclasses import replace

from helpers.world import world

from report import facts
from report.paper import OF_AUTHORS


def test_machines_of_the_project_are_marked_in_a_readers_paper():
    cpu, gpu = world().machines
    ours = replace(gpu, folder=OF_AUTHORS[1])
    for machines, is_marked in (((cpu, gpu), False), ((cpu, ours), True), ((ours,), False), ((), False)):
        assert facts.of_chapter("machine", replace(world(), machines=machines)).marked == is_marked


def on(machine, **environment):
    return replace(machine, environment=replace(machine.environment, **environment))


def test_only_a_virtual_machine_has_a_hypervisor():
    (cpu, *_) = world().machines
    found = facts.of_chapter("machine", world())
    assert (found.several, str(found.at_hand.name)) == (True, world().at_hand.name)
    assert found.at_hand.threads.number == world().at_hand.environment.threads
    for hypervisor, name in (("KVM", "KVM"), ("none", None), (None, None)):
        found = facts.of_chapter("machine", replace(world(), machines=(on(cpu, hypervisor=hypervisor),)))
        assert (found.at_hand.hypervisor.text, found.several) == (name, False)
