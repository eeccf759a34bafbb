"""A roof that was measured beside other programs: the paper says so with the machine's name, and what to do."""

from dataclasses import replace

import pytest
from helpers.papers import REFERENCES
from helpers.rows import ENVIRONMENT, roof_measurement

from measure.cache.folders import MachineFolder
from report.analysis import available
from report.findings import roofs
from report.paper import load


def machine_with(data, product_load, stream_load):
    folder = MachineFolder(data, "box")
    folder.put_environment(ENVIRONMENT)
    product = replace(roof_measurement(), load=product_load)
    stream = replace(product, roof_kernel="stream_copy", precision="fp64", round=0, load=stream_load)
    folder.put_roof_measurements([product, stream])
    (machine,) = load(data, REFERENCES).machines
    return machine


def test_the_machines_name_says_that_its_roof_was_disturbed(tmp_path):
    machine = machine_with(tmp_path, 0.04, 0.62)
    assert machine.measured_roof.load == 0.62
    assert available.title(machine) == "Chip, of 2 cores (2 cores, roof measured beside other programs)"
    said = roofs.disturbed(machine)
    assert "Other programs used 62" in said
    assert "`python -m measure --device cpu --sections roofs` measures them again" in said


def test_of_a_roof_that_was_left_alone_nothing_is_said(tmp_path):
    machine = machine_with(tmp_path, 0.04, None)
    assert machine.measured_roof.load == 0.0
    assert available.title(machine) == "Chip, of 2 cores (2 cores)"
    assert roofs.disturbed(machine) == ""


def test_a_disturbed_row_is_no_roof_where_its_kernel_was_left_alone(tmp_path):
    folder = MachineFolder(tmp_path, "box")
    folder.put_environment(ENVIRONMENT)
    product = replace(roof_measurement(), pace="sustained", load=0.0)
    stream = replace(product, roof_kernel="stream_copy", precision="fp64", round=0)
    slow = replace(stream, round=1, latency_s=5.0, load=0.9)
    folder.put_roof_measurements([product, stream, slow])
    (machine,) = load(tmp_path, REFERENCES).machines
    # 768 B in 0.5 s (0.4 to 0.6), not the median with those in 5 s; one round has the interval of its samples
    roof = machine.roofs.iloc[0]
    ends = (roof.bandwidth_low_byte_per_s, roof.bandwidth_byte_per_s, roof.bandwidth_high_byte_per_s)
    assert ends == pytest.approx((1280, 1536, 1920))
    assert machine.measured_roof.load == 0.0
