"""The chapter on remedies: numbers of its own. Its gains come from the chapters that measured them."""

from dataclasses import replace

from measure.domain.advice import SYSTEM_SHARE
from report.facts import Facts, source_of, sourced
from report.paper import Paper, published
from report.paper.frames import matching
from report.stats.value import Value, exact

DECODE = "llama_1b_decode_512"


class Remedies(Facts):
    threshold: Value  #: The operating system's share above which keeping memory is suggested.
    layout: Value  #: Speed with channels last over contiguous tensors, on the GPU with the most such timings.
    decode: Value  #: Intensity of decoding with Llama-1B at the smallest counted batch size, by compulsory bytes.
    decode_batched: Value  #: Intensity of decoding with Llama-1B at the largest counted batch size.


def of(paper: Paper) -> Remedies:
    layout = published.gain(next(iter(published.channels_last(paper.published)), None))
    decoding = matching(paper.workloads, model=DECODE, precision="bf16").sort_values("batch").compulsory_intensity
    ends = (decoding.iloc[0], decoding.iloc[-1]) if len(decoding) else (None, None)
    return sourced(
        Remedies(
            exact(SYSTEM_SHARE, "%"), replace(layout, source=published.SOURCE), *(exact(end, "FLOP/B") for end in ends)
        ),
        source_of("workload/models.csv", "workload", "workload"),
    )
