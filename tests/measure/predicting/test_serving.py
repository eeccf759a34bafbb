from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers.places import ROOT

from measure.errors import UserError
from measure.predicting import kernels, served_study, server_study, serving
from measure.predicting.kernels import KernelModel
from measure.predicting.served_prediction import ServedPredictor, with_requests
from measure.predicting.serving import FIRST, FURTHER, Load
from measure.published.aside import read_servers
from measure.serving import configuration
from measure.serving.plan import Plan
from measure.serving.served import served_decoder

CHIPS = kernels.served_chips(ROOT / "data")
LLAMA = configuration.find("meta-llama/Meta-Llama-3.1-8B")
LOAD = Load(LLAMA, Plan(), CHIPS["nvidia h100 sxm"], "vllm", 4, 1000, 200)


@pytest.fixture(scope="module")
def predictor():
    return ServedPredictor.read(ROOT / "data")


def synthetic(label, scale=1.0):
    """Steps that take 1.2 times their products, 0.9 times their attention, 2 ms, and nothing else of note."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame(np.zeros((120, len(serving.TERMS))), columns=[*serving.TERMS])
    rows[serving.PRODUCTS], rows[serving.ATTENTION] = rng.uniform(1e-3, 2e-2, 120), rng.uniform(1e-4, 1e-2, 120)
    rows[serving.STEP] = 1e-3
    time_s = scale * (1.2 * rows[serving.PRODUCTS] + 0.9 * rows[serving.ATTENTION] + 2e-3)
    about = {"device": label, "chip_class": "HBM, fp8", "engine": "vllm", "family": label, "series": label}
    return rows.assign(latency_s=time_s, **about)


def test_a_fit_of_servers_finds_the_times_that_it_left_out():
    rows = pd.concat([synthetic("one"), synthetic("two"), synthetic("three")])
    effects = server_study.fit_servers(rows)
    found = dict(zip(serving.TERMS, serving.coefficients(effects, "vllm", "HBM, fp8"), strict=True))
    assert found[serving.PRODUCTS] == pytest.approx(1.2, rel=0.03)
    assert found[serving.ATTENTION] == pytest.approx(0.9, rel=0.1)
    assert found[serving.STEP] == pytest.approx(2.0, rel=0.1)
    checks = server_study.check_servers(rows, effects)
    assert set(checks.left_out) == {"GPU", "family"}  # there is no other engine
    assert np.abs(checks.ratio - 1).max() < 0.05


def test_the_prompts_of_others_are_read_between_the_tokens(predictor):
    read = serving.prompt_parts(LOAD, predictor.kernels)
    of_phases = serving.terms(LOAD, read, serving.decode_step(LOAD), predictor.kernels)
    prompt_s = sum(read[part] for part in serving.PARTS)
    # 4 answers of 200 tokens end each 200 steps, so a step reads 4/200 of a prompt; the last of 4 waits for 3
    assert of_phases[FURTHER][serving.PROMPTS] == pytest.approx(prompt_s * 4 / 200)
    assert of_phases[FIRST][serving.QUEUE] == pytest.approx(prompt_s * 3)
    apart = replace(LOAD, reads_prompts=False)
    assert serving.terms(apart, read, serving.decode_step(apart), predictor.kernels)[FURTHER][serving.PROMPTS] == 0


def test_parts_of_a_step_sum_its_kernels(predictor):
    """At the pool's start alone, a microsecond, each product and each attention takes that long."""
    effects = {}
    for kind in kernels.KINDS:
        width = len(next(iter(predictor.kernels.effects[kind].values())))
        effects[kind] = {("pool", ""): np.array([0.0, *[-60.0] * (width - 1)])}
    parts = serving.parts_of(serving.decode_step(LOAD), LOAD.chip, "vllm", KernelModel(effects))
    # Llama 3.1 8B: 32 layers with 4 products (qkv, output, gate and up, down) each, and the head
    assert parts[serving.PRODUCTS] == pytest.approx(129e-6, rel=1e-6)
    assert parts[serving.ATTENTION] == pytest.approx(32e-6, rel=1e-6)
    assert parts[serving.COMMUNICATION] == parts[serving.EXPERTS] == 0


def test_no_prediction_beats_the_bandwidth_and_none_falls_with_more_requests(predictor):
    times = []
    for requests in (1, 2, 8, 32, 128):
        load = with_requests(LOAD, requests)
        found = predictor.predict(load, requests)
        assert found.further.likely_s >= serving.least_s(load, serving.decode_step(load))
        times.append(found.further.likely_s)
    assert times == sorted(times)


def test_a_label_weighs_as_the_root_of_its_rows():
    # A hundred ratios e^0.001 … e^0.1 of one label weigh 100 / 10, the only one of the other 1. Of two labels, 0.95
    # have to lie within: 0.95 x 11 - 1 is reached by 95 of the hundred.
    ratios = np.exp([0.0, *np.arange(1, 101) / 1000])
    checks = pd.DataFrame({"device": ["one"] + ["other"] * 100, "ratio": ratios})
    assert served_study.interval(checks, "device") == pytest.approx(np.exp(0.095))
    assert served_study.interval(checks[1:], "device") is None  # one label alone


def test_an_interval_is_of_what_was_timed(predictor):
    assert predictor.within(FURTHER, LOAD) is not None
    on_many = replace(LOAD, plan=Plan(tensor=16))
    assert predictor.within(FURTHER, on_many) is None  # nobody timed collectives of 16
    for name in ("nvidia l40s", "amd instinct mi300x"):  # no server of such chips
        assert predictor.within(FURTHER, replace(LOAD, chip=CHIPS[name])) is None


def test_servers_that_cannot_be_predicted_say_why():
    row = next(row for row in read_servers(ROOT / "data") if row.tensor_parallel == 1 and "Llama" in row.model)
    chip = CHIPS["nvidia h100 sxm"]
    assert server_study.load_of(row, chip).plan == Plan()
    for changes, reason in (
        ({"batch": None}, "the requests of a worker are unknown"),
        ({"tensor_parallel": 16}, "more than 8 GPUs"),
        ({"tensor_parallel": 3}, "does not divide"),
    ):
        with pytest.raises(UserError, match=reason):
            server_study.load_of(replace(row, **changes), chip)


@pytest.mark.parametrize(
    ("model", "forms"),
    [
        ("deepseek-ai/DeepSeek-R1", {"fp8_block", "bf16"}),
        ("meta-llama/Llama-3.1-70B", {"fp8"}),
    ],  # the router has 16 bits
)
def test_fp8_of_a_checkpoint_with_blocks_is_in_blocks(model, forms):
    decoder = served_decoder(model, "fp8", "fp8")
    assert {form.name for _, form, _ in decoder.weights} == forms


def test_a_cache_has_eight_bits_where_weights_have_as_few():
    model, kimi = "meta-llama/Llama-3.1-70B", "moonshotai/Kimi-K2.5"
    found = [served_decoder(model, weights).cache.name for weights in ("fp8", "nvfp4", "bf16", None)]
    assert found == ["fp8", "fp8", "bf16", "bf16"]  # as the configuration has it
    assert [served_decoder(kimi, each).cache.name for each in ("int4", "nvfp4")] == ["fp8", "fp8"]
    # Kimi-K2.5's experts alone have 4 bits, and int4 says so; nvfp4 is another checkpoint, which multiplies at 4 bits
    kept, other = ({form.name for _, form, _ in served_decoder(kimi, each).weights} for each in ("int4", "nvfp4"))
    assert "bf16" in kept
    assert "nvfp4" in other
    assert "int4" not in other


def test_experts_may_be_stored_in_a_format_of_their_own():
    forms = served_decoder("Qwen/Qwen3.5-397B-A17B", "fp8", "fp8_block").layers[0].formats
    assert {name for name, form in forms.items() if form.name == "fp8_block"} == {"experts wide", "experts narrow"}
