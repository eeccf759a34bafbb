"""The numbers of the chapter on what to do: what each remedy gained where it was measured."""

from dataclasses import replace
from typing import Any

import pandas as pd

from measure.domain.advice import SYSTEM_SHARE
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import EAGER, FULL_PRECISION
from report.facts import Facts, missing, source_of, sourced
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.cells import half_width
from report.paper.chips import short_name
from report.paper.frames import matching
from report.stats import published
from report.stats.value import Name, Value, exact, median_of

KEPT, DECODE = "kept_memory", "llama_1b_decode_512"
TRAINED = 64  # the batch size at which memory of training is counted, as in the chapter on training


class RemedyHere(Facts):
    batch: Value  #: The largest batch size with enough networks in eager mode and with memory kept.
    kept: Value  #: Speed with freed memory kept over eager mode, at that batch size.
    threshold: Value  #: The operating system's share from which on keeping memory is suggested.
    precision: Value  #: Speed at 16 bits over that at fp32, at that batch size.
    both: Value  #: Speed with both over eager mode at fp32.
    first_batch: Value  #: The smallest batch size.
    best_batch: Value  #: The batch size at which most networks are fastest per input, with memory kept where measured.
    batching: Value  #: Speed per input at that batch size over that at the smallest.
    noise: Value  #: Half the width of the typical latency's interval, over the latency.


class RemedyPublished(Facts):
    device: Name  #: The GPU of which most networks were timed.
    compiled: Value  #: Speed with torch.compile over eager mode on it.
    layout: Value  #: Speed with channels last over contiguous tensors, on the GPU of which most were timed so.


class RemedyCounted(Facts):
    training: Value  #: Peak memory of a training step over that of inference.
    saved: Value  #: Saved activations over the peak of training.
    decode: Value  #: Intensity of decoding with Llama-1B at the smallest counted batch size, by compulsory bytes.
    decode_batched: Value  #: Its intensity at the largest.


class Remedies(Facts):
    here: RemedyHere
    published: RemedyPublished
    counted: RemedyCounted


def of(paper: Paper) -> Remedies:
    best = published.best_timed(paper)
    compiled = published.of_best(published.compiled(paper), best)
    layouts = published.channels_last(paper)
    return Remedies(
        here=sourced(_here(paper.at_hand), source_of("machines/*/samples.csv", "inference", "inference")),
        published=sourced(
            RemedyPublished(
                device=Name(short_name(best.device) if best else None),
                compiled=published.gain(compiled),
                layout=published.gain(next(iter(layouts), None)),
            ),
            published.SOURCE,
        ),
        counted=sourced(_counted(paper.workloads), source_of("workload/models.csv", "workload", "workload")),
    )


def _here(machine: Machine | None) -> RemedyHere:
    if machine is None:
        return replace(missing(RemedyHere), threshold=exact(SYSTEM_SHARE, "%"))
    every = pd.concat([machine.cells, machine.variants])
    every = every[every.latency_s.notna()]
    lower = machine.lower_precision

    def speeds(variant: str, precision: str, batch: Any) -> pd.Series:
        rows = matching(every, variant=variant, precision=precision)
        return rows[rows.batch == batch].set_index("model").throughput_per_s

    eager = matching(every, variant=EAGER, precision=BASE_PRECISION)
    kept = matching(every, variant=KEPT, precision=BASE_PRECISION).dropna(subset="speed_up")
    rows = kept if len(kept) else eager
    sizes = rows.groupby("batch").model.nunique()
    usual = sorted(sizes.index[sizes >= FEWEST_MODELS])
    first, large = (usual[0], usual[-1]) if usual else (None, None)
    fastest = rows[rows.batch.isin(usual)].sort_values("throughput_per_s").drop_duplicates("model", keep="last")
    best = next(iter(fastest.batch.mode()), None)
    variant = KEPT if len(kept) else EAGER
    return RemedyHere(
        batch=exact(large),
        kept=median_of(kept[kept.batch == large].speed_up),
        threshold=exact(SYSTEM_SHARE, "%"),
        precision=median_of(speeds(EAGER, lower, large) / speeds(EAGER, BASE_PRECISION, large)),
        both=median_of(speeds(KEPT, lower, large) / speeds(EAGER, BASE_PRECISION, large)),
        first_batch=exact(first),
        best_batch=exact(best),
        batching=median_of(speeds(variant, BASE_PRECISION, best) / speeds(variant, BASE_PRECISION, first)),
        noise=median_of(half_width(eager), "%"),
    )


def _counted(workloads: pd.DataFrame) -> RemedyCounted:
    rows = matching(workloads, batch=TRAINED, precision=FULL_PRECISION)
    decoding = matching(workloads, model=DECODE, precision="bf16").sort_values("batch").compulsory_intensity
    return RemedyCounted(
        training=median_of(rows.training_peak_byte / rows.inference_peak_byte),
        saved=median_of(rows.saved_byte / rows.training_peak_byte, "%"),
        decode=exact(decoding.iloc[0] if len(decoding) else None, "FLOP/B"),
        decode_batched=exact(decoding.iloc[-1] if len(decoding) else None, "FLOP/B"),
    )
