"""The chapter on remedies: numbers of its own. Its gains come from the chapters that measured them."""

from dataclasses import replace

from measure.domain.advice import SYSTEM_SHARE
from report.facts import Facts, source_of, sourced
from report.paper import Paper, published
from report.paper.frames import matching
from report.paper.published import name_in
from report.stats.value import Name, Value, exact

DECODE, SMALL_DECODE = "llama_1b_decode_512", "gpt2_decode_512"


class Remedies(Facts):
    threshold: Value  #: The operating system's share above which keeping memory is suggested.
    layout: Value  #: Speed with channels last over contiguous tensors, on the GPU with the most such timings.
    layout_device: Name  #: The GPU with the most timings of both layouts.
    on_gpu: bool  #: The machine at hand, with kept memory and lower precision, is a GPU
    decode: Value  #: Intensity of decoding with Llama-1B at the smallest counted batch size, by compulsory bytes.
    decode_batch: Value  #: The largest counted batch size of decoding with Llama-1B.
    decode_batched: Value  #: Intensity of decoding with Llama-1B at the largest counted batch size.
    decode_small: Value  #: Intensity of decoding with GPT-2 at the same batch size.


def of(paper: Paper) -> Remedies:
    pairs = next(iter(published.channels_last(paper.published)), None)
    decoding = matching(paper.workloads, model=DECODE, precision="bf16").set_index("batch").compulsory_intensity
    small = matching(paper.workloads, model=SMALL_DECODE, precision="bf16").set_index("batch").compulsory_intensity
    least, most = (decoding.index.min(), decoding.index.max()) if len(decoding) else (None, None)
    return sourced(
        Remedies(
            threshold=exact(SYSTEM_SHARE, "%"),
            layout=replace(published.gain(pairs), source=published.SOURCE),
            on_gpu=paper.at_hand is not None and paper.at_hand.chip_kind == "gpu",
            layout_device=replace(name_in(pairs), source=published.SOURCE),
            decode=exact(decoding.get(least), "FLOP/B"),
            decode_batch=exact(None if most is None else int(most)),
            decode_batched=exact(decoding.get(most), "FLOP/B"),
            decode_small=exact(small.get(most), "FLOP/B"),
        ),
        source_of("workload/models.csv", "workload", "workload"),
    )
