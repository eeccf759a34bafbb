"""What timings of others say of claims about GPUs, on made rows and by hand."""

import re
from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import many, tiny
from helpers.published_papers import printed
from helpers.sentences import cells as cells_of
from helpers.sentences import plain
from helpers.sweep_papers import L4, SIZES, T4, V100, count, sweep, timing, with_timings

from report.published import claims
from report.published.claims import elsewhere
from report.published.claims.madani import VISION
from report.published.claims.ruling import CLAIMS, CONFIRMED, ELSEWHERE, REFUTED
from report.published.verdict import UNDECIDED
from report.tables import published

RADEON = "AMD Radeon RX 7900 XTX"
"""It has no TF32."""

NINE = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MODELS = [f"timm:net{k}" for k in range(24)]


def ruled(claim, *timings, counts=(), paper=None):
    return claims.ruling(with_timings(timings, counts, paper), claim)


def on_cpu(latencies, paper=None):
    """What studies printed beside the tiny paper's CPU alone, with these models' times (s) at batch size 1."""
    cpu = tiny().machine("cpu")
    rows = [{"model": model, "batch": 1, "forward_flop": 1.0, "latency_s": s} for model, s in latencies.items()]
    frame = pd.DataFrame(rows).assign(precision="fp32", status="ok")
    return replace(paper or printed(), machines=(replace(cpu, cells=frame),))


def test_every_claim_that_names_a_gpu_has_such_a_rule():
    rows = printed().published.claims
    named = set(rows[rows.claim.str.contains(r"\b(?:GPU|T4|L4|V100)\b")].id)
    by_their_own_table = {"pham2024-5a", "pham2024-5b", "pham2024-6a", "pham2024-6b"}
    assert named - by_their_own_table <= set(ELSEWHERE) <= set(CLAIMS)
    assert len(named) == 17


@pytest.mark.parametrize("claim", list(ELSEWHERE))
def test_without_timings_a_claim_is_as_open_as_before_and_says_what_adds_some(claim):
    ruling = claims.ruling(printed(), claim)
    assert ruling.sources == ()
    assert ruling.text.endswith(".")
    if claim in ("madani2026-6b", "a1rooflines-3", "daugherty-1b", "pham2024-7"):
        assert "`python -m measure add-published" in ruling.text


@pytest.mark.parametrize(
    ("claim", "why"),
    [("hw1part2-1", "passes are not apart"), ("madani2026-9", "layers are not apart"), ("a1rooflines-1", "A time")],
)
def test_what_no_time_of_a_whole_call_decides(claim, why):
    assert ELSEWHERE[claim](printed()).mark == UNDECIDED
    assert why in ELSEWHERE[claim](printed()).text


def test_a_trend_is_decided_by_all_models_of_the_claim():
    # Nine rising rates: 36 pairs in order; 35 is more than 2.58 times the root of 9 x 8 x 23 / 18, which is 24.7
    rising = [row for model in VISION for row in sweep(model, range(10, 100, 10), NINE)]
    ruling = ruled("madani2026-6b", *rising)
    assert (ruling.mark, ruling.sources) == (CONFIRMED, ("nvidia_examples",))
    assert ruling.text.startswith("On the NVIDIA T4, as others timed it with the copy of the input, throughput is 9.00")
    falling = sweep("vgg16", range(90, 0, -10), NINE)
    rest = [row for row in rising if row["model"] != "vgg16"]
    assert ruled("madani2026-6b", *rest, *falling).mark == REFUTED
    assert ruled("madani2026-6b", *rest, *sweep("vgg16", (9, 1, 8, 2, 7, 3, 6, 4, 5), NINE)).mark == UNDECIDED
    # three batch sizes may be in order by chance: 3 pairs, less 1, below 2.58 times the root of 3 x 2 x 11 / 18, 4.9
    assert ruled("madani2026-6b", *rest, *sweep("vgg16", (1, 2, 3), (1, 4, 16))).mark == UNDECIDED


def test_a_model_that_was_not_timed_leaves_a_trend_open():
    ruling = ruled("madani2026-6b", *sweep("resnet50", range(10, 100, 10), NINE))
    assert ruling.mark == UNDECIDED
    text = plain(ruling.text)
    assert text.startswith("On the NVIDIA T4, as others timed it")  # that a GPU of ours is missing decides nothing
    assert "9.00 times as high at batch size 256 as at 1 (resnet50); vgg16, resnet18, mobilenet_v2" in text
    assert text.endswith("were not timed.")
    speech = ruled("madani2026-7b", *sweep("resnet50", range(10, 100, 10), NINE))
    assert speech.text.endswith("a full sweep of batch sizes is not known of wav2vec2_base.")


@pytest.mark.parametrize(
    "other",
    [
        {"device": V100}, {"autocast": "fp16"}, {"precision": "fp16"}, {"compiler": "torch.compile"},
        {"input_size": 320}, {"phase": "step"},
    ],
)  # fmt: skip
def test_under_other_conditions_a_timing_decides_nothing(other):
    rows = [row for model in VISION for row in sweep(model, range(10, 100, 10), NINE, **other)]
    ruling = ruled("madani2026-6b", *rows)
    assert (ruling.mark, ruling.sources) == (UNDECIDED, ())
    assert "No forward pass at fp32 on the NVIDIA T4 is in data/published/measurements" in ruling.text


def test_two_sources_are_no_sweep():
    rows = sweep("resnet50", range(10, 100, 10), NINE)
    halves = [row | {"source": "timm_results"} if row["batch"] > 8 else row for row in rows]
    text = ruled("madani2026-6b", *halves).text
    assert "throughput is 4.00 times as high at batch size 8 as at 1 (resnet50)" in text
    assert " 256" not in text


def test_our_own_measurement_comes_first():
    rows = [row for k in range(6) for row in sweep(f"timm:net{k}", (1, 4, 95.5, 99, 100))]
    own = replace(many(), published=printed().published)
    ours = claims.ruling(own, "a1rooflines-3")
    assert "Example GPU" in ours.text
    assert ruled("a1rooflines-3", *rows, paper=own) == ours
    without = replace(own, machines=own.machines[:1], chips=printed().chips)
    assert ruled("a1rooflines-3", *rows, paper=without).sources == ("nvidia_examples",)


@pytest.mark.parametrize(
    ("rates", "models", "mark"),
    [
        ((1, 4, 16, 96, 100), 6, CONFIRMED),  # 95 of 100 at 64
        ((1, 4, 96, 99, 100), 6, REFUTED),  # at 16
        ((1, 4, 96, 99, 100), 3, UNDECIDED),  # the median of three has no interval
        ((1, 4, 16, 96, 100), 3, UNDECIDED),
    ],
)
def test_saturation(rates, models, mark):
    ruling = ruled("a1rooflines-3", *(row for k in range(models) for row in sweep(f"timm:net{k}", rates)))
    assert ruling.mark == mark
    assert ruling.sources == ("nvidia_examples",)
    assert ruling.text.endswith("the median has no interval.") == (models == 3)


@pytest.mark.parametrize(("slower", "mark"), [(3.0, REFUTED), (1.5, CONFIRMED)])
def test_the_gap_between_our_cpu_and_their_gpu(slower, mark):
    # small is up to twice
    cpu = on_cpu(dict.fromkeys(MODELS[:6], slower * 0.01))
    ruling = ruled("a1rooflines-5", *(timing(model, 1, 100.0) for model in MODELS[:6]), paper=cpu)
    assert ruling.mark == mark
    assert f"takes {slower:.2f} ({slower:.2f} to {slower:.2f}) times as long as the GPU" in ruling.text
    assert ruling.text.endswith("The GPU is the NVIDIA T4, as others timed it with the copy of the input.")
    alone = ruled("a1rooflines-5", timing(MODELS[0], 1, 100.0), timing(MODELS[1], 4, 100.0), paper=cpu)
    assert (alone.mark, alone.sources) == (UNDECIDED, ("nvidia_examples",))
    assert f"takes {slower:.1f} times as long" in alone.text
    none = ruled("a1rooflines-5", timing("other", 1, 100.0), paper=cpu)
    assert none.text.endswith("no model that we measured on the CPU is known at batch size 1.")


def test_the_order_of_devices():
    # six models in one order: 1, where 0.89 is printed
    studied = {model: 0.01 * (k + 1) for k, model in enumerate(VISION[:6])}
    rows = [timing(model, 1, 1 / s) for model, s in studied.items()]
    ruling = ruled("madani2026-5a", *rows, paper=on_cpu(studied))
    assert (ruling.mark, ruling.sources) == (REFUTED, ("nvidia_examples",))
    assert "is 1.00" in ruling.text
    few = ruled("madani2026-5a", *rows[:2], paper=on_cpu(studied))
    assert few.mark == UNDECIDED
    assert "too few of its models were measured" in few.text
    assert few.text.endswith("resnet18 and vgg16 are known at batch size 1.")


def counted(models=MODELS):
    return [count(model, k + 1) for k, model in enumerate(models)]


def in_order(device=T4, batch=12, models=MODELS, **changed):
    """Times that are proportional to FLOP."""
    return [timing(model, batch, batch / (k + 1), device=device, **changed) for k, model in enumerate(models)]


def test_a_study_that_names_no_gpu_is_held_against_every_one():
    rows = [*in_order(T4), *in_order(RADEON, source="lamikr_benchmark")]
    ruling = ruled("daugherty-1b", *rows, counts=counted())
    assert (ruling.mark, ruling.sources) == (REFUTED, ("lamikr_benchmark", "nvidia_examples"))
    text = plain(ruling.text)
    assert text.startswith("On 2 GPUs, as others timed them, the rank correlation of FLOP with latency is from 1.00 (")
    assert "(24 models at batch size 12)" in text
    # The places 1, 8, 15, 22, 5, 12 and so on: no order that an interval tells from none
    other = [timing(model, 12, 12 / (7 * k % 24 + 1), device=RADEON) for k, model in enumerate(MODELS)]
    assert ruled("daugherty-1b", *in_order(T4), *other, counts=counted()).mark == UNDECIDED


def test_of_a_gpu_the_file_with_most_models_counts():
    backwards = [timing(model, 12, 12.0 * (k + 1), file="small.csv") for k, model in enumerate(MODELS[:6])]
    ruling = ruled("daugherty-1b", *backwards, *in_order(T4), counts=counted())
    assert ruling.mark == REFUTED
    assert "24 models" in plain(ruling.text)


def test_flop_that_were_not_counted_decide_nothing():
    for claim in ("daugherty-1b", "a1rooflines-6a", "a1rooflines-6b"):
        ruling = ruled(claim, *in_order(T4))
        assert (ruling.mark, ruling.sources) == (UNDECIDED, ())
        assert "`python -m measure count-published` counts them" in ruling.text


@pytest.mark.parametrize("ampere_or_later", [L4, "NVIDIA GeForce RTX 3090"])  # of the latter the table has no TF32
def test_a_chip_that_may_multiply_in_tf32_and_one_with_few_models_do_not_count(ampere_or_later):
    ruling = ruled("daugherty-1b", *in_order(ampere_or_later), *in_order(T4, models=MODELS[:19]), counts=counted())
    assert ruling.mark == UNDECIDED
    assert "On no GPU did others time 20 counted models at fp32" in ruling.text


def test_correlations_at_the_studys_batch_sizes():
    rows = [row for batch in (1, 64, 256) for row in in_order(batch=batch)]
    low = ruled("a1rooflines-6a", *rows, counts=counted())
    equal = ruled("a1rooflines-6b", *rows, counts=counted())
    assert (low.mark, equal.mark) == (REFUTED, CONFIRMED)  # all are 1
    assert low.sources == equal.sources == ("nvidia_examples",)
    three = [row for batch in (1, 64, 256) for row in in_order(batch=batch, models=MODELS[:3])]
    few = ruled("a1rooflines-6b", *three, counts=counted())
    assert few.mark == UNDECIDED  # equal, too, but by chance as well
    assert re.search(r"3.models are known, too few at batch sizes 1, 64 and 256", few.text)


def test_steps_on_two_gpus_alike_in_all_else():
    def steps(device, rate):
        return sweep("resnet50", [rate] * 6, (1, 2, 4, 8, 16, 32), device=device, phase="step")

    ruling = ruled("pham2024-7", *steps(T4, 100.0), *steps(L4, 50.0))
    assert (ruling.mark, ruling.sources) == (CONFIRMED, ("nvidia_examples",))
    assert "takes 2.00 (2.00 to 2.00) times as long as on the NVIDIA T4" in ruling.text
    assert ruled("pham2024-7", *steps(T4, 50.0), *steps(L4, 100.0)).mark == REFUTED
    for rows in (steps(T4, 100.0), [*steps(T4, 100.0), *(row | {"torch": "2.4"} for row in steps(L4, 50.0))]):
        ruling = ruled("pham2024-7", *rows)
        assert ruling.mark == UNDECIDED
        assert "likely misprinted" in ruling.text
        assert "No training steps of resnet50 on both the NVIDIA L4 and the NVIDIA T4, all else alike" in ruling.text


def with_chips(**chips):
    """What studies printed, with chips of the T4's die at so many times its peak and bandwidth."""
    known = printed().chips
    t4 = known[known.chip == T4]
    added = [
        t4.assign(
            chip=name, alias="", peak_flop_per_s=peak * t4.peak_flop_per_s,
            bandwidth_byte_per_s=bandwidth * t4.bandwidth_byte_per_s,
        )
        for name, (peak, bandwidth) in chips.items()
    ]  # fmt: skip
    return replace(printed(), chips=pd.concat([known, *added], ignore_index=True))


def test_kin_has_the_die_and_the_ridge_point():
    paper = with_chips(twin=(2, 2), near=(2, 2.015), far=(2, 2.03), cousin=(2, 1))
    assert elsewhere.kin(paper, T4) == {"twin", "near"}  # 0.7 % lower; of far 1.5 %
    # of the V100's die: 14.9 / 0.6528 = 22.8 and 14.13 / 0.9 = 15.7 FLOP/B, where it has 15.7 / 0.9 = 17.4
    assert elsewhere.kin(printed(), V100) == set()
    assert elsewhere.kin(printed(), "no such chip") == set()


def test_kin_stands_in_for_a_trend_but_not_for_a_time():
    paper, twin = with_chips(Twin=(2, 2)), {"device": "Twin", "input_copied": "no"}
    rising = [row for model in VISION for row in sweep(model, range(10, 100, 10), NINE, **twin)]
    ruling = ruled("madani2026-6b", *rising, paper=paper)
    assert ruling.mark == CONFIRMED
    assert ruling.text.startswith("On the Twin, of the NVIDIA T4's die and ridge point, as others timed it, throughput")
    cpu = on_cpu(dict.fromkeys(VISION, 1.0), paper)
    gap = ruled("a1rooflines-5", *rising, paper=cpu)
    assert gap.mark == UNDECIDED
    assert "No forward pass at fp32 on the NVIDIA T4 is in data/published/measurements; add" in gap.text


def test_how_many_claims_rest_on_timings_of_others():
    assert claims.timed_elsewhere(printed()) == "No claim rests on timings that others published."
    # resnet50 is of madani2026-6b, and its sweep alone of a1rooflines-3
    open_ = with_timings(sweep("resnet50", (1, 2, 3, 4, 5)))
    assert plain(claims.timed_elsewhere(open_)) == (
        "2 claims about GPUs rest on timings that others published, where ours are missing: they decide none and leave "
        "2 open."
    )
    decided = with_timings([row for k in range(6) for row in sweep(f"timm:net{k}", (1, 4, 96, 99, 100), SIZES)])
    assert plain(claims.timed_elsewhere(decided)).startswith("1 claim about GPUs rests on timings that others")
    assert "decide 1 and leave none open" in plain(claims.timed_elsewhere(decided))


def test_the_table_cites_whose_timings_decide():
    paper = with_timings(sweep("resnet50", (1, 2, 3, 4, 5)))
    rows = [row for row in cells_of(published.claim_rulings(paper)) if "[@nvidia_examples]" in row[2]]
    assert len(rows) == 2
    assert all(row[2].endswith("[@nvidia_examples]") for row in rows)
