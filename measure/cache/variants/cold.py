"""Single calls with cold caches."""

from measure.cache.variants.base import Variant


class Cold(Variant):
    name, order = "cold", 5
    words = "empties the caches before each call, which helps nobody but shows what warm ones are worth"
    is_cold = True
    unprofiled = "operators are profiled with warm caches only"
