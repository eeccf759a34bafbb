"""The table of language models."""

from measure.domain.values import significant
from report.analysis import available, language
from report.analysis.available import or_missing
from report.load.paper import Paper
from report.tables.pipe import NONE, known, pipe, with_interval
from report.text.frame_rows import each
from report.text.prose import escape, intensity, percent, si


@or_missing
def phases(paper: Paper) -> str:
    """List the cells of language models on each machine shown, by network and phase."""
    rows = []
    for row in each(available.rows_of_each(paper, language.cells)):
        cache = language.cache_byte(row.model, row.batch, round(row.parameter_byte / row.parameter_count))
        rows.append(
            [
                row.device, escape(row.network), row.phase, str(row.length), str(row.batch), row.precision,
                *with_interval(row.latency_s, row.latency_low_s, row.latency_high_s, "s"),
                significant(row.tokens_per_s), NONE if cache is None else si(cache, "B"),
                intensity(row.footprint_intensity), known(row.attained, percent),
            ]
        )  # fmt: skip
    header = (
        "Device | Network | Phase | Tokens > | Batch > | Precision | Latency > | 95 % interval > | Tokens/s > | Cache >"
    )
    return pipe(f"{header} | Intensity > | Share of attainable >", rows, of="Device")
