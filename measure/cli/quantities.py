"""Numbers as people read them on a terminal."""

PREFIXES = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


def si(value: float, unit: str) -> str:
    """Return a quantity with three significant digits and a prefix: ``8.18 GFLOP``, ``178 MB``, ``960 FLOP``."""
    prefix, size = next((pair for pair in PREFIXES if value >= 0.9995 * pair[1]), PREFIXES[-1])
    number = f"{value / size:#.3g}".rstrip(".")
    return f"{number if size > 1 else f'{value:.3g}'} {prefix}{unit}".rstrip()


def percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"
