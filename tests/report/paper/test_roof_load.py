"""A roof that was measured next to other programs."""

from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT, roof_measurement
from helpers.world import REFERENCES

from measure.cache.folders import MachineFolder
from report.paper import load


def machine_with(data, product_load, stream_load):
    folder = MachineFolder(data, "box")
    folder.put_environment(ENVIRONMENT)
    product = replace(roof_measurement(), load=product_load)
    stream = replace(product, roof_kernel="stream_copy", precision="fp64", round=0, load=stream_load)
    folder.put_roof_measurements([product, stream])
    (machine,) = load(data, REFERENCES).machines
    return machine


def test_a_roof_knows_the_largest_load_next_to_it(tmp_path):
    assert machine_with(tmp_path / "loaded", 0.04, 0.62).measured_roof.load == 0.62
    assert machine_with(tmp_path / "quiet", 0.04, None).measured_roof.load == 0.0


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
