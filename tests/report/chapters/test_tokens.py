"""The chapter on tokens: servers and kernels of round numbers, and weights that can be counted by hand."""

import json
from dataclasses import replace
from math import isclose
from statistics import median

import pandas as pd
import pytest
from helpers.world import cells_of, nothing, rows_of, world, wrong

from report import facts
from report.chapters.tokens import figures, here, tables, timed

LAYER, HEAD = 8192 * 10240 + 8192 * 8192 + 8192 * 57344 + 28672 * 8192, 8192 * 128256  # weights of Llama-3.1-70B
CACHE = 80 * 2 * 8 * 128  # bytes of a token
BYTE = 80 * LAYER + 2 * HEAD + 2 * 2 * 8192  # weights at 8 bits, head and the rows of two tokens at 16


def test_a_calculation_by_hand():
    """Served at 2 and 8 requests, 1,000 tokens in and 3,000 out: half-way 2,500, and 2,502 are read or written."""
    request = 2502 * CACHE
    expected = {
        "decode.byte": float(BYTE), "decode.bandwidth": 800e9, "decode.weights": BYTE / 800e9, "decode.tokens": 2500,
        "decode.request": request / 800e9, "decode.batch": 8, "decode.caches": 8 * request / 800e9,
        "decode.bound": (BYTE + 8 * request) / 800e9, "decode.measured": 0.18,
        "decode.added": (0.18 - 0.12) / 6, "decode.balance": 172,  # 70.55 GB over 0.41 GB
        # 2 FLOP for each weight of 69.5 billion at 1.28 PFLOP/s take 0.1086 ms, and all bytes 88.2 ms: 812
        "decode.flop": 2 * (80 * LAYER + HEAD + 161 * 8192) / 1.28e15, "decode.ridge": 812,
        "decode.fit": None,  # its memory is not known
        "problems.longer": (BYTE + 16 * request) / 800e9, "problems.best": 0.12 / ((BYTE + 2 * request) / 800e9),
    }  # fmt: skip
    assert wrong("tokens", world(), expected) == {}


def test_steps_of_a_mixture_and_a_dense_model_measured_here():
    """The mixture takes 2, 5 and 10 ms, the dense model 4, 5 and 9 ms, all with an interval of 10 %."""
    times = {here.MIXTURE: (0.002, 0.005, 0.010), here.DENSE: (0.004, 0.005, 0.009)}
    rows = [
        {"model": model, "batch": batch, "latency_s": time_s, "latency_low_s": 0.95 * time_s,
         "latency_high_s": 1.05 * time_s, "parameter_count": count, "precision": "bf16", "status": "ok",
         "flop_per_s": 1e9, "attained": 0.5}
        for (model, of_model), count in zip(times.items(), (1.5e9, 1e9), strict=True)
        for batch, time_s in zip(here.REQUESTS, of_model, strict=True)
    ]  # fmt: skip
    paper = replace(world(), machines=(replace(world().machines[0], cells=pd.DataFrame(rows)),))
    # Eight tokens with 2 of 8 experts each meet 8 x (1 - 0.75^8)
    expected = {
        "here.met": 7.1990966796875, "here.sparse_size": 1.5, "here.dense_size": 1.0, "here.more": 8,
        "here.sparse_first": 2.5, "here.sparse_second": 2.0, "here.dense_first": 1.25,
    }  # fmt: skip
    assert wrong("tokens", paper, expected) == {}
    lines = tables.measured.__wrapped__(paper).splitlines()
    assert len(lines) == 2 + 6


def test_caches_fit_into_known_memory():
    """Of nine tenths of 100 GB, weights leave 19.4 GB: 47 caches of 0.41 GB."""
    served = replace(world().served, memory={"NVIDIA D4 (SXM)": 100e9})
    assert wrong("tokens", replace(world(), served=served), {"decode.fit": 47.0}) == {}


def test_prefill_and_decode_have_their_share_of_the_peak():
    prompt = 3000 * 2 * 80 * LAYER + 2 * HEAD + 4 * 64 * 128 * 80 * 3000 * 3001 // 2
    token = 2 * 80 * LAYER + 2 * HEAD + 4 * 64 * 128 * 80 * 2501
    expected = {
        "phases.device": "D4 (SXM)", "phases.prompt": 3000, "phases.few": 2, "phases.many": 8,
        "phases.prefill_mfu": prompt / 5.0 / 1.28e15, "phases.few_mfu": 2 * token / 0.12 / 1.28e15,
        "phases.many_mfu": 8 * token / 0.18 / 1.28e15,
    }  # fmt: skip
    assert wrong("tokens", world(), expected) == {}


def test_a_mixture_of_fewer_flop_takes_longer():
    """Alone it takes 50 ms and the dense model 60; of 8 requests 100 and 40; of 64 200 and 80.

    Its weights: 94 layers with 64 and 4 heads of 128, experts of 3 x 4096 x 1536, a scale of 4 bytes for 128 x 128.
    Each of four GPUs has the whole router, at 16 bits. Caches have 1502 tokens.
    """
    dense = (64 * (5120 * 128 * (64 + 16) + 8192 * 5120 + 3 * 25600 * 5120) + 2 * 151936 * 5120) / 4
    attention, expert, router = 4096 * 128 * (64 + 8) + 8192 * 4096, 3 * 4096 * 1536, 4096 * 128

    def sparse(experts):
        layer = (attention + experts * expert) * (1 + 4 / 128**2) / 4 + 2 * router
        return 94 * layer + 2 * 151936 * 4096 / 4

    def bound(byte, requests, layers, heads):
        return (byte + requests * layers * 2 * heads * 128 * 1502) / 800e9

    many, met = 64, 128 * (1 - (1 - 8 / 128) ** 64)
    expected = {
        "puzzle.device": "D4 (SXM)", "puzzle.engine": "TensorRT-LLM", "puzzle.settings": 3, "puzzle.slower": 2,
        "puzzle.batch": 64, "puzzle.gpus": 4, "puzzle.time_ratio": 2.5,
        # 64 layers of 8192 x 5120 + 2 x 8 heads and the output, and of 3 x 25600 x 5120; the head at 16 bits
        "puzzle.dense_byte": dense, "puzzle.sparse_byte": sparse(met), "puzzle.byte_ratio": sparse(met) / dense,
        "puzzle.bound_ratio": bound(sparse(met), many, 94, 1) / bound(dense, many, 64, 2), "puzzle.few": 1,
        "puzzle.few_byte_ratio": sparse(8) / dense, "puzzle.few_time_ratio": 50 / 60,
        # Of three settings on four GPUs the middle one: of 8 requests, with 60 ms more
        "puzzle.first": (bound(sparse(128 * (1 - (15 / 16) ** 8)), 8, 94, 1) - bound(dense, 8, 64, 2)) / 0.06,
        "puzzle.many_gpus": 4,
        "experts.count": 128, "experts.active": 8, "experts.eight": 52, "experts.many": 126,
        "experts.first": 10.0, "experts.second": 1.2,  # 0.1, 1 and 1.2 ms by the faster kernel
    }  # fmt: skip
    assert wrong("tokens", world(), expected) == {}


def test_fewer_bits_give_less_than_they_promise():
    """On one GPU 4 bits are 1.5 times as fast; on eight 1.25 times with 2 requests, and 0.75 times with 8.

    For 16 tokens the wide product takes 200, 125 and 80 us on D4, and 600, 400 and 200 us on Bead 2.
    """
    four = 80 * LAYER * 4.5 / 8 + 2 * HEAD  # of a step
    # Servers of 2 and 8 requests on 1 and 8 GPUs: the median is between those of the requests
    gains = [(BYTE + requests * 2502 * CACHE) / (four + requests * 2502 * CACHE) for requests in (2, 8)]
    expected = {
        "bits.device": "D4 (SXM)", "bits.first_gpus": 1, "bits.first": 1.5, "bits.last_gpus": 8, "bits.last": 1.0,
        "bits.promised": BYTE / four, "bits.four_promised": 16 / 4.5,
        "bits.bound": sum(gains) / 2,
        "bits.eight_least": 1.5, "bits.eight_least.name": "Bead 2", "bits.eight_most": 1.6,
        "bits.four_least": 2.5, "bits.four_most": 3.0, "bits.four_most.name": "Bead 2",
    }  # fmt: skip
    assert wrong("tokens", world(), expected) == {}


def test_kernels_reach_a_share_of_the_roof():
    """Half of 640 TFLOP/s: 512 tokens in 200 us are 344; half of 100 on Bead 2: 256 in 600 us are 57.

    By the rooflines m tokens with 2 m n k FLOP for 400 or 50 times 2 (n k + m (n + k)) bytes: 455.6 and 50.8.
    Large caches: 0.537 GB in 1 ms of 800 GB/s, in 0.625 ms of 1 TB/s. Small ones: 2.1 MB in 20 us. 33.6 MB in 20 us are
    1.7 times the bandwidth.
    """
    expected = {
        "kernels.half_least": 256, "kernels.half_least.name": "Bead 2", "kernels.half_most": 512,
        "kernels.roof_least": 51, "kernels.roof_most": 456, "kernels.large_least": 64 * 4096 * 2048 / 1e-3 / 800e9,
        "kernels.large_least.name": "D4 (SXM)", "kernels.large_most": 64 * 4096 * 2048 / 0.625e-3 / 1e12,
        "kernels.small_most": 1024 * 2048 / 20e-6 / 1e12, "kernels.small_most.name": "Bead 2", "kernels.half_gpus": 1,
        "kernels.beyond": 16 * 1024 * 2048 / 20e-6 / 1e12, "kernels.beyond_byte": 16.0 * 1024 * 2048,
    }  # fmt: skip
    assert wrong("tokens", world(), expected) == {}


def test_products_at_4_bits_reach_half_of_their_peak():
    """Of 16 tokens both have half, and only one size was timed."""
    rows = world().served.products
    is_four = (rows.precision == "fp4").to_numpy()
    served = replace(world().served, products=rows.assign(peak_share=rows.peak_share.mask(is_four, 0.5)))
    expected = {"kernels.four_least": 16, "kernels.four_most": 16, "kernels.four_gpus": 2}
    assert wrong("tokens", replace(world(), served=served), expected) == {}


def test_a_served_token_taken_apart():
    """22 servers have a bound that holds. The shortest kernels take 5 and 100 us."""
    alone, cache = (BYTE + 2 * 2502 * CACHE) / 800e9, 8 * 1000 * CACHE / 800e9
    expected = {
        "parts.servers": 22, "parts.models": 3, "parts.left_out": 4, "parts.faster": 1, "parts.over": 0,
        "parts.divided.batch": 2, "parts.divided.gpus": 8, "parts.divided.measured": 0.03,
        "parts.divided.bound_alone": alone, "parts.divided.bound": alone / 8,
        "parts.divided.rest_alone": 0.12 - alone, "parts.divided.rest": 0.03 - alone / 8,
        "parts.divided.product": 5e-6, "parts.divided.attention": 100e-6, "parts.divided.floor": 80 * 120e-6,
        # 162 collectives of 10 us
        "parts.divided.communication": 1.62 / 30, "parts.divided.explained": alone / 8 + 1.62e-3,
        "problems.best_shared": 0.03 / (alone / 8),
        "parts.prompts.tokens": 3, "parts.prompts.batch": 8, "parts.prompts.added": 0.12,
        "parts.prompts.cache": cache, "parts.prompts.few": 2,
        # 8 prompts of 5 s for 1,000 tokens
        "parts.prompts.ttft": 5.0, "parts.prompts.output": 1000, "parts.prompts.alone": 0.04,
        # Of pairs with 8 requests 120 ms of 40 - 8 / 3, and 60 of 20 - 4 / 3, less the caches: the middle of four
        "parts.prompts.pairs": 4, "parts.prompts.share": (0.12 - cache + 2 * (0.06 - cache / 8)) / 2 / (0.112 / 3),
        # 2 requests of 1,000 tokens in 1 s + 999 x 35 ms, 8 in 4 s + 999 x 120 ms
        "curve.gpus": 8, "curve.few": 2, "curve.many": 8, "curve.slower": 120 / 35,
        "curve.throughput": 4 * (1 + 999 * 0.035) / (4 + 999 * 0.12),
    }  # fmt: skip
    assert wrong("tokens", world(), expected) == {}


def test_more_gpus_divide_the_least_time_alone():
    """Eight GPUs beside one: what a token takes beyond its bytes, in eight pairs."""
    weights = {"fp8": BYTE, "nvfp4": 80 * LAYER * 4.5 / 8 + 2 * HEAD}
    servers = [
        ("fp8", 2, 2502, 0.12, 0.03), ("fp8", 8, 2502, 0.18, 0.09), ("fp8", 2, 3502, 0.16, 0.04),
        ("fp8", 8, 3502, 0.3, 0.15), ("fp8", 2, 1502, 0.14, 0.035), ("fp8", 8, 1502, 0.24, 0.12),
        ("nvfp4", 2, 2502, 0.08, 0.024), ("nvfp4", 8, 2502, 0.12, 0.12),
    ]  # fmt: skip
    bounds = [(weights[form] + requests * seen * CACHE) / 800e9 for form, requests, seen, *_ in servers]
    ends = [(alone_s, shared_s) for *_, alone_s, shared_s in servers]
    both = [*zip(bounds, ends, strict=True)]
    expected = {
        "parts.divided.pairs": 8,
        "parts.divided.first": median(bound / one for bound, (one, _) in both),
        "parts.divided.last": median(bound / 8 / shared for bound, (_, shared) in both),
        "parts.divided.left": median((shared - bound / 8) / (one - bound) for bound, (one, shared) in both),
        # 162 collectives of 10 us
        "parts.divided.left_alone": median(
            (shared - bound / 8 - 1.62e-3) / (one - bound) for bound, (one, shared) in both
        ),
    }
    assert wrong("tokens", world(), expected) == {}


def test_without_servers_the_chapter_is_not_printed():
    text = facts.conditions("tokens", facts.of_chapter("tokens", nothing())).split("---\n")[1]
    assert not any(json.loads(text)["tokens"].values())


def test_figures_show_what_the_text_says():
    paper = world()
    rows = rows_of(figures.roofline.__wrapped__(paper), "name", "flop_per_s")
    token = 2 * 80 * LAYER + 2 * HEAD + 4 * 64 * 128 * 80 * 2501
    assert any(name == "decode, 2 requests" and isclose(rate, 2 * token / 0.12, rel_tol=1e-5) for name, rate in rows)
    shares = rows_of(figures.apart.__wrapped__(paper), "part", "seconds", "label")
    assert isclose(
        sum(seconds for _, seconds, label in shares if label == "long answers, 2 at once, 8 GPUs"), 0.03, rel_tol=1e-5
    )
    users = rows_of(figures.curve.__wrapped__(paper), "name", "requests", "per_user")
    assert any(row[:2] == ("8 GPUs", 2) and isclose(row[2], 1 / 0.035, rel_tol=1e-5) for row in users)
    assert ("D4 (SXM)", 64.0, 1e-3) in rows_of(figures.experts.__wrapped__(paper), "name", "tokens", "latency_s")
    halves = rows_of(figures.kernels.__wrapped__(paper), "gpu", "precision", "tokens", "roof_tokens")
    assert ("Bead 2", "bf16", 256.0, 50.7748) in halves


def test_tables_list_gpus_and_servers():
    cells = cells_of(tables.kernels.__wrapped__(world()))
    assert cells["Bead 2"][:2] == ["256 (57 %)", "–"]
    servers = cells_of(tables.servers.__wrapped__(world()))
    assert servers["Qwen3-32B"][:6] == ["fp8", "D4 (SXM)", "TensorRT-LLM", "4", "1–64", "3"]


@pytest.mark.parametrize("table", ["servers", "products"])
def test_half_of_the_data_is_a_smaller_chapter(table):
    """A paper with servers alone has no kernels, one with kernels alone no chapter."""
    served = world().served
    less = replace(served, **{table: getattr(served, table)[:0]})
    found = facts.of_chapter("tokens", replace(world(), served=less))
    assert all(value.is_missing for _, value, _ in facts.entries("tokens", found))


def test_the_example_is_on_one_gpu_and_on_more():
    rows = timed.example(world().served)
    assert set(rows.plan_gpus) == {1, 8}
    assert set(timed.single(world().served).batch) == {2, 8}
