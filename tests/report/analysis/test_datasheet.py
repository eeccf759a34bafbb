from dataclasses import replace

import pytest
from helpers.papers import tiny
from helpers.sentences import plain

from report.analysis import datasheet
from report.load.paper import Clock

CPU, GPU = tiny().machine("cpu"), tiny().machine("gpu")


def with_environment(**facts):
    return replace(CPU, environment=replace(CPU.environment, **facts))


def test_a_processor_by_arithmetic():
    # 2 physical cores (4 logical ones) * 32 FLOP/cycle * 2 GHz = 128 GFLOP/s; 16 FLOP/cycle at fp64
    roofs = {roof.precision: roof for roof in datasheet.roofs(tiny(), CPU)}
    assert {precision: roof.peak_flop_per_s for precision, roof in roofs.items()} == {
        "fp32": pytest.approx(128e9),
        "fp64": pytest.approx(64e9),
    }
    fp32 = roofs["fp32"]
    assert plain(fp32.derivation) == "2 cores × 32 FLOP/cycle (Example core, avx2) × 2.00 GHz"
    assert (fp32.chip, fp32.bandwidth_byte_per_s) == ("Example core", None)
    assert fp32.source == "epoch_hw;stas_mle"


def test_the_widest_vectors_that_the_processor_shows():
    wide = with_environment(vector_extension="avx512f avx2 avx sse2")
    assert datasheet.roof(tiny(), wide, "fp32").peak_flop_per_s == pytest.approx(256e9)
    narrow = with_environment(vector_extension="sse2")
    assert datasheet.roof(tiny(), narrow, "fp32").peak_flop_per_s == pytest.approx(32e9)
    assert datasheet.roof(tiny(), narrow, "fp64") is None


def test_logical_cores_where_the_physical_ones_were_not_recorded():
    assert datasheet.roof(tiny(), with_environment(physical_cores=None), "fp32").peak_flop_per_s == pytest.approx(256e9)


def test_a_gpu_by_its_name():
    roofs = {roof.precision: roof for roof in datasheet.roofs(tiny(), GPU)}
    assert {precision: roof.peak_flop_per_s for precision, roof in roofs.items()} == {"fp32": 1e13, "bf16": 1e14}
    bf16 = roofs["bf16"]
    assert (bf16.chip, bf16.bandwidth_byte_per_s, bf16.source) == ("Bead 2", 1e12, "epoch_hw;stas_mle")
    assert bf16.derivation == "Bead 2: as printed, tensor units"


def test_a_processor_is_not_taken_for_the_chip_of_its_name():
    """Abacus 1 has 16 cores and 1e12 FLOP/s; this machine sees 2."""
    assert datasheet.roof(tiny(), with_environment(name="Abacus 1"), "fp32").peak_flop_per_s == pytest.approx(128e9)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (
            with_environment(cpu_family=None),
            "since its family of processors was not recorded; `python -m measure --device cpu --sections roofs",
        ),
        (with_environment(cpu_model=9), "holds no row for ExampleVendor family 1 model 9"),
        (
            replace(CPU, clock=None),
            "since its clock was not measured; `python -m measure --device cpu --sections roofs",
        ),
        (
            replace(GPU, environment=replace(GPU.environment, name="Other")),
            "of the Other stands alone: no chip of the table answers to that name",
        ),
    ],
)
def test_where_there_is_none_a_sentence_says_why(machine, reason):
    assert datasheet.roofs(tiny(), machine) == ()
    text = datasheet.gap(tiny(), machine, "fp32")
    assert reason in text
    assert text.startswith("The measured roof of the ")
    assert text.endswith(".")


def test_a_precision_that_the_datasheet_lacks():
    assert datasheet.roof(tiny(), CPU, "bf16") is None
    assert "its datasheet gives no bf16 peak" in datasheet.gap(tiny(), CPU, "bf16")


def test_a_faster_clock_is_a_higher_peak():
    faster = replace(CPU, clock=Clock(3e9, None))
    assert datasheet.roof(tiny(), faster, "fp32").peak_flop_per_s == pytest.approx(192e9)
