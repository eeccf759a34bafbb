"""Facts of training steps: of the newest processor, by kind of layer, and of every machine."""

from pathlib import Path

import pandas as pd

from recomputing.counts import PRODUCTS, RESNET, at, usual_rows
from recomputing.machine import EAGER, FULL, LOWER, Machine
from recomputing.statistics import Found, median_of, quotient

NEAR, SEEN = 0.1, 0.01  # ratios that are close; the least share of the forward time of a kind that counts


def facts(data: Path) -> dict[str, Found]:
    """Return the facts of this module by key."""
    machine = Machine(data, "cpu")
    return {**_training(machine), **_kinds(machine), **_devices(data)}


def _training(machine: Machine) -> dict[str, Found]:
    steps = machine.steps
    over, flop_over = steps.step_number / steps.forward_number, 1 + steps.flop_ratio
    near = (steps.number / steps.flop_ratio - 1).abs() <= NEAR
    apart = ~steps.flop_ratio.between(steps.low, steps.high)
    resnet = steps.loc[RESNET]
    measured = Found(resnet.step_number, resnet.step_low, resnet.step_high)
    numbers = {
        "step.networks": len(steps), "step.near": near.sum(), "step.apart": apart.sum(),
        "example.batch": resnet.batch, "example.forward": resnet.forward_flop, "example.backward": resnet.backward_flop,
        "example.flop_s": resnet.flop_s, "example.bound_s": resnet.least_s,
    }  # fmt: skip
    return {f"training.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "training.step.over_forward": median_of(over),
        "training.step.flop_over_forward": median_of(flop_over),
        "training.step.excess": median_of(over / flop_over),
        "training.step.over_operator_bound": median_of(steps.step_number / steps.least_s),
        "training.step.time_ratio": median_of(steps.number),
        "training.step.flop_ratio": median_of(steps.flop_ratio),
        "training.example.measured": measured,
        "training.example.over": quotient(measured, Found(*[resnet.least_s] * 3)),
    }


def _kinds(machine: Machine) -> dict[str, Found]:
    """Return both passes of profiled steps by kind of layer: backward over forward in time, and products' shares."""
    steps = machine.steps
    profiled = at(machine.table("profiles"), phase="step", variant=EAGER, precision=FULL, status="ok")
    layers = usual_rows(machine.data / "workload" / "layers.csv")
    layers = at(layers, precision=FULL, batch=steps.batch.iloc[0])
    layers = layers[
        layers.model.isin(steps.index) & layers.model.isin(profiled[profiled.batch == steps.batch.iloc[0]].model)
    ]
    times = at(machine.table("operators"), phase="step", variant=EAGER, precision=FULL, batch=steps.batch.iloc[0])
    times = times.pivot_table(index=["model", "path"], columns="stage", values="time_s", aggfunc="sum")
    rows = layers.merge(times[["forward", "backward"]].reset_index(), on=["model", "path"], how="left").fillna(0.0)
    rows = rows.assign(
        time=rows.forward + rows.backward,
        flop=rows.forward_flop + rows.forward_other_flop + rows.backward_flop + rows.backward_other_flop,
        byte=2 * rows.parameter_byte + rows.activation_byte + rows.saved_byte,
    )
    columns = ["forward", "backward", "time", "flop", "byte"]
    kinds = rows.groupby(["model", "layer_kind"])[columns].sum().reset_index()
    whole = kinds.groupby("model")[columns].sum()
    seen = kinds[(kinds.forward / kinds.model.map(whole.forward) >= SEEN) & (kinds.backward > 0)]
    products = kinds[kinds.layer_kind.isin(PRODUCTS)].groupby("model")[columns].sum() / whole
    first = {
        cost: kinds.loc[kinds.groupby("model")[cost].idxmax()].layer_kind.value_counts() for cost in ("time", "byte")
    }
    return {
        **{f"training.kinds.{kind}": median_of(of.backward / of.forward) for kind, of in seen.groupby("layer_kind")
           if kind in ("convolution", "normalisation", "pooling")},
        "training.shares.networks": Found(len(whole)), "training.shares.time_first": Found(first["time"].iloc[0]),
        "training.shares.memory_first": Found(first["byte"].iloc[0]),
        "training.shares.products_flop": median_of(products.flop),
        "training.shares.products_time": median_of(products.time),
    }  # fmt: skip


def _devices(data: Path) -> dict[str, Found]:
    """Return the ends of a step over its forward pass, over all machines and precisions, of the networks of all."""
    every, idle = [], []
    times: dict[str, list[pd.DataFrame]] = {FULL: [], LOWER: []}
    for path in sorted((data / "machines").glob("*/machine.csv")):
        last = pd.read_csv(path).iloc[-1]
        machine = Machine(data, last.device, last["name"])
        trained = at(machine.samples, phase="step", variant=EAGER)
        for precision in sorted(set(trained.precision)):
            steps = machine.timed_steps(precision)
            every.append(machine.all_steps(precision))
            if last.device == "cuda":
                times[precision].append(steps.step_number)
                profiles = at(machine.table("profiles"), phase="step", precision=precision, status="ok")
                profiles = profiles.assign(folder=path, busy=profiles.busy_s / profiles.plain_s)
                idle.append(profiles)
    first, last = (pd.concat([pairs[0], pairs[1]], axis=1).dropna() for pairs in times.values())
    profiled = pd.concat(idle)
    idle_pairs = at(profiled, precision=LOWER).merge(at(profiled, precision=FULL), on=["folder", "model", "batch"])
    idlest = idle_pairs.loc[idle_pairs.busy_x.idxmin()]
    sizes = pd.concat([rows.groupby("batch").model.nunique() for rows in every], axis=1)
    batch = (sizes >= 6).sum(axis=1).idxmax()
    alike = [at(rows, batch=batch).set_index("model") for rows in every]
    shared = sorted(set.intersection(*(set(rows.index) for rows in alike)))
    over = [(rows.step_number / rows.forward_number)[shared].median() for rows in alike]
    ratio = [rows.number[shared].median() for rows in alike]
    numbers = {
        "networks": len(shared), "least": min(over), "most": max(over),
        "least_ratio": min(ratio), "most_ratio": max(ratio),
    }  # fmt: skip
    return {f"training.own.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "training.idle.busy": Found(idlest.busy_x),
        "training.idle.base_busy": Found(idlest.busy_y),
        "training.pair.base": median_of(first.iloc[:, 1] / first.iloc[:, 0]),
        "training.pair.lower": median_of(last.iloc[:, 1] / last.iloc[:, 0]),
    }
