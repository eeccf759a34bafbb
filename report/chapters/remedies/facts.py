"""The chapter on remedies: numbers of its own. Its gains come from the chapters that measured them."""

from dataclasses import replace

from measure.domain.advice import SYSTEM_SHARE
from report.facts import Facts, of_chapter, source_of, sourced
from report.paper import Paper, published
from report.paper.frames import matching
from report.paper.published import name_in
from report.stats.value import Name, Value, count_of, exact

DECODE, SMALL_DECODE, DECODED = "llama_1b_decode_512", "gpt2_decode_512", "bf16"


class Remedies(Facts):
    threshold: Value  #: The operating system's share above which keeping memory is suggested.
    layout: Value  #: Convolutional networks' speed with channels last over contiguous tensors, on the GPU with most.
    layout_device: Name  #: The GPU with the most timings of both layouts.
    layout_other: Value  #: The same speed on the GPU with the second most.
    layout_other_device: Name  #: The GPU with the second most timings of both layouts.
    singles: Value  #: Networks behind the gain of fewer kernels for a single input.
    single_device: Name  #: The GPU of these networks.
    is_compiled: bool  #: These networks were compiled, and none was captured as a CUDA graph
    on_gpu: bool  #: The machine at hand, with kept memory and lower precision, is a GPU
    decode_precision: Name  #: The precision of decoding.
    decode: Value  #: Intensity of decoding with Llama-1B at the smallest counted batch size, by compulsory bytes.
    decode_batch: Value  #: The largest counted batch size of decoding with Llama-1B.
    decode_batched: Value  #: Intensity of decoding with Llama-1B at the largest counted batch size.
    decode_small: Value  #: Intensity of decoding with GPT-2 at the same batch size.


def of(paper: Paper) -> Remedies:
    pairs, other, *_ = [*published.channels_last(paper.published), None, None]
    cause = of_chapter("cause", paper)
    compiled, captured = cause.host.compiled, cause.graph.networks
    singles = captured.number or compiled.single_least.count
    decoding = matching(paper.workloads, model=DECODE, precision=DECODED).set_index("batch").compulsory_intensity
    small = matching(paper.workloads, model=SMALL_DECODE, precision=DECODED).set_index("batch").compulsory_intensity
    least, most = (decoding.index.min(), decoding.index.max()) if len(decoding) else (None, None)
    return sourced(
        Remedies(
            threshold=exact(SYSTEM_SHARE, "%"),
            layout=replace(published.gain(pairs), source=published.SOURCE),
            on_gpu=paper.at_hand is not None and paper.at_hand.chip_kind == "gpu",
            layout_device=replace(name_in(pairs), source=published.SOURCE),
            layout_other=replace(published.gain(other), source=published.SOURCE),
            layout_other_device=replace(name_in(other), source=published.SOURCE),
            singles=replace(count_of(singles, "networks"), source=compiled.single_least.source),
            single_device=replace(compiled.device, source=compiled.single_least.source),
            is_compiled=captured.is_missing and not compiled.single_least.is_missing,
            decode_precision=Name(DECODED if len(decoding) else None),
            decode=exact(decoding.get(least), "FLOP/B"),
            decode_batch=exact(None if most is None else int(most)),
            decode_batched=exact(decoding.get(most), "FLOP/B"),
            decode_small=exact(small.get(most), "FLOP/B"),
        ),
        source_of("workload/models.csv", "workload", "workload"),
    )
