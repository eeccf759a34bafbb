"""Facts of several GPUs, from published collectives and tokens, the table of chips and the traces of ranks."""

from math import ceil
from pathlib import Path

import pandas as pd

from recomputing.counts import read_chips
from recomputing.statistics import Found, of_cells, of_rounds
from recomputing.tokens import read_kernels

GPUS = 8
DEVICE, ADAPTER, BATCH = "NVIDIA H100 SXM", 50e9, 4_000_000  # of the calculation
FLOP, SENT_BYTE = 6, 4  # of a parameter and a token, and of a parameter: gradients of two bytes, sent twice
MACHINE, PROCESSES = "intel-xeon-processor-2c-decf", 2
REQUESTS, WIDTH = 16, 8192  # of the second problem


def facts(data: Path) -> dict[str, Found]:
    chips = read_chips(data)
    found = links(data, chips) | data_parallel(data, chips) | split(data) | groups(data) | ranks(data)
    found |= {"problems.array": Found(REQUESTS * WIDTH * 2), "problems.width": Found(WIDTH)}
    return {f"several.{key}": value for key, value in found.items()}


def links(data: Path, chips: pd.DataFrame) -> dict[str, Found]:
    rows = read_kernels(data, "collectives")
    rows = rows[(rows.collective == "all_reduce") & (rows.gpus == GPUS)]
    times = rows.groupby(["device", "message_byte"]).latency_s.min().reset_index()
    times["sent"] = times.message_byte * 2 * (GPUS - 1) / GPUS / times.latency_s
    best = times.groupby("device").sent.max()
    half = times[times.sent >= times.device.map(best) / 2].groupby("device").message_byte.min()
    share = best / chips.groupby("chip").link_byte_per_s.max().reindex(best.index)
    ends = {"fastest": best.max(), "slowest": best.min()}
    for name, values in (("share", share), ("half", half), ("short", times.groupby("device").latency_s.min())):
        ends |= {f"{name}_least": values.min(), f"{name}_most": values.max()}
    return {f"links.{name}": Found(value) for name, value in ends.items()}


def data_parallel(data: Path, chips: pd.DataFrame) -> dict[str, Found]:
    own = chips[chips.chip == DEVICE]
    peak, link = own[own.precision == "bf16"].peak_flop_per_s.max(), own.link_byte_per_s.max()
    tokens, far = (SENT_BYTE * peak / each / FLOP for each in (link, ADAPTER))
    models = pd.read_csv(data / "workload" / "models.csv")
    (row,) = models[(models.model == "resnet50") & (models.batch == 1) & (models.precision == "fp32")].itertuples()
    image_s = (row.forward_flop + row.backward_flop) / peak
    numbers = {
        "ridge": peak / link, "both_ways": 2 * link, "tokens": round(tokens), "gpus": BATCH // tokens,
        "node_tokens": round(far), "node_gpus": BATCH // far, "own_tokens": round(far / GPUS),
        "images": ceil(SENT_BYTE * row.parameter_count / link / image_s),
    }  # fmt: skip
    return {f"data.{name}": Found(value) for name, value in numbers.items()}


def split(data: Path) -> dict[str, Found]:
    rows = pd.read_csv(data / "published" / "measurements" / "tokens.csv")
    rows = rows[(rows.model == "LLaMA 3 70B") & (rows.weights == "Q4_K_M") & (rows.phase == "decode")]
    rows = rows[(rows.device == "NVIDIA GeForce RTX 4090") & (rows.tokens == rows.tokens.min())].sort_values("gpus")
    rates = rows.tokens_per_s.to_list()
    numbers = {"few_rate": rates[0], "some_rate": rates[1], "many_rate": rates[-1], "speed": rates[-1] / rates[0]}
    return {f"split.{name}": Found(value) for name, value in numbers.items()}


def groups(data: Path) -> dict[str, Found]:
    """Two processes: each sends what the array has. A step is compared with that without its exchange in each round."""
    machine = data / "machines" / MACHINE
    rows, steps = (pd.read_csv(machine / f"{name}.csv") for name in ("collectives", "data_parallel_steps"))
    rows = rows[(rows.collective == "all_reduce") & (rows.processes == PROCESSES)]
    times = of_cells(rows, ["message_byte"], "latency_s")
    bus = times.message_byte / times.number
    short, best = times.iloc[0], times.loc[bus.idxmax()]
    steps = steps[(steps.model == "resnet18") & (steps.processes == PROCESSES)]
    both = steps.pivot(index="round", columns="communication", values="latency_s")
    return {
        "here.short": Found(short.number, short.low, short.high), "here.bus": Found(bus.max()),
        "here.half_byte": Found(times.message_byte[2 * bus >= bus.max()].min()),
        "here.sent": Found(steps.gradient_byte.iloc[0] / best.message_byte * best.number),
        "here.step": of_rounds([[each] for each in both.overlapped]),
        "here.ratio": of_rounds([[each] for each in both.overlapped / both.none]),
    }  # fmt: skip


def ranks(data: Path) -> dict[str, Found]:
    """Equal ones of a step are matched in their order: the shortest time over the ranks is the transfer."""
    every = [pd.read_csv(path) for path in sorted((data / "traces").glob("*/collectives.csv"))]
    rows = max(every, key=lambda table: table["rank"].nunique())
    shortest = rows.groupby(["step", "operator", "ranks", "group", "number"], dropna=False).time_s.transform("min")
    waits = (rows.time_s - shortest).groupby(rows["rank"]).sum()
    transfers = shortest.groupby(rows["rank"]).sum()
    share = waits.sum() / (waits.sum() + transfers.sum())
    numbers = {"transfer": transfers.mean(), "share": share, "least": waits.min(), "most": waits.max()}
    return {f"ranks.{name}": Found(value) for name, value in numbers.items()}
