"""The package's measurements of whole servers in our columns: every row is kept."""

import re
from typing import Any

import pandas as pd

from extracting.tables import DEVICES, QUANTISED, SOURCE
from measure.published.servers import AGGREGATED, DISAGGREGATED

EXPORTS = "inferencex"  # the bibliography's key of the dated exports
PARTS = {  # ours by the package's names, of an aggregated server or after the kind of a worker
    "batch_size": "batch", "tp_size": "tensor_parallel", "pp_size": "pipeline_parallel",
    "attention_dp_size": "data_parallel", "moe_tp_size": "expert_tensor_parallel", "moe_ep_size": "expert_parallel",
}  # fmt: skip
WORKERS = ("prefill", "decode")


def read_source(text: str) -> dict[str, str | None]:
    """Return the export, day, concurrency, container and state of work in ``silicon_data_source``.

    Its parts are joined by ``;``. A dated export is ``db-dump/DATE`` or ``source_file=DATE.csv``; other files are named
    from the folder of their GPU on, without their owner's folders. The container may stand without a name.
    """
    named = dict(part.split("=", 1) for part in text.split("; ") if "=" in part)
    plain = [part for part in text.split("; ") if "=" not in part]
    dated = re.search(r"(?:db-dump/|source_file=)(\d{4}-\d\d-\d\d)", text)
    file = named.get("source_file", "").rpartition("/data/")[2]
    containers = [part for part in plain if not part.startswith("db-dump/")]
    return {
        "source": f"{SOURCE};{EXPORTS}" if dated else SOURCE,
        "export": dated[1] if dated else file,
        "measured_on": named.get("measured", "")[:10] or None,
        "concurrency": named.get("silicon_concurrency"),
        "image": named.get("image") or next(iter(containers), None),
        "unfinished": {"True": "yes", "False": "no"}.get(named.get("wip", "")),
    }


def positive(numbers: pd.Series) -> pd.Series:
    """Return whole numbers; an unknown one, and 0 copies of attention, are empty."""
    return numbers.where(numbers > 0).astype("Int64")


def gpus(found: pd.DataFrame, prefix: str = "") -> pd.Series:
    """Return the GPUs of a worker: those that share attention's heads, times its copies and the pipeline's stages."""
    parts = (found[f"{prefix}{name}"] for name in ("tensor_parallel", "pipeline_parallel"))
    product = found[f"{prefix}data_parallel"].fillna(1)
    for part in parts:
        product = product * part
    return product


def servers(rows: pd.DataFrame) -> pd.DataFrame:
    sources = pd.DataFrame([read_source(text) for text in rows.silicon_data_source], rows.index)
    found = pd.DataFrame({
        "row": rows.id, "device": rows.system.map(DEVICES), "engine": rows.backend, "software": rows.backend_version,
        "model": rows.model_path, "precision": rows.precision, "weights": rows.gemm_quant_mode.map(QUANTISED).str[1],
        "expert_weights": rows.moe_quant_mode.map(QUANTISED).str[1],
        "mode": rows["mode"].map({"agg": AGGREGATED, "disagg": DISAGGREGATED}), "input_tokens": rows.isl,
        "output_tokens": rows.osl, "ttft_s": rows.silicon_ttft_ms / 1e3, "tpot_s": rows.silicon_tpot_ms / 1e3,
    })  # fmt: skip
    found = found.join(sources.assign(concurrency=positive(pd.to_numeric(sources.concurrency))))
    columns: dict[str, Any] = {ours: positive(rows[theirs]) for theirs, ours in PARTS.items()}
    for kind in WORKERS:
        columns |= {f"{kind}_{ours}": positive(rows[f"{kind}_{theirs}"]) for theirs, ours in PARTS.items()}
        columns[f"{kind}_workers"] = positive(rows[f"{kind}_num_workers"])
    found = found.assign(**columns)
    of_workers = sum(found[f"{kind}_workers"] * gpus(found, f"{kind}_") for kind in WORKERS)
    return found.assign(gpus=gpus(found).where(found["mode"] == AGGREGATED, of_workers))
