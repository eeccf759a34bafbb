"""The chapter on several GPUs: links, gradients and ranks of round numbers."""

from dataclasses import replace

import pandas as pd
from helpers.world import cells_of, nothing, world, wrong

from measure.cache.traces import StoredTrace
from measure.domain.trace_records import TraceCollective, TraceDevice
from report import facts
from report.chapters.several import facts as chapter
from report.chapters.several import figures, tables, timed
from report.paper import served
from report.paper.served import settings

FAST, SLOW = "NVIDIA H100 SXM", "Bead 2"


def paper_of_links():
    """Eight GPUs of two kinds sum 8 kB in 10 or 40 µs and 8 MB in 100 or 1,000 µs; links have 280 and 28 GB/s."""
    rows = [
        {"device": device, "collective": "all_reduce", "gpus": gpus, "message_byte": size, "latency_s": time_s}
        for device, size, times in ((FAST, 8e3, (9, 10e-6)), (FAST, 8e6, (9, 100e-6)), (SLOW, 8e3, (9, 40e-6)),
                                    (SLOW, 8e6, (9, 1e-3)))
        for gpus, time_s in zip((4, 8), times, strict=True)
    ]  # fmt: skip
    chips = pd.DataFrame(
        [
            {"chip": FAST, "precision": "bf16", "peak_flop_per_s": 840e12, "link_byte_per_s": 280e9},
            {"chip": SLOW, "precision": "bf16", "peak_flop_per_s": 1e12, "link_byte_per_s": 28e9},
        ]
    )
    networks = pd.DataFrame(
        [
            {"model": "resnet50", "batch": 1, "precision": "fp32", "parameter_count": 21e6, "forward_flop": 10e9,
             "backward_flop": 20e9}
        ]
    )  # fmt: skip
    served = replace(world().served, collectives=pd.DataFrame(rows))
    return replace(world(), served=served, chips=chips, workloads=networks)


def test_links_by_hand():
    """Each of eight sends 14/8 of an array: 14 kB in 10 and 40 µs, 14 MB in 100 and 1,000 µs."""
    expected = {
        "links.fastest": 140e9, "links.slowest": 14e9, "links.share_least": 0.5, "links.share_most": 0.5,
        "links.half_least": 8e6, "links.half_most": 8e6, "links.short_least": 10e-6, "links.short_most": 40e-6,
    }  # fmt: skip
    assert wrong("several", paper_of_links(), expected) == {}
    # bandwidth, link, share, half of it, and shortest; the faster first
    cells = cells_of(tables.links.__wrapped__(paper_of_links()))
    assert list(cells) == ["H100 SXM", "Bead 2"]
    assert cells["Bead 2"][2] == "50.0 %"


def test_data_parallelism_by_hand():
    """840 TFLOP/s over 280 GB/s are 3,000 FLOP/B: two thirds are 2,000 tokens, and 4 million of them 2,000 GPUs.

    At 50 GB/s they are 11,200 tokens and 357 GPUs, at eight times that 1,400 tokens. Gradients of 21 million
    parameters, sent twice with two bytes, take 0.3 ms; an image of 30 GFLOP takes 35.7 µs: 8.4 images.
    """
    expected = {
        "data.ridge": 3000.0, "data.tokens": 2000, "data.gpus": 2000, "data.node_tokens": 11200, "data.node_gpus": 357,
        "data.own_tokens": 1400, "data.images": 9,
    }  # fmt: skip
    assert wrong("several", paper_of_links(), expected) == {}


def test_a_model_is_split_over_more_and_more_cards():
    """The device with the most numbers of cards, at the shortest text that all of them have."""
    rows = [
        ("A", 2, 512, 20.0), ("A", 4, 512, 21.0), ("B", 2, 256, 99.0), ("B", 2, 512, 10.0), ("B", 4, 512, 12.0),
        ("B", 8, 512, 9.0), ("B", 8, 1024, 7.0),
    ]  # fmt: skip
    found = pd.DataFrame(rows, columns=["device", "gpus", "tokens", "tokens_per_s"])
    prompts = [("B", 2, 512, 400.0), ("B", 2, 1024, 300.0), ("B", 8, 1024, 450.0), ("B", 8, 2048, 900.0)]
    read = pd.DataFrame(prompts, columns=found.columns).assign(phase="prefill")
    found = pd.concat([found.assign(phase="decode"), read]).assign(model="LLaMA 3 70B", weights="Q4_K_M")
    paper = replace(world(), published=replace(world().published, tokens=found))
    expected = {
        "split.few": 2, "split.some": 4, "split.many": 8, "split.few_rate": 10.0, "split.some_rate": 12.0,
        "split.many_rate": 9.0, "split.times": 4, "split.speed": 0.9, "split.tokens": 512,
        "split.prompt_speed": 1.5,
    }  # fmt: skip
    assert wrong("several", paper, expected) == {}


def collective(rank, number, time_s):
    fields = dict.fromkeys(TraceCollective.__dataclass_fields__)
    given = {"rank": rank, "device": 0, "step": 1, "operator": "nccl.all_reduce", "number": number, "time_s": time_s}
    return TraceCollective(**fields | given)


def test_ranks_wait_for_the_last_one():
    """Collectives take 3 and 1 ms, on the other rank 1 and 5 ms: 1 and 1 ms are transfers, 6 of 10 ms are waits."""
    rows = [collective(0, 0, 0.003), collective(0, 1, 0.001), collective(1, 0, 0.001), collective(1, 1, 0.005)]
    fields = dict.fromkeys(TraceDevice.__dataclass_fields__)
    devices = [TraceDevice(**fields | {"network": "net", "rank": rank, "chip": FAST}) for rank in (0, 1)]
    trace = StoredTrace("several", devices, [], [], rows)
    expected = {
        "ranks.ranks": 2, "ranks.calls": 2, "ranks.transfer": 0.002, "ranks.share": 0.6, "ranks.least": 0.002,
        "ranks.most": 0.004,
    }  # fmt: skip
    assert wrong("several", replace(world(), traces=(trace,)), expected) == {}


def test_groups_measured_here():
    """Two processes sum 4 kB in 1 ms, 4 MB in 2 ms and 64 MB in 20 ms; four, on two cores, 4 kB in 9 ms.

    Of two each sends as much as the array has: 4 MB/s, 2 GB/s and 3.2 GB/s, and 4 MB of gradients in 1.25 ms. A step
    takes 60 and 120 ms with the exchange, 50 and 100 ms without it.
    """
    expected = {
        "here.backend": "gloo", "here.processes": 2, "here.short_byte": 4_000, "here.short": 1e-3, "here.bus": 3.2e9,
        "here.half_byte": 4_000_000, "here.network": "lean", "here.gradients": 4_000_000, "here.sent": 0.00125,
        "here.step": 0.09, "here.ratio": 1.2,
    }  # fmt: skip
    assert wrong("several", world(), expected) == {}
    (cells,) = cells_of(tables.steps.__wrapped__(world())).values()
    assert cells == ["lean", "8", "fp32", "2 (gloo)", "4.00 MB", "90.0 ms", "75.0 ms", "1.20"]
    chart = figures.measured.__wrapped__(world())
    assert "2 processes 3.20\xa0GB/s; 4 processes" in chart.to_dict()["description"]


def test_collectives_of_the_same_settings_on_two_groups(monkeypatch):
    """On 4 GPUs they take 1 and 2 of 10 ms, on 8 GPUs 2 and 4 of 8 ms; there 2 of 20 ms where prompts are longer."""
    first = settings(world().served).iloc[0].to_dict()
    rows = pd.DataFrame([
        first | {"plan_gpus": gpus, "batch": batch, "input_tokens": read, "output_tokens": 2000, "tpot_s": time_s,
                 "communication_s": part_s}
        for gpus, batch, read, time_s, part_s in (
            (4, 1, 1000, 0.010, 0.001), (4, 2, 1000, 0.010, 0.002), (8, 1, 1000, 0.008, 0.002),
            (8, 2, 1000, 0.008, 0.004), (8, 1, 4000, 0.020, 0.002),
        )
    ])  # fmt: skip
    monkeypatch.setattr(served, "settings", lambda _: rows)
    monkeypatch.setattr(chapter, "settings", lambda _: rows)
    monkeypatch.setattr(timed, "communication", lambda _: pd.DataFrame({"plan_gpus": [4] * 6 + [8] * 6}))
    expected = {
        "served.settings": 2, "served.few_gpus": 4, "served.few": 0.15, "served.many_gpus": 8, "served.many": 0.375,
        "served.answers": 0.375, "served.prompts": 0.1,
    }  # fmt: skip
    assert wrong("several", replace(world()), expected) == {}


def test_the_figure_draws_what_there_is():
    assert "140\xa0GB/s" in figures.links.__wrapped__(paper_of_links()).to_dict()["description"]
    assert facts.of_chapter("several", nothing()).links.fastest.is_missing
