"""Mixed precision, as torch's autocast has it."""

from measure.cache.variants.base import Variant
from measure.cache.words import FULL_PRECISION, stored_as


class Autocast(Variant):
    name, order = "autocast", 1
    words = "chooses what runs at the lower precision"
    is_autocast = True

    def begin(self, device_kind: str, precision: str) -> None:
        if stored_as(precision) == FULL_PRECISION:
            raise NotImplementedError(f"autocast casts from {FULL_PRECISION} to fp16 or bf16, not to {precision}")
