from dataclasses import replace

import numpy as np
import pytest
from helpers.calls import ROOF, work
from helpers.rows import ENVIRONMENT, machine_in, roof_measurement

from measure.cache import table
from measure.domain.roofs import Roof
from measure.domain.schema import file_of
from measure.predicting import records
from measure.predicting.prediction_terms import PLACE, CallWork, LayerRoof, PredictedDevice, of_chips, of_machines
from measure.published.records import Chip

# 3 GFLOP at 1 TFLOP/s; 100 MB and 200 MB at 100 GB/s; 100 operators in microseconds
TIMES = dict.fromkeys(records.TERMS, 0.0) | {
    "convolution arithmetic": 3e-3, "product memory": 1e-3, "other memory": 2e-3, "unfused memory": 2e-3,
    "launches": 1e-4,
}  # fmt: skip


@pytest.mark.parametrize(
    ("chip_kind", "how", "changed", "launch_s"),
    [
        ("soc", {}, {}, 0),
        ("soc", {"compiled": True}, {records.UNFUSED: 0, records.LAUNCHES: 7e-5}, 0),  # seven in ten launches are left
        ("soc", {"copied": True}, {records.HOST_MEMORY: 1e-3}, 0),  # 1 MB of input, a nanosecond a byte
        ("cpu", {}, {records.HOST_MEMORY: 2e-3}, 0),  # 2 MB of fresh pages
        # 100 operators, or seven in ten of them, at 10 microseconds on the host
        ("gpu", {}, {records.LAUNCHES: 0}, 1e-3),
        ("gpu", {"compiled": True}, {records.UNFUSED: 0, records.LAUNCHES: 0}, 7e-4),
    ],
)
def test_terms_are_times_at_the_roof_and_of_the_host(chip_kind, how, changed, launch_s):
    call = replace(work(3.0, moved=2.0), fresh_byte=2e6)
    terms, found_s = call.terms(ROOF, chip_kind, 10.0, **how)
    assert dict(zip(records.TERMS, terms, strict=True)) == pytest.approx(TIMES | changed)
    assert found_s == pytest.approx(launch_s)
    # The least time is the roofline: 3 ms of arithmetic, or 0.5 ms for the footprint of 50 MB
    assert [work(gflop).least_s(ROOF) for gflop in (3.0, 0.1)] == pytest.approx([3e-3, 5e-4])


@pytest.mark.parametrize(
    ("chip_kind", "rates", "usable"),
    [
        ("gpu", {"fp32": 1e12, "tf32": 8e12}, records.ALL_OPTIONS),
        ("gpu", {"fp32": 1e12}, ("torch.compile", "autocast", "benchmark", "channels_last")),
        ("cpu", {"fp32": 1e12}, ("torch.compile",)),
    ],
)
def test_an_option_is_usable_where_it_changes_a_time(chip_kind, rates, usable):
    assert PredictedDevice("one", chip_kind, Roof(rates, 1e11)).usable(records.ALL_OPTIONS) == usable


@pytest.mark.parametrize(
    ("kinds", "family", "sort"),
    [
        ({"convolution": 9.0, "linear": 1.0}, "residual", records.CONVOLUTIONAL),
        ({"convolution": 9.0, "depthwise convolution": 0.5}, "compact", records.DEPTHWISE),
        ({"convolution": 1.0, "linear": 5.0, "attention": 1.0}, "transformer", records.DENSE),
        ({"linear": 5.0}, "audio", records.AUDIO),
        ({"linear": 5.0}, "language", records.LANGUAGE),
    ],
)
def test_a_network_is_sorted_by_its_work_unless_it_has_no_images(kinds, family, sort):
    call = work(0.0, family=family)
    for kind, gflop in kinds.items():
        call.flop[PLACE[kind]] = 1e9 * gflop
    assert call.sort == sort
    # A token of each request, however many they are
    assert replace(call, input_shape="1").sort == (records.DECODING if family == "language" else sort)


def row(precision, peak_flop_per_s, unit="tensor", **changed):
    cells = {"chip": "Bead 2", "alias": "Bead-2-40GB; Example GPU", "bandwidth_byte_per_s": 1e12}
    cells |= {"power_w": None, "memory_byte": None}
    return Chip(
        vendor="Bead", die="", chip_kind="gpu", year=2021, precision=precision, unit=unit,
        peak_flop_per_s=peak_flop_per_s, sparse_peak_flop_per_s=2 * peak_flop_per_s, memory_type="", derivation="",
        verified="yes", source="made", note="", **cells | changed,
    )  # fmt: skip


def test_rows_of_a_chip_are_one_device_with_the_best_of_each(tmp_path):
    rows = [
        row("fp16", 2e13, unit="vector"),
        row("fp16", 1e14, bandwidth_byte_per_s=2e12, memory_byte=4e10),
        row("fp32", 1e13, unit="vector"),
        row("fp16", 1e12, chip="Cog 3", alias=""),
    ]
    table.write(file_of(Chip, tmp_path), Chip, rows)
    devices = of_chips(tmp_path)  # next to the project's
    assert {"bead 2", "bead-2-40gb", "example gpu", "cog 3", "nvidia t4"} <= set(devices)
    found, other = devices["example gpu"], devices["cog 3"]
    # The faster unit's dense peak of each precision; the larger bandwidth and memory that a row states
    assert (found.name, found.chip_kind, found.roof.flop_per_s) == ("Bead 2", "gpu", {"fp16": 1e14, "fp32": 1e13})
    assert (found.roof.byte_per_s, found.memory_byte) == (2e12, 4e10)
    assert (other.memory_byte, other.roof.flop_per_s) == (None, {"fp16": 1e12})


def test_the_roof_of_layers_at_a_precision():
    # fp32 convolutions may run in TF32 if the chip has it. A slower TF32 does not slow them down
    device = PredictedDevice("Bead 2", "gpu", Roof({"fp32": 1e13, "tf32": 5e13, "fp16": 1e14}, 1e12))
    assert device.layer_roof("fp32", tf32=True) == LayerRoof(1e13, 1e12, convolution_flop_per_s=5e13)
    assert device.layer_roof("fp32") == LayerRoof(1e13, 1e12, 1e13)
    assert device.layer_roof("fp16") == LayerRoof(1e14, 1e12, 1e14)
    assert device.layer_roof("bf16") is None
    slow = PredictedDevice("Cog 3", "gpu", Roof({"fp32": 2e13, "tf32": 1e13}, 1e12))
    assert slow.layer_roof("fp32", tf32=True) == LayerRoof(2e13, 1e12, 2e13)


def test_serving_tokens_at_fp16_accumulates_in_fp16():
    # GeForce cards halve their rate with fp32 accumulation, as in a datasheet's fp16; int8 shows the whole rate
    geforce = PredictedDevice("Bead 2", "gpu", Roof({"fp16": 7e13, "bf16": 7e13, "int8": 2.8e14}, 1e12))
    assert geforce.layer_roof("fp16", serves=True) == LayerRoof(1.4e14, 1e12, 1.4e14, vector_flop_per_s=1.4e14)
    assert geforce.layer_roof("fp16") == LayerRoof(7e13, 1e12, 7e13)
    assert geforce.layer_roof("bf16", serves=True) == LayerRoof(7e13, 1e12, 7e13, vector_flop_per_s=7e13)
    # Numbers are unpacked where matrices are not multiplied, if the datasheet has the rate
    both = replace(geforce, roof=Roof({"fp16": 7e13, "fp32": 2e13}, 1e12))
    assert both.layer_roof("fp16", serves=True).vector_flop_per_s == 2e13
    assert PredictedDevice("Cog 3", "soc", Roof({"fp16": 1e13}, 1e12)).layer_roof("fp16", serves=True).peaks[0] == 1e13


def test_a_number_is_unpacked_once_for_a_token_or_for_64_of_a_prompt():
    flop = np.zeros(len(PLACE))
    flop[PLACE["linear"]] = 8e9  # 1 GFLOP for each of 8 tokens; of a prompt, 8 GFLOP in tiles of 64 tokens
    decode = CallWork(8, flop, np.zeros(len(PLACE)), 10, 0.0, 1e9, 1e9, input_shape="1", family=records.LANGUAGE)
    prompt = replace(decode, input_shape="512")
    assert (decode.sort, prompt.sort) == (records.DECODING, records.LANGUAGE)
    roof, place = LayerRoof(1e13, 1e12, 1e13, vector_flop_per_s=1e12), records.TERMS.index(records.VECTOR)
    assert decode.terms(roof, "tokens")[0][place] == pytest.approx(1e-3)
    assert prompt.terms(roof, "prompts")[0][place] == pytest.approx(8e-3 / 64)
    assert prompt.terms(LayerRoof(1e13, 1e12, 1e13), "gpu")[0][place] == 0


def test_a_machine_has_its_environments_roofs_if_it_has_both(tmp_path):
    folder = machine_in(tmp_path / "machines" / "bench")
    assert list(of_machines(tmp_path)) == []  # a product, and no stream
    stream = replace(roof_measurement(), roof_kernel="stream_copy", precision="fp64", flop=0, byte=600, round=0)
    elsewhere = replace(stream, environment_id="e0", byte=10**6)
    folder.put_roof_measurements([replace(stream, latency_s=2.0), elsewhere])
    ((_, environment, found),) = of_machines(tmp_path)
    assert environment == ENVIRONMENT
    # 1024 FLOP in 0.5 s; 600 B in 2 s
    assert (found.name, found.chip_kind, found.memory_byte) == ("bench", "cpu", 1024)
    assert (found.roof.flop_per_s, found.roof.byte_per_s) == ({"fp32": 2048}, 300)
