"""Collectives that Vidur's authors timed (``data/profiling/network`` of its repository) in our columns.

A time is that of NCCL's kernel on rank 0 by torch's profiler: the median of three medians over eleven eager calls, in
milliseconds. It holds the wait for the other ranks, which launch later or earlier. ``size`` is in bytes: the collector
writes twice the number of its fp16 elements.
"""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from extracting.choice import on_lattice
from measure.errors import UserError

SOURCE = "vidur"  # the repository's key in the bibliography
FOLDER = Path("data", "profiling", "network")
KINDS = {"all_reduce": "all_reduce", "send_recv": "send"}
DEVICES = {
    "a100_dgx": "NVIDIA A100 SXM 80GB", "h100_dgx": "NVIDIA H100 SXM",
    "a100_pairwise_nvlink": "NVIDIA A100 PCIe 80GB", "h100_pairwise_nvlink": "NVIDIA H100 NVL",
}  # fmt: skip
PAIRED = ("NVIDIA A100 PCIe 80GB", "NVIDIA H100 NVL")  # a bridge joins two of four, PCIe all
WAITS_BELOW = 2**20  # B of an all-reduce
STEP = {"message_byte": 0.25}  # in powers of two

MACHINES = "among several machines"
BRIDGED = "over a bridge that joins two cards, which the table's link is not"
KNOWN = "of a GPU whose all-reduces the package has, without the wait for the other ranks"
WAITING = "of an all-reduce below 1 MiB, which mostly waits for the launches of the other ranks"
SPARED = "between the chosen sizes"


def files_in(repository: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield device, collective and path of each table. Raises UserError if there is none."""
    found = False
    for folder, device in DEVICES.items():
        for kind, collective in KINDS.items():
            path = repository / FOLDER / folder / f"{kind}.csv"
            if path.exists():
                found = True
                yield device, collective, path
    if not found:
        raise UserError(f"{repository}: holds no {FOLDER}; name the folder of a clone of microsoft/vidur")


def collectives(repository: Path) -> pd.DataFrame:
    """Return all rows, with why a row has no place in ``refused``. Raises UserError without any table."""
    parts = []
    for device, collective, path in files_in(repository):
        rows = pd.read_csv(path)
        found = pd.DataFrame({
            "source": SOURCE, "device": device, "engine": "nccl", "software": "unknown", "kernel": "NCCL",
            "collective": collective, "precision": "fp16", "gpus": rows.num_workers, "message_byte": rows["size"],
            "latency_s": rows[f"time_stats.{path.stem}.median"] / 1e3, "refused": "",
        })  # fmt: skip
        is_pair = (found.device.isin(PAIRED)) & (found.gpus == 2)
        is_reduce = found.collective == "all_reduce"
        for reason, those in (
            (WAITING, is_reduce & (found.message_byte < WAITS_BELOW)),
            (KNOWN, is_reduce & ~found.device.isin(PAIRED)),
            (BRIDGED, is_pair),
            (MACHINES, rows.num_workers != rows.devices_per_node),
        ):
            found.loc[those, "refused"] = reason
        parts.append(found)
    rows = pd.concat(parts, ignore_index=True)
    kept = rows[rows.refused == ""]
    spared = kept.index[~on_lattice(kept, ["device", "collective", "gpus"], STEP, 1)]
    rows.loc[spared, "refused"] = SPARED
    return rows
