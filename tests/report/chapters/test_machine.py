"""The appendix on the machines."""

from dataclasses import replace

import pytest
from helpers.world import world

from measure.domain.values import SPACE
from report import facts
from report.chapters.machine import tables
from report.paper import MACHINES


def test_machines_of_the_project_are_marked_in_a_readers_paper():
    cpu, gpu = world().machines
    ours = replace(gpu, folder=MACHINES[1])
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
        assert (found.is_virtual, found.is_loaded) == (name is not None, not found.at_hand.loaded.is_missing)


def test_the_processor_is_known_by_its_numbers_and_its_peak_is_a_product():
    found = facts.of_chapter("machine", world())
    # 10^9 additions in 0.5 s; 2 cores x 2 GHz x 32 FLOP = 128 GFLOP/s
    expected = {"cores": 2, "clock": 2e9, "per_cycle": 32, "peak": 128e9}
    assert {key: getattr(found.processor, key).number for key in expected} == pytest.approx(expected)
    assert str(found.processor.microarchitecture) == "Example core"
    assert str(found.processor.numbers) == "ExampleVendor, family 1, model 5"
    assert (found.known, found.is_rated, found.has_peak, found.is_host) == (True, True, True, False)


def test_a_processor_without_a_row_or_a_clock_has_no_peak():
    (cpu, gpu) = world().machines
    unknown = facts.of_chapter("machine", replace(world(), machines=(on(cpu, cpu_model=99),)))
    assert (unknown.known, unknown.is_rated, unknown.has_peak) == (False, False, False)
    assert str(unknown.processor.numbers) == "ExampleVendor, family 1, model 99"
    still = facts.of_chapter("machine", replace(world(), machines=(replace(cpu, clock_hz=None),)))
    assert (still.known, still.is_rated, still.has_peak, still.processor.per_cycle.number) == (True, True, False, 32)
    numbers = {name: getattr(cpu.environment, name) for name in ("cpu_vendor", "cpu_family", "cpu_model")}
    host = facts.of_chapter("machine", replace(world(), machines=(on(gpu, vector_extension="avx2", **numbers),)))
    assert (host.known, host.has_peak, host.is_host) == (True, False, True)


def test_the_table_of_peaks_has_the_product_and_what_was_measured():
    line = next(line for line in tables.peaks.__wrapped__(world()).splitlines() if "fp32" in line)
    cells = [cell.strip().replace("\\", "").replace(SPACE, " ") for cell in line[1:-1].split("|")]
    assert cells[:6] == [
        "fp32", "avx2", "2 cores × 2.00 GHz × 32 FLOP/cycle/core", "128 GFLOP/s", "100 GFLOP/s", "two units",
    ]  # fmt: skip
