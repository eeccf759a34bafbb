"""The package's columns and words in ours: a function for each of our tables, from a data frame to a data frame.

Times of the package are in milliseconds. A row that has no place in the table gets a reason in the column ``refused``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from measure.published.kernels import TimedProduct

SOURCE = "aic"  # the package's key in the bibliography
DEVICES = {
    "a100_sxm": "NVIDIA A100 SXM 80GB", "h100_sxm": "NVIDIA H100 SXM", "h200_sxm": "NVIDIA H200 SXM",
    "b200_sxm": "NVIDIA B200 SXM", "b300_sxm": "NVIDIA B300 SXM", "gb200": "NVIDIA GB200 SXM",
    "gb300": "NVIDIA GB300 SXM", "l40s": "NVIDIA L40S", "rtx_pro_6000_server": "NVIDIA RTX PRO 6000 Blackwell Server",
    "b60": "Intel Arc Pro B60",
}  # fmt: skip
# Multiplicands and stored weights by the package's names of quantisations
QUANTISED = {
    "bfloat16": ("bf16", "bf16"), "fp8": ("fp8", "fp8"), "fp8_block": ("fp8", "fp8_block"), "nvfp4": ("fp4", "nvfp4"),
    "sq": ("int8", "int8"), "int8_wo": ("bf16", "int8"), "int4_wo": ("bf16", "int4"),
}  # fmt: skip


@dataclass(frozen=True)
class Extract:
    """How a table of ours comes from tables of the package."""

    files: tuple[str, ...]  # without ``_perf.parquet``
    convert: Callable[[pd.DataFrame, str], pd.DataFrame]  # from a file's rows and its name
    group: Sequence[str]  # of each only the newest version counts
    stratum: Sequence[str]  # each has a lattice of its own
    steps: Mapping[str, float]  # the lattice, see ``on_lattice``
    one_of: int
    always: Callable[[pd.DataFrame], pd.Series]  # marks the rows that are kept in any case


def common(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that all tables share: device, engine, software, kernel, latency and power.

    ``folder_device``, ``folder_engine`` and ``folder_version`` are where the package keeps the file.
    """
    return pd.DataFrame({
        "source": SOURCE,
        "device": rows.folder_device.map(DEVICES),
        "engine": rows.folder_engine,
        "software": rows.get("version", rows.folder_version),
        "kernel": rows.kernel_source,
        "latency_s": rows.latency / 1e3,
        "power_w": rows.get("power"),
        "power_limit_w": rows.get("power_limit"),
        "refused": "",
    })  # fmt: skip


def products(rows: pd.DataFrame, _file: str) -> pd.DataFrame:
    found = common(rows).assign(m=rows.m, n=rows.n, k=rows.k)
    words = rows.gemm_dtype.map(QUANTISED)
    found["precision"], found["weights"] = words.str[0], words.str[1]
    # Intel's GPU has no units for fp8: its products with fp8 weights stop at the peak of 16 bits
    found.loc[(found.device == DEVICES["b60"]) & (found.weights == "fp8"), "precision"] = "bf16"
    # SGLang's int8_wo also quantises the input: it exceeds the peak of 16 bits
    found.loc[(found.engine == "sglang") & (found.weights == "int8"), "precision"] = "int8"
    return found


def fastest(rows: pd.DataFrame, work: pd.Series, by: Sequence[str]) -> pd.Series:
    """Mark the row with the highest rate of each group: a sustained peak comes from it."""
    rate = work / rows.latency_s
    return pd.Series(rows.index.isin(rate.groupby([rows[name] for name in by]).idxmax()), rows.index)


CURVES = ((4096, 4096), (16384, 4096))  # outputs and inputs of products that are kept for every power of two of rows


def curves_and_fastest(rows: pd.DataFrame) -> pd.Series:
    on_curve = pd.Series([*zip(rows.n, rows.k, strict=True)], rows.index).isin(CURVES) & (rows.m & (rows.m - 1) == 0)
    return on_curve | fastest(rows, 2.0 * rows.m * rows.n * rows.k, [*FORMAT, "kernel"])


FORMAT = ["device", "engine", "precision", "weights"]
EXTRACTS: dict[type[Any], Extract] = {
    TimedProduct: Extract(
        ("gemm",), products, FORMAT, [*FORMAT, "kernel"], {"m": 1, "n": 0.5, "k": 0.5}, 19, curves_and_fastest
    )
}
