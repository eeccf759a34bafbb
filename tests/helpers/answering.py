"""Cells of one model, as answers about it hold them."""

from helpers.comparing import CELL
from measure.domain.latency import TimedCell


def timed(batch=1, latency_s=2.0, variant="eager"):
    columns = CELL._asdict() | {"batch": batch, "variant": variant}
    return TimedCell(
        **columns, status="ok", reason=None, latency_s=latency_s, latency_low_s=0.9 * latency_s,
        latency_high_s=1.1 * latency_s, inputs_per_s=batch / latency_s, tokens_per_s=None, rounds=3, flags=(),
        input_shape="3x2x2",
    )  # fmt: skip
