from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.places import ROOT

from measure.errors import UserError
from measure.predicting import kernel_study, kernels, served_study
from measure.predicting.kernels import CLASS, KERNEL, LINK, KernelModel
from measure.predicting.records import POOL

PEAK, BANDWIDTH, LINK_RATE = 1e15, 2e12, 450e9
SIZES = {
    kernels.PRODUCTS: {"m": 64.0, "n": 4096.0, "k": 2048.0, "weight_bit": 16.0, "input_bit": 16.0},
    kernels.DECODE: {
        "flop": 1e9, "cache_byte": 1e8, "activation_byte": 1e5, "seen": 129.0, "requests": 8.0, "group": 4.0,
        "head_size": 128.0, "kv_heads": 8.0, "cached_tokens": 128.0,
    },
    kernels.PREFILL: {
        "flop": 1e9, "cache_byte": 1e8, "activation_byte": 1e5, "seen": 4096.0, "requests": 2.0, "group": 4.0,
        "head_size": 128.0, "kv_heads": 8.0, "tokens": 500.0,
    },
    kernels.EXPERTS: {
        "routed": 512.0, "distinct": 32.0, "matrices": 3.0, "hidden": 4096.0, "inner": 1536.0, "weight_bit": 8.0,
    },
    kernels.COLLECTIVES: {"sent_byte": 1e6, "gpus": 8.0, "link_byte_per_s": LINK_RATE},
}  # fmt: skip


def of(kind, **changes):
    sizes = SIZES[kind] | {"flop_per_s": PEAK, "byte_per_s": BANDWIDTH} | changes
    return {name: np.array([value]) for name, value in sizes.items()}


def test_terms_of_a_product_by_hand():
    found = kernels.product_terms(of(kernels.PRODUCTS))
    # 2 x 64 x 4096 x 2048 FLOP at 1e15 FLOP/s; 4096 x 2048 weights of 2 bytes at 2e12 B/s
    assert found["arithmetic"][0] == pytest.approx(1.073741824e-6)
    assert found["weights"][0] == pytest.approx(16_777_216 / 2e12)
    assert found["inputs"][0] == pytest.approx(64 * 2048 * 2 / 2e12)
    assert found["outputs"][0] == pytest.approx(64 * 4096 * 2 / 2e12)
    assert found["arithmetic ramp"][0] == pytest.approx((1.073741824e-6 * 1e-6) ** 0.5)
    assert found["rows ramp"][0] == pytest.approx(0.064**0.5 * 1e-6)


def test_terms_of_attention_by_hand():
    decode = kernels.decode_terms(of(kernels.DECODE))
    # 8 requests with 8 heads of keys: 64 blocks, of 128 numbers each; a cache of 128 tokens is half a part
    assert decode["blocks"][0] == pytest.approx(0.64e-6)
    assert decode["blocks ramp"][0] == pytest.approx(0.8e-6)
    assert decode["sizes of blocks"][0] == pytest.approx(0.8192e-6)
    assert decode["joined parts"][0] == pytest.approx(0.5e-6)
    # A window hides all but 128 tokens of a long cache
    hidden = kernels.decode_terms(of(kernels.DECODE, cached_tokens=1e5, seen=128.0))
    assert hidden["joined parts"][0] == pytest.approx(1e-6)
    prefill = kernels.prefill_terms(of(kernels.PREFILL))
    # 2 prompts with 8 x 4 heads: 64 heads, with 500 rows each
    assert prefill["heads"][0] == pytest.approx(0.064e-6)
    assert prefill["rows of heads"][0] == pytest.approx(0.32e-6)


def test_terms_of_a_collective_by_hand():
    found = kernels.collective_terms(of(kernels.COLLECTIVES, sent_byte=4.5e6))
    sent_s = 1e-5  # 4.5 MB at 450 GB/s
    assert {name: term[0] for name, term in found.items()} == {
        "start": pytest.approx(10e-6), "GPUs": pytest.approx(8e-6), "link": pytest.approx(sent_s),
        "link ramp": pytest.approx((sent_s * 1e-6) ** 0.5),
        "shared path": pytest.approx(3 * sent_s),  # two GPUs share nothing; of eight, six are more
    }  # fmt: skip
    assert kernels.collective_terms(of(kernels.COLLECTIVES, gpus=2.0))["shared path"][0] == 0


@pytest.mark.parametrize("kind", SIZES)
def test_no_term_falls_as_a_size_grows(kind):
    least = kernels.TERMS[kind](of(kind))
    for name, value in ((name, value) for name, value in SIZES[kind].items() if name != "link_byte_per_s"):
        larger = kernels.TERMS[kind](of(kind, **{name: 2 * value}))
        assert all(larger[term] >= least[term] for term in least), name
        assert any(larger[term] > least[term] for term in least), name


def timed(device, label, seconds, flop_per_s=PEAK, byte_per_s=BANDWIDTH):
    """Products of a kernel on a device, with the times that ``seconds`` makes of their sizes."""
    rng = np.random.default_rng(7)
    m, n, k = (2.0 ** rng.integers(low, high, 80) for low, high in ((0, 13), (8, 14), (8, 14)))
    rows = pd.DataFrame({"m": m, "n": n, "k": k, "weight_bit": 16.0, "input_bit": 16.0})
    rows = rows.assign(flop_per_s=flop_per_s, byte_per_s=byte_per_s, device=device, chip_class="HBM, fp8", link="")
    rows = rows.assign(kernel=label, series=f"{device} | {label}")
    return rows.assign(latency_s=seconds(m, n, k, flop_per_s, byte_per_s))


def made(m, n, k, flop_per_s, byte_per_s):
    """5 µs to start, 1.25 times the arithmetic at the peak, 1.1 times the weights at the bandwidth."""
    return np.sqrt(5e-6**2 + (1.25 * 2 * m * n * k / flop_per_s) ** 2 + (1.1 * 2 * n * k / byte_per_s) ** 2)


def test_a_fit_finds_the_times_of_a_gpu_that_it_never_saw():
    chips = (("Bead 1", 1e15, 2e12), ("Bead 2", 1e15, 4e12), ("Bead 3", 2e15, 4e12))
    rows = pd.concat([timed(name, "vllm | k | bf16 x bf16", made, *roof) for name, *roof in chips])
    effects = kernel_study.fit_kernels(kernels.PRODUCTS, rows)
    checks = kernel_study.check_kernels(kernels.PRODUCTS, rows, effects)
    assert set(checks.device) == {"Bead 1", "Bead 2", "Bead 3"}
    assert np.median(np.abs(checks.ratio - 1)) < 0.05


def model(**logs):
    """A model of products: all terms but the start are next to nothing, and that is exp(log) microseconds."""
    width = len(kernels.term_names(kernels.PRODUCTS))
    effects = {(POOL, ""): np.array([0.0, *[-60.0] * (width - 1)])}
    for label, log in logs.items():
        engine, chip_class = label.split("_on_")
        kernel = f"{engine} | k | bf16 x bf16"
        effects[KERNEL, kernel] = np.array([2 * log, *[0.0] * (width - 1)])  # effects are on squares
        effects[CLASS, f"{chip_class} | {kernel}"] = np.zeros(width)
    return KernelModel({kernels.PRODUCTS: effects})


def test_an_engine_takes_its_quickest_kernel_then_those_of_others_on_such_chips():
    found = model(vllm_on_HBM=1.0, trtllm_on_HBM=0.5, sglang_on_GDDR=0.1)

    def start_us(engine, chip_class, formats="bf16 x bf16"):
        return 1e6 * found.times(kernels.PRODUCTS, of(kernels.PRODUCTS), engine, formats, chip_class)[0]

    assert start_us("vllm", "HBM") == pytest.approx(np.exp(1.0))
    assert start_us("sglang", "HBM") == pytest.approx(np.exp(0.5))  # of vLLM and TensorRT-LLM there, the quickest
    assert start_us("vllm", "GDDR") == pytest.approx(np.exp(0.1))
    assert start_us("vllm", "other") == pytest.approx(1.0)  # nothing was timed there: the kind's
    assert start_us("vllm", "HBM", "fp8 x fp8") == pytest.approx(1.0)  # untimed formats


def test_a_kernel_never_timed_is_predicted_as_its_engine_would_choose():
    found = model(vllm_on_HBM=1.0, trtllm_on_HBM=0.5, sglang_on_GDDR=0.1)

    def start_us(kernel, chip_class):
        rows = pd.DataFrame(of(kernels.PRODUCTS)).assign(kernel=kernel, chip_class=chip_class, link="")
        return 1e6 * kernel_study.times_of(found, kernels.PRODUCTS, rows)[0]

    assert start_us("trtllm | k | bf16 x bf16", "HBM") == pytest.approx(np.exp(0.5))  # timed: its own
    assert start_us("vllm | new | bf16 x bf16", "HBM") == pytest.approx(np.exp(1.0))  # the quickest of vllm there
    assert start_us("sglang | new | bf16 x bf16", "HBM") == pytest.approx(np.exp(0.5))  # of all, as it has none there


def sent(device, link, byte_per_s, gpus=(2, 4, 8)):
    """Messages over a link: 12 µs to start, three quarters of the link's rate."""
    sizes = [(2.0**power, count) for power in range(10, 28) for count in gpus]
    rows = pd.DataFrame(sizes, columns=["sent_byte", "gpus"]).assign(device=device, link_byte_per_s=byte_per_s)
    rows = rows.assign(kernel="nccl | NCCL | all_reduce", chip_class="NVIDIA, NVLink", link=link, peers="NVLink")
    rows = rows.assign(series=f"{device} | nccl")
    return rows.assign(latency_s=np.hypot(12e-6, rows.sent_byte / (0.75 * byte_per_s)))


def test_a_collective_goes_by_the_link_of_its_own_gpu():
    chips = (("Bead 1", "NVLink 3", 300e9), ("Bead 2", "NVLink 4", 450e9), ("Bead 3", "NVLink 5", 900e9))
    rows = pd.concat([sent(*chip) for chip in chips])
    effects = kernel_study.fit_kernels(kernels.COLLECTIVES, rows)
    assert {label for level, label in effects if level == LINK} == {
        f"NVLink {number} | nccl | NCCL | all_reduce" for number in (3, 4, 5)
    }
    checks = kernel_study.check_kernels(kernels.COLLECTIVES, rows, effects)
    assert np.median(np.abs(checks.ratio - 1)) < 0.05
    # 900 MB at three quarters of 450 GB/s are 2.67 ms; the start is next to nothing
    sizes = {"sent_byte": 900e6, "gpus": 2.0, "link_byte_per_s": 450e9}
    columns = {name: np.array([value]) for name, value in sizes.items()}
    found = KernelModel({kernels.COLLECTIVES: effects}).times(
        kernels.COLLECTIVES, columns, "nccl", "all_reduce", "NVIDIA, NVLink", "NVLink 4"
    )
    assert found[0] == pytest.approx(900e6 / (0.75 * 450e9), rel=0.1)


def test_the_interval_of_a_collective_is_of_gpus_with_the_same_sort_of_link():
    checks = pd.DataFrame({
        "device": ["a", "b", "c", "d", "e", "f"], "peers": ["NVLink"] * 3 + ["PCIe"] * 3,
        "ratio": [1.1, 1.2, 0.8, 4.0, 2.0, 0.25],
    })  # fmt: skip
    found = {row.device: row for row in served_study.kernel_errors(kernels.COLLECTIVES, checks)}
    assert list(found) == ["a", "b", "c", "d", "e", "f", "all, NVLink", "all, PCIe", "all"]
    # Of two others the interval holds all: 1 / 0.8 and 4
    assert found["a"].within == pytest.approx(1.25)
    assert found["e"].within == pytest.approx(4.0)
    assert (found["all, NVLink"].rows, found["all, PCIe"].within) == (3, pytest.approx(4.0))


@pytest.fixture(scope="module")
def rows():
    return kernel_study.read_rows(ROOT / "data")


def test_a_fit_sees_neither_what_was_set_aside_nor_times_with_launches(rows):
    assert set(rows) == set(kernels.KINDS)
    for kind, of_kind in rows.items():
        assert "NVIDIA B300 SXM" not in set(of_kind.device), kind
        assert (of_kind.latency_s > 0).all()
        assert not kernels.matrix(kernels.TERMS[kind](kernel_study.columns(of_kind))).min() < 0
    products = rows[kernels.PRODUCTS]
    assert not ((products.engine == "vllm") & (products.weights == "fp8_block")).any()
    assert not rows[kernels.COLLECTIVES].kernel.str.contains("_eager").any()


def test_a_sample_holds_all_series(rows):
    products = rows[kernels.PRODUCTS]
    taken = kernel_study.sampled(products)
    assert set(taken.series) == set(products.series)
    assert taken.groupby("series").size().max() <= kernel_study.MOST


def test_a_chip_has_the_rates_of_its_own_units_alone():
    """bf16 came with Ampere. Datasheets: V100 125 and T4 65 TFLOP/s at fp16, A100 312 at both."""
    chips = kernels.served_chips(Path(ROOT / "data"))
    for name, rate in (("nvidia v100 sxm2", 125e12), ("nvidia t4", 65e12)):
        assert chips[name].flop_per_s["fp16"] == rate
        assert "bf16" not in chips[name].flop_per_s
        assert chips[name].flop_per_s["fp8"] == rate  # a step's scores without such units
    assert chips["nvidia a100 sxm 80gb"].flop_per_s["bf16"] == 312e12
    assert chips["nvidia a100 sxm 80gb"].flop_per_s["fp16"] == 312e12


def test_classes_of_chips():
    chips = kernels.served_chips(Path(ROOT / "data"))
    named = {name: chips[name].chip_class for name in ("nvidia h200 sxm", "nvidia a100 sxm 80gb", "nvidia l40s")}
    assert [*named.values()] == ["NVIDIA, HBM, fp8", "NVIDIA, HBM, 16 bits", "NVIDIA, GDDR, fp8"]
    assert chips["nvidia b200 sxm"].chip_class == chips["nvidia gb200 sxm"].chip_class == "NVIDIA, HBM, fp4"
    assert chips["amd instinct mi300x"].chip_class.startswith("AMD")  # nobody timed its kernels
    links = {name: chips[name].link_class for name in ("nvidia h200 sxm", "nvidia l40s", "intel arc pro b60")}
    assert [*links.values()] == ["NVIDIA, NVLink", "NVIDIA, PCIe", "Intel, PCIe"]
    with pytest.raises(UserError, match="no link of 'AMD Instinct MI355X'; add link and link_byte_per_s"):
        _ = chips["amd instinct mi355x"].link_class
