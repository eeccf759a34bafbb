import json
import shutil
from dataclasses import replace

import pytest
from helpers.world import WORLD

from measure import __main__ as command
from measure.cache import table
from measure.cache.folders import Workloads
from measure.domain.schema import file_of
from measure.domain.workload_records import Workload
from measure.predicting import records
from measure.predicting.records import (
    ALL,
    BENCHMARK,
    BY_DEVICE,
    OPTION,
    TERMS,
    Coefficient,
    HostCost,
    PredictionError,
    pool_of,
)
from measure.published.records import PublishedCount, PublishedTiming
from measure.run.tasks import Failure
from measure.verbs import predict

MODEL = "squeezenet1_0"
POOL = pool_of("gpu", "bf16", "inference")
CHIP = ("--chip", "Bead 2")


@pytest.fixture(scope="module")
def made(tmp_path_factory, forked_workers):
    """The chips of the world, a fit that doubles the arithmetic of a call, and a host that launches in 10 us.

    With cudnn.benchmark a call takes half as long. The network is counted.
    """
    data = tmp_path_factory.mktemp("predict")
    shutil.copy(WORLD / "chips.csv", data)
    values = {term: 2.0 for term in TERMS if term.endswith("arithmetic")}
    of_pool = POOL.device, POOL.precision, POOL.phase
    rows = [Coefficient(*of_pool, records.POOL, "", term, 40, values.get(term, 0.0)) for term in TERMS]
    rows += [Coefficient(*of_pool, OPTION, BENCHMARK, term, 40, 0.5) for term in TERMS]
    hosts = [HostCost("bench", "inference", "2.14.0", 10.0)]
    middle = ALL, 40, 40, 0.1, 0.2, 0.9, 1.0
    errors = [
        PredictionError(*POOL, left_out, records.OURS, batches, *middle, 2.0)
        for left_out in (BY_DEVICE, records.ONE_KNOWN)
        for batches in ("1", "2 to 15")
    ]
    errors += [replace(error, batches=ALL, sort=records.CONVOLUTIONAL) for error in errors[::2]]
    for record, found in ((Coefficient, rows), (HostCost, hosts), (PredictionError, errors), (PublishedTiming, [])):
        table.write(file_of(record, data), record, found)
    assert call(data, MODEL, *CHIP, "--batch-sizes", "1", "2", "3", "8") == 0
    return data


def call(data, *words):
    sizes = [] if "--batch-sizes" in words else ["--batch-sizes", "1"]
    return command.main(["predict", *words, *sizes, "--precision", "bf16", "--data", str(data)])


def predictions(data, capsys, *words):
    assert call(data, *words, "--json") == 0
    return json.loads(capsys.readouterr().out)["predictions"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # None of Cog 3's kind was timed
        ("predict", [MODEL, "--chip", "Bead 2", "Cog 3", "NVIDIA L4", "--batch-sizes", "3", "2"]),
        ("predict-markdown", [MODEL, *CHIP, "--markdown"]),
        ("predict-json", [MODEL, *CHIP, "--batch-sizes", "8", "--json"]),
        ("predict-known", [MODEL, *CHIP, "--known", MODEL, "8", "2ms", "--batch-sizes", "8"]),
    ],
)
def test_predict(golden, made, capsys, name, words):
    assert call(made, *words) == 0
    golden(name, capsys.readouterr().out)


def test_a_datasheet_predicts_a_chip_and_timings_scale_it(made, capsys):
    words = (MODEL, *CHIP, "--batch-sizes", "1", "8", "--host", "0.000001us", "--setting", "none")
    one, row = predictions(made, capsys, *words)
    # torchvision publishes 0.819 GMAC; 8 inputs at 100 TFLOP/s, twice as long
    flop_s = 8 * 2 * 0.819e9 / 1e14
    assert row["likely_s"] == pytest.approx(2 * flop_s, rel=0.01)
    assert (row["low_s"], row["high_s"]) == pytest.approx((0.5 * row["likely_s"], 2 * row["likely_s"]))
    assert row["least_s"] >= flop_s * 0.99
    assert row["inputs_per_s"] == pytest.approx(8 / row["likely_s"])
    assert row["memory_needed_byte"] > 8 * 2 * 3 * 224 * 224
    times = [word for each in (one, row) for word in (MODEL, str(each["batch"]), f"{3e6 * each['likely_s']:.6f}us")]
    for references in (times[:3], times[3:], times):
        found = predictions(made, capsys, *words, "--known", *references)
        expected = [("scaled", pytest.approx(3 * each["likely_s"], rel=0.04)) for each in (one, row)]
        assert [(each["basis"], each["likely_s"]) for each in found] == expected


@pytest.mark.parametrize(
    ("words", "way", "factor"),
    [
        ((), "eager with autocast and benchmark", 0.5),
        (("--setting", "benchmark", "torch.compile"), "torch.compile with benchmark", 0.5),
        (("--setting", "none"), "eager", 1.0),
        (("--setting",), "eager", 1.0),
    ],
)
def test_a_heading_names_the_setting_of_its_answer(made, capsys, words, way, factor):
    sizes = "--batch-sizes", "8", "--host", "0.000001us"
    assert call(made, MODEL, *CHIP, *sizes, *words) == 0
    assert f"bf16, forward pass, {way}, host" in capsys.readouterr().out
    (found,) = predictions(made, capsys, MODEL, *CHIP, *sizes, *words)
    assert found["likely_s"] == pytest.approx(factor * 2 * 8 * 2 * 0.819e9 / 1e14, rel=0.01)


@pytest.fixture
def timed(made, tmp_path):
    """Bead 2 took 8 inputs in 0.7 ms, in 0.9 ms with their copy, and compiled or at fp16 in less."""
    data = shutil.copytree(made, tmp_path / "data")
    row = replace(
        table.read(file_of(PublishedTiming, WORLD), PublishedTiming)[0],
        model=MODEL, batch=8, autocast="bf16", tuned="yes", latency_s=0.0007,
    )  # fmt: skip
    rows = [
        row, replace(row, latency_s=0.0009), replace(row, latency_s=0.0001, compiler="torch.compile"),
        replace(row, latency_s=0.0001, autocast="fp16"), replace(row, latency_s=0.0001, batch=9),
        replace(row, latency_s=0.004, input_copied="yes", batch=2),
        replace(row, latency_s=0.0001, input_copied="yes"),
    ]  # fmt: skip
    count = PublishedCount(MODEL, 224, "ok", None, input_shape="3x224x224")
    for record, found in ((PublishedTiming, rows), (PublishedCount, [count])):
        table.write(file_of(record, data), record, found)
    return data


def test_a_measured_time_in_the_same_setting_stands_next_to_its_prediction(timed, capsys):
    sizes = "--batch-sizes", "1", "2", "8"
    found = predictions(timed, capsys, MODEL, "--chip", "Bead 2", "NVIDIA L4", *sizes)
    measured = {(row["chip"], row["batch"]): (row["measured_s"], row["is_copy_measured"]) for row in found}
    assert measured.pop(("Bead 2", 8)) == (0.0007, False)  # of times without a copy, if there are any, the least
    assert measured.pop(("Bead 2", 2)) == (0.004, True)
    assert {*measured.values()} == {(None, False)}
    assert call(timed, MODEL, *CHIP, *sizes) == 0
    printed = capsys.readouterr().out
    assert "4.00 ms + copy" in printed
    # Predicted are 641 µs and 653 µs, with a factor of 2 either way
    assert "Measured times outside their intervals: 1 of 2" in printed
    assert call(timed, MODEL, *CHIP, *sizes, "--setting", "none") == 0
    assert "measured" not in capsys.readouterr().out


def test_the_default_batch_is_64(made, capsys):
    assert command.main(["predict", MODEL, *CHIP, "--precision", "bf16", "--data", str(made)]) == 0
    assert "batch 64, bf16" in capsys.readouterr().out


def test_notes_say_where_the_host_decides_and_where_a_roof_stands(made, capsys):
    assert call(made, MODEL, *CHIP, "--host", "40us") == 0
    assert "Batch 1: launches take most of the time on most lines" in capsys.readouterr().out
    words = "--batch-sizes", "8", "--host", "0.000001us"
    assert call(made, MODEL, *CHIP, *words, "--setting", "none") == 0
    printed = capsys.readouterr().out
    assert "launches take most" not in printed
    assert "the likely time is the least time" not in printed
    assert call(made, MODEL, *CHIP, *words, "--known", MODEL, "8", "1us") == 0  # at the peak it takes 131 us
    assert "On 1 of 1 lines the likely time is the least time" in capsys.readouterr().out


def test_a_chip_of_a_kind_that_nobody_timed_is_left_out_aloud(made, capsys):
    assert call(made, MODEL, "--chip", "Cog 3") == 2
    assert "nobody timed a forward pass at bf16 on a chip of such a kind: Cog 3 (asic)" in capsys.readouterr().err
    assert call(made, MODEL) == 0  # not named
    printed = capsys.readouterr()
    assert "Cog 3" not in printed.out + printed.err


def test_the_host_is_the_measured_one_or_a_time(made, capsys):
    measured, named, slower = (
        predictions(made, capsys, MODEL, *CHIP, *host)[0] for host in ((), ("--host", "bench"), ("--host", "40us"))
    )
    assert measured == named
    assert (measured["host_us"], slower["host_us"]) == (10, 40)
    # Launches are nearly all of the time of one input
    assert slower["likely_s"] / measured["likely_s"] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--host", "laptop"), "'laptop' is neither a time such as 8us nor a machine with a GPU (bench measured)"),
        (("--known", MODEL, "8"), "--known: takes MODEL BATCH TIME, once or more, not 2 words"),
        (("--known", MODEL, "8", "soon"), "--known: 'soon' is not a time"),
        (("--setting", "none", "autocast"), "--setting: 'none' stands alone"),
        (("--setting", "tf32"), "--setting: tf32 changes fp32 alone"),
    ],
)
def test_a_wrong_host_or_time_is_named(made, capsys, words, wrong):
    assert call(made, MODEL, *CHIP, *words) == 2
    assert wrong in capsys.readouterr().err


def test_a_model_counts_once_and_joins_the_paper_when_counted(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(predict, "Worker", None)  # nothing is left to count
    data = shutil.copytree(made, tmp_path / "data")
    first = predictions(data, capsys, MODEL, *CHIP, "--batch-sizes", "2")
    assert not (data / "workload" / "models.csv").exists()
    counted = Workloads(data, "prediction/counted")
    Workloads(data).put(counted.of(counted.rows(Workload)))  # as a run does
    assert predictions(data, capsys, MODEL, *CHIP, "--batch-sizes", "2") == first


def test_a_model_that_cannot_be_counted_is_tried_again(made, tmp_path, capsys, monkeypatch):
    class Failing:
        def __init__(self, *_):
            pass

        def run(self, _task, _deadline):
            return Failure("unsupported", "no formula")

        def close(self):
            pass

    data = shutil.copytree(made, tmp_path / "data")
    with monkeypatch.context() as patched:
        patched.setattr(predict, "Worker", Failing)
        assert call(data, MODEL, *CHIP, "--batch-sizes", "5") == 2
    assert f"{MODEL}: cannot be counted (no formula)" in capsys.readouterr().err
    assert call(data, MODEL, *CHIP, "--batch-sizes", "5") == 0


def test_a_language_models_head_and_notes_say_what_they_are_of(made, tmp_path, capsys):
    data = shutil.copytree(made, tmp_path / "data")
    words = ("gpt2_decode_16", *CHIP, "--batch-sizes", "2")
    assert call(data, *words) == 0
    printed = capsys.readouterr()
    assert "gpt2_decode_16" in printed.err  # counting takes a while
    head, _, columns, *_ = printed.out.splitlines()
    assert head.startswith("gpt2_decode_16, 1 token after 16, batch 2, bf16, ")
    assert "tokens/s" in columns
    assert "inputs/s" not in columns
    assert call(data, *words) == 0
    assert capsys.readouterr().err == ""  # nothing is counted again


def test_a_prefill_needs_memory_for_the_cache_it_leaves(made, tmp_path, capsys):
    data = shutil.copytree(made, tmp_path / "data")
    (found,) = predictions(data, capsys, "gpt2_prefill_16", *CHIP)
    counted = Workloads(data, "prediction/counted")
    rows = {row.model: row for row in counted.rows(Workload)}
    alone = rows["gpt2_prefill_16"]
    # Keys and values of 768 numbers in 12 layers, for 16 tokens and the next one; its number has 8 bytes
    assert found["memory_needed_byte"] - alone.inference_peak_byte == 17 * 2 * 768 * 12 * 2 + 8
    Workloads(data).put(counted.of([alone]))
    assert predictions(data, capsys, "gpt2_prefill_16", *CHIP) == [found]
    assert "gpt2_decode_16" in rows
    # After 1024 tokens GPT-2 has no position left to decode, and its cache is not counted
    assert call(data, "gpt2_prefill_1024", *CHIP) == 0
    assert "the memory leaves out the cache" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_of_ones_own_is_predicted(made, capsys):
    (row,) = predictions(made, capsys, "tests.helpers.small_network:network", *CHIP)
    assert row["batch"] == 1
    assert (made / "workload" / "own" / "models.csv").exists()


@pytest.mark.usefixtures("forked_workers")
def test_a_cache_without_a_fit_uses_the_projects_fit(tmp_path, capsys):
    assert call(tmp_path, MODEL, "--chip", "NVIDIA L4") == 0
    assert "NVIDIA L4" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 1", "RTX 1"])
def test_a_named_chip_without_the_precision_is_left_out_aloud(made, capsys, name):
    assert call(made, MODEL, "--chip", "Bead 2", name, "Intel Xeon*") == 0
    printed = capsys.readouterr()
    assert printed.err == "Left out, since no rate at bf16 is known: NVIDIA GeForce RTX 1\n"
    assert "RTX 1" not in printed.out
