"""Facts of latency: of the processor, of the GPU, of both network by network, and of the published GPU."""

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from recomputing.statistics import Found, median_of, rank_correlation, slope

FIRST, MIDDLE, LAST = 1, 64, 256
ALIKE, FAMILY = (7.5e9, 9.5e9), 8
ALEXNET, DENSENET = "alexnet", "densenet121"


def own(cpu: pd.DataFrame, gpu: pd.DataFrame) -> dict[str, Found]:
    """Return the facts of cells in eager mode at fp32, on the processor and on the GPU."""
    one = cpu[cpu.batch == FIRST].sort_values("number")
    ends = {f"latency.here.{name}": Found(*one.iloc[at][["number", "low", "high"]])
            for name, at in (("fastest", 0), ("slowest", -1))}  # fmt: skip
    small, alone = _ranking("latency.here.small", one), gpu[gpu.batch == FIRST]
    exponent = _line(one.forward_flop, one.number, one.model)[0]
    parts = (
        ends, small, _ranking("latency.here.large", cpu[cpu.batch == LAST]), _batching(cpu),
        _ranking("latency.gpu.ranking", gpu[gpu.batch == LAST]), _gained(gpu), _both(cpu, gpu),
    )  # fmt: skip
    weights = one.set_index("model").parameter_count
    return dict(chain.from_iterable(part.items() for part in parts)) | {
        "latency.here.first": Found(FIRST), "latency.here.last": Found(LAST),
        "latency.here.fourfold": Found(*(4**each for each in exponent)),
        "latency.gpu.small": rank_correlation(alone.forward_flop, alone.number, alone.model),
        "latency.reference.parameter_ratio": Found(weights[ALEXNET] / weights[DENSENET]),
    }  # fmt: skip


def _line(x: pd.Series, time: pd.Series, models: pd.Series) -> tuple[Found, Found]:
    """Return the exponent of the trend through the logarithms, and the median factor from it."""
    exponent, logs = slope(np.log(x), np.log(time), models), stats.linregress(np.log(x), np.log(time))
    off = np.log(time) - logs.intercept - logs.slope * np.log(x)
    return exponent, median_of(np.exp(np.abs(off)))


def _ranking(group: str, rows: pd.DataFrame) -> dict[str, Found]:
    columns = {"flop": rows.forward_flop, "parameters": rows.parameter_count, "layers": rows.layers_s}
    found = {key: rank_correlation(column, rows.number, rows.model) for key, column in columns.items()}
    found["networks"] = Found(len(rows))
    exponent, found["typical_factor"] = _line(rows.forward_flop, rows.number, rows.model)
    found["doubling"] = Found(*(2**each for each in exponent))
    return {f"{group}.{key}": each for key, each in found.items()}


def _rates(rows: pd.DataFrame) -> pd.DataFrame:
    rates = rows.pivot(index="model", columns="batch", values="rate")
    return rates.loc[:, 2 * rates.notna().sum() >= len(rates)]


def _batching(rows: pd.DataFrame) -> dict[str, Found]:
    rates = _rates(rows)
    first, last = rates.columns[0], rates.columns[-1]
    peak = rates.div(rates[first], axis=0).median().idxmax()
    rise, fall = (rates[peak] / rates[first]).dropna(), (rates[last] / rates[peak]).dropna()
    numbers = {"first": first, "peak": peak, "last": last, "peak_networks": len(rise), "last_networks": len(fall)}
    return {f"latency.batching.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "latency.batching.peak_over_first": median_of(rise), "latency.batching.last_over_peak": median_of(fall),
    }  # fmt: skip


def _gained(rows: pd.DataFrame) -> dict[str, Found]:
    rates = _rates(rows)
    gain = (rates[LAST] / rates[FIRST]).dropna()
    numbers = {"first": FIRST, "last": LAST, "networks": len(gain), "least": gain.min(), "most": gain.max()}
    return {f"latency.gpu.batching.{key}": Found(float(number)) for key, number in numbers.items()}


def _both(cpu: pd.DataFrame, gpu: pd.DataFrame) -> dict[str, Found]:
    found = {}
    for name, batch in (("small", FIRST), ("middle", MIDDLE)):
        both = cpu[cpu.batch == batch].merge(gpu[gpu.batch == batch], on="model", suffixes=("", "_gpu"))
        numbers = {f"orders.{name}.batch": batch, f"orders.{name}.networks": len(both)}
        if batch == FIRST:
            faster = both.number / both.number_gpu
            numbers |= {"both.batch": batch, "both.least": faster.min(), "both.most": faster.max()}
        found |= {f"latency.{key}": Found(float(number)) for key, number in numbers.items()}
        found[f"latency.orders.{name}.rho"] = rank_correlation(both.number, both.number_gpu, both.model)
    return found


def published(rows: pd.DataFrame) -> dict[str, Found]:
    """Return the facts of the GPU on which most networks were timed, from rows with both rooflines."""
    usual = rows[rows.input_size == rows.input_size.mode()[0]]
    alike = usual[usual.forward_flop.between(*ALIKE)].sort_values("input_s")
    inputs = rows.batch.astype(float)
    of = {"flop": rows.forward_flop, "bytes": rows.layers_byte / inputs, "bound": rows.layers_s / inputs}
    large = [index for _, index in rows.groupby("family").groups.items() if rows.model[index].nunique() >= FAMILY]

    def within(key: str) -> Found:
        return median_of([stats.spearmanr(of[key][index], rows.input_s[index]).statistic for index in large])

    numbers: dict[str, Any] = {
        "equal.networks": len(alike), "equal.spread": alike.input_s.iloc[-1] / alike.input_s.iloc[0],
        "advice.families": len(large), "advice.networks": rows.model.nunique(), "advice.timings": len(rows),
    }  # fmt: skip
    for name, row in (("fast", alike.iloc[0]), ("slow", alike.iloc[-1])):
        moved = row.layers_byte / row.batch
        numbers |= {
            f"equal.{name}.flop": row.forward_flop, f"equal.{name}.traffic": moved,
            f"equal.{name}.arithmetic": row.forward_flop / row.peak, f"equal.{name}.memory": moved / row.bandwidth,
            f"equal.{name}.measured": row.input_s,
        }  # fmt: skip
    found = {key: Found(float(number)) for key, number in numbers.items()} | {
        "equal.flop": rank_correlation(alike.forward_flop, alike.input_s, alike.model),
        "equal.traffic": rank_correlation(alike.layers_byte / alike.batch, alike.input_s, alike.model),
        "advice.family_flop": within("flop"), "advice.family_bytes": within("bytes"),
    }  # fmt: skip
    found |= {f"advice.{key}": rank_correlation(column, rows.input_s, rows.model) for key, column in of.items()}
    return {f"latency.{key}": each for key, each in found.items()}
