"""Facts of counted networks, of other counting programs and of chips, from ``data/workload`` and ``data/chips.csv``."""

from pathlib import Path

import pandas as pd

from recomputing.statistics import Found, median_of

PRODUCTS = ["convolution", "depthwise convolution", "linear", "attention", "experts", "recurrent"]
MEASURED_SHAPE = {"wav2vec2_base": "160000"}
"""The measured input of a network with counts for several: ten seconds of audio."""

SIXTEEN, FLOATING = ["bf16", "fp16"], ["fp64", "fp32", "tf32", "bf16", "fp16"]
MOBILENET, RESNET, GPU = "mobilenet_v2", "resnet18", "NVIDIA GeForce RTX 4090"


def usual_rows(path: Path) -> pd.DataFrame:
    """Return the rows of a table of counts with the shape of the measured input."""
    rows = pd.read_csv(path, dtype={"input_shape": str, "autocast": str})
    rows = rows[rows.autocast.isna()]
    wanted = rows.model.map(MEASURED_SHAPE)
    return rows[wanted.isna() | (rows.input_shape == wanted)]


def workloads(data: Path) -> pd.DataFrame:
    """Return the counts with three kinds of bytes and intensities."""
    rows = usual_rows(data / "workload" / "models.csv")
    rows = rows[rows.status == "ok"]
    fixed = rows.parameter_byte + rows.input_byte - rows.untouched_byte
    rows = rows.assign(compulsory_byte=fixed + rows.output_byte, footprint_byte=fixed + rows.activation_byte)
    kinds = ("compulsory", "footprint", "traffic")
    return rows.assign(**{f"{kind}_intensity": rows.forward_flop / rows[f"{kind}_byte"] for kind in kinds})


def at(rows: pd.DataFrame, **values: object) -> pd.DataFrame:
    for column, value in values.items():
        rows = rows[rows[column] == value]
    return rows


def large_batch(rows: pd.DataFrame) -> int:
    """Return the largest batch size with counts of at least half of the networks."""
    models = rows.groupby("batch").model.nunique()
    return int(models[2 * models >= models.max()].index.max())


def facts(data: Path) -> dict[str, Found]:
    rows, layers, chips = workloads(data), usual_rows(data / "workload" / "layers.csv"), read_chips(data)
    return {**_networks(rows, layers), **_training(rows, layers), **_programs(data), **_chips(chips, rows)}


def _networks(rows: pd.DataFrame, layers: pd.DataFrame) -> dict[str, Found]:
    full = at(rows, precision="fp32")
    one, large = at(full, batch=1).set_index("model"), large_batch(full)
    last = at(full, batch=large).set_index("model")
    per_parameter = one.forward_flop / one.parameter_count
    base = at(layers, batch=1, precision="fp32")
    base = base.assign(flop=base.forward_flop + base.forward_other_flop)
    whole = base.groupby("model")[["flop", "traffic_byte"]].sum()
    products = base[base.layer_kind.isin(PRODUCTS)].groupby("model")[["flop", "traffic_byte"]].sum() / whole
    growth = (last.traffic_intensity / one.traffic_intensity).dropna()
    numbers = {
        "counted.networks": len(one), "counted.flop_span": one.forward_flop.max() / one.forward_flop.min(),
        "counted.memory_span": one.inference_peak_byte.max() / one.inference_peak_byte.min(),
        "counted.least_per_parameter": per_parameter.min(), "counted.most_per_parameter": per_parameter.max(),
        "kinds.most_rest": (1 - products.traffic_byte).max(), "kinds.least_rest": (1 - products.traffic_byte).min(),
        "batching.large": large, "batching.parameters": one.parameter_byte[RESNET] / one.traffic_byte[RESNET],
        "batching.parameters_large": last.parameter_byte[RESNET] / last.traffic_byte[RESNET],
        "batching.whole_growth": last.compulsory_intensity[RESNET] / one.compulsory_intensity[RESNET],
        "batching.layers_growth": growth[RESNET],
    }  # fmt: skip
    numbers |= _pair(rows)
    return {f"networks.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "networks.kinds.products_flop": median_of(products.flop),
        "networks.kinds.products_byte": median_of(products.traffic_byte),
    }


def _pair(rows: pd.DataFrame) -> dict[str, float]:
    """Return both networks of the story, and ResNet-18 at 16 bits from one image to an endless batch."""
    full = at(rows, precision="fp32")
    last = at(full, batch=large_batch(full)).set_index("model")
    resnet = at(rows, precision="bf16", model=RESNET).set_index("batch").sort_index()
    one, most = resnet.loc[1], resnet.iloc[-1]
    added = (most.traffic_byte - one.traffic_byte) / (most.name - 1)
    return {
        "pair.batch": large_batch(full), "pair.flop_ratio": last.forward_flop[RESNET] / last.forward_flop[MOBILENET],
        "pair.byte_ratio": last.traffic_byte[MOBILENET] / last.traffic_byte[RESNET],
        "crossing.flop": one.forward_flop, "crossing.parameters": one.parameter_byte,
        "crossing.input": one.input_byte + one.output_byte, "crossing.limit": one.forward_flop / added,
    }  # fmt: skip


def _training(rows: pd.DataFrame, layers: pd.DataFrame) -> dict[str, Found]:
    full = at(rows, precision="fp32")
    trained = full[(full.batch <= 64) & full.backward_flop.notna()]
    trained = trained[trained.batch == trained.batch.max()].set_index("model")
    batch = int(trained.batch.iloc[0])
    half = at(full, batch=batch // 2).set_index("model").training_peak_byte
    layers = at(layers, precision="fp32", batch=batch)
    layers = layers[layers.model.isin(trained.index)].sort_values("position")
    first = layers[layers.forward_flop > 0].groupby("model").forward_flop.first().reindex(trained.index)
    over = trained.training_peak_byte / trained.inference_peak_byte
    state = trained.parameter_byte + trained.gradient_byte + trained.momentum_byte
    single = at(full, batch=1).set_index("model")
    largest = trained.parameter_byte.idxmax()
    moved = layers.groupby(["model", "layer_kind"])[["traffic_byte", "backward_traffic_byte"]].sum().reset_index()
    moved = moved[moved.traffic_byte > 0]
    moved = moved.assign(ratio=moved.backward_traffic_byte / moved.traffic_byte)
    kinds = moved[moved.layer_kind != "other"].groupby("layer_kind")
    medians = kinds.ratio.median()[kinds.size() >= 6]
    resnet, fixed = trained.loc[RESNET], state[RESNET]
    of_input = (resnet.training_peak_byte - fixed) / batch
    numbers = {
        "counts.networks": len(trained),
        "counts.first_layer": (2 * trained.forward_flop - trained.backward_flop == first).sum(), "memory.batch": batch,
        "counts.least_bytes": medians.min(), "counts.most_bytes": medians.max(),
        "embeddings.bytes": at(moved, layer_kind="embedding").ratio.max(),
        "state.momentum": _held(single.loc[largest], "momentum_byte"),
        "state.adam": _held(single.loc[largest], "adam_byte"),
        "state.adam_large": _held(trained.loc[largest], "adam_byte"),
        "memory.most_state": (state / trained.training_peak_byte).max(), "problems.forward": resnet.forward_flop,
        "problems.first": first[RESNET], "problems.ratio": 2 - first[RESNET] / resnet.forward_flop,
        "problems.fixed": fixed, "problems.input": of_input, "problems.batch": (1e9 - fixed) // of_input,
    }  # fmt: skip
    return {f"training.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "training.memory.peak_over_inference": median_of(over),
        "training.memory.saved_share": median_of(trained.saved_byte / trained.training_peak_byte),
        "training.memory.halved": median_of((half / trained.training_peak_byte).dropna()),
    }


def _held(network: pd.Series, state: str) -> float:
    """Return the share of parameters, gradients and an optimiser's state in the peak with that state."""
    held = network.parameter_byte + network.gradient_byte + network[state]
    return float(held / (network.training_peak_byte - network.momentum_byte + network[state]))


def _programs(data: Path) -> dict[str, Found]:
    rows = pd.read_csv(data / "workload" / "counting_programs.csv")
    off, rounding = (rows.forward_mac - rows.published_mac).abs(), 0.5e6
    rows = rows.assign(equal=off <= rounding, right=(off <= 0.01 * rows.published_mac) | (off <= rounding))
    ours, others = rows[rows.program == "roofwright"], rows[rows.program != "roofwright"]
    right = others.groupby("program").right.sum()
    numbers = {
        "ours.models": len(ours), "ours.equal": ours.equal.sum(), "ours.time": ours.count_s.sum(),
        "ours.parameters": (ours.parameter_count == ours.published_parameter_count).sum(),
        "others.programs": len({name.split("-")[0] for name in right.index}), "others.best_right": right.max(),
        "others.worst_right": right.min(),
    }  # fmt: skip
    return {f"counting.{key}": Found(float(number)) for key, number in numbers.items()}


def read_chips(data: Path) -> pd.DataFrame:
    chips = pd.read_csv(data / "chips.csv")
    return chips.assign(ridge=chips.peak_flop_per_s / chips.bandwidth_byte_per_s)


def fastest(chips: pd.DataFrame) -> pd.DataFrame:
    """For each chip its fastest row, at equal rates bf16 first."""
    ranked = chips.assign(other=chips.precision != "bf16")
    ranked = ranked.sort_values(["peak_flop_per_s", "other"], ascending=[False, True], kind="stable")
    return ranked.drop_duplicates("chip")


def of_dies(chips: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each die's first chip, of equal years that with the highest peak."""
    ranked = chips.assign(of=chips.die.fillna(chips.chip))
    ranked = ranked.sort_values(["year", "peak_flop_per_s"], ascending=[True, False], kind="stable")
    return chips[chips.chip.isin(ranked.drop_duplicates("of").chip)]


def _chips(chips: pd.DataFrame, rows: pd.DataFrame) -> dict[str, Found]:
    outside = chips[~chips.memory_type.fillna("").str.contains("on chip", case=False)]
    numbers = {"table.chips": chips.chip.nunique(), "table.unconfirmed": chips[chips.verified == "no"].chip.nunique()}
    vector = fastest(outside[(outside.precision == "fp32") & (outside.unit == "vector")])
    matrix = fastest(outside[outside.precision.isin(SIXTEEN) & (outside.unit == "tensor")])
    both = of_dies(matrix[(matrix.chip_kind == "gpu") & matrix.chip.isin(vector.chip)])
    same = vector[vector.chip.isin(both.chip)]
    alike = {"cpu": vector, "soc": vector, "asic": matrix}
    groups = {kind: of_dies(found[found.chip_kind == kind]) for kind, found in alike.items()}
    groups |= {"gpu": same, "matrix": both}
    numbers |= {f"typical.{kind}": group.ridge.median() for kind, group in groups.items()}
    numbers |= {
        "costs.flop_gpu": (same.peak_flop_per_s / same.power_w).median(),
        "costs.flop_matrix": (both.peak_flop_per_s / both.power_w).median(),
        "costs.byte_gpu": (both.bandwidth_byte_per_s / both.power_w).median(),
    }
    numbers |= _costs(fastest(outside[outside.precision.isin(FLOATING)]))
    dies = of_dies(fastest(outside[outside.precision.isin(SIXTEEN)])).ridge
    counted = at(rows, precision="bf16")
    counted = counted[counted.batch.isin([1, 64])]
    counted = counted[counted.groupby("model").batch.transform("nunique") == 2]
    numbers |= {"demand.networks": counted.model.nunique(), "demand.dies": len(dies)}
    for name, batch in (("small", 1), ("large", 64)):
        middle = at(counted, batch=batch)[["compulsory_intensity", "traffic_intensity"]].median()
        numbers[f"demand.whole_{name}"] = (dies > middle.compulsory_intensity).sum()
        numbers[f"demand.layers_{name}"] = (dies > middle.traffic_intensity).sum()
    numbers["demand.intensity"] = at(counted, batch=1).compulsory_intensity.median()
    tensor = chips[(chips.unit == "tensor") & chips.precision.isin(SIXTEEN)].drop_duplicates("chip")
    ridges = tensor.set_index("chip").ridge
    names = {
        "v100": "NVIDIA V100 SXM2", "h100": "NVIDIA H100 SXM", "b200": "NVIDIA B200 SXM", "rtx4090": GPU,
        "rtx5090": "NVIDIA GeForce RTX 5090",
    }  # fmt: skip
    numbers |= {f"generations.{key}": ridges[chip] for key, chip in names.items()}
    return {f"chips.{key}": Found(float(number)) for key, number in numbers.items()}


def _costs(fast: pd.DataFrame) -> dict[str, float]:
    """Return how long reading the memory takes and what a dollar buys, from each chip's fastest row."""
    dies = of_dies(fast)
    reading = fast.memory_byte / fast.bandwidth_byte_per_s
    listed = fast[fast.price_usd.notna() & ~fast.note.fillna("").str.contains("price is")]
    price = 1e9 * listed.price_usd / listed.bandwidth_byte_per_s
    return {
        "costs.reading_most": reading.max(), "costs.reading_gpu": reading[dies.index[dies.chip_kind == "gpu"]].median(),
        "costs.listed": len(listed), "costs.least_price": price.min(), "costs.most_price": price.max(),
    }  # fmt: skip
