"""Joules of networks on a GPU: per image and per token, what they are spent on, and what saves them."""

from dataclasses import dataclass, replace
from functools import cache
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from measure.domain.energy import EnergyRoof
from measure.domain.models import DECODE, STORY, parse_task
from measure.domain.names import model_name
from measure.domain.statistics import CONFIDENCE, FEWEST_MODELS, critical
from measure.domain.words import EAGER, INFERENCE, PEAK_KERNELS, STEP, STREAM_ARRAYS
from report.facts import Facts, missing, sourced
from report.options import gpu_command, measure_command
from report.paper import ALONE, BASE_PRECISION, Machine, Paper
from report.paper.cells import update_byte
from report.paper.chips import datasheet
from report.paper.frames import highest, matching
from report.paper.roofs import sustained
from report.stats.correlations import Numbers, interval, weights
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

WORK = ["flop", "byte", "time_s"]
COLUMNS = [
    "model",
    "batch",
    "precision",
    "phase",
    "variant",
    "input_shape",
    *WORK,
    "energy_j",
    "energy_rounds",
    "energy_scatter",
]
WHOLE_ROUNDS = "2026-11-29"  # rounds recorded earlier have the energy of a window of half a second


class ImageJoules(Facts):
    """Joules per image at one precision in eager mode, alone and in a batch. Intervals of extremes are by the scatter
    of rounds, pooled over the cells of a batch size.
    """

    precision: Name  #: The precision.
    run: Value  #: Networks timed in the batch.
    networks: Value  #: Networks whose energy is known in the batch.
    unread: Value  #: The least fitted energy of an image in the batch whose energy was not read, with its network.
    least: Value  #: The least energy of an image in the batch, with its network.
    most: Value  #: The greatest energy of an image in the batch, with its network.
    drawn: Value  #: The greatest energy of a call in the batch over its time, with its network.
    batched_least: Value  #: The least ratio of an image's energy alone and in the batch, with its network.
    batched_most: Value  #: The greatest ratio of an image's energy alone and in the batch, with its network.
    constant_single: Value  #: Share of the constant power in the fitted energy of an image alone.
    constant_base: Value  #: The same share at fp32.
    constant: Value  #: Share of the constant power in the fitted energy of an image in the batch.
    constant_busy: Value  #: The same share by a fit to cells of several inputs.


class Saved(Facts):
    """Energy of an image before a change over its energy after it. Intervals are by the scatter of rounds."""

    networks: Value  #: Networks whose energy in the batch is known at both precisions.
    lowered_least: Value  #: The least ratio of fp32 and the lower precision in the batch, with its network.
    lowered_most: Value  #: The greatest ratio of fp32 and the lower precision in the batch, with its network.
    single_networks: Value  #: Networks whose energy for an image alone is known at both precisions.
    single_more: Value  #: Networks whose image alone takes more energy at the lower precision than at fp32.
    single_apart: Value  #: Those of them whose interval excludes equal energies.
    compiled: Value  #: The ratio of eager mode and compiled in the largest batch compiled, of the typical network.


class JoulePuzzle(Facts):
    """The two networks of the puzzle, at the lower precision in the batch."""

    light: Name  #: The network with less arithmetic.
    heavy: Name  #: The network with more arithmetic.
    light_j: Value  #: Energy of an image in the light network.
    heavy_j: Value  #: Energy of an image in the heavy network.
    flop: Value  #: The light network's FLOP over the heavy network's.


class EnergyFit(Facts):
    """The energy of cells in eager mode by their FLOP, their bytes between layers and their time."""

    cells: Value  #: Cells of inference and training behind the fit.
    flop: Value  #: Energy of a FLOP.
    byte: Value  #: Energy of a byte between layers, with everything that moves it.
    constant: Value  #: Power for the duration of a call.
    busy: Value  #: The same by a fit to cells of several inputs.
    low: Value  #: Measured over fitted energy: one cell in twenty is lower.
    high: Value  #: Measured over fitted energy: one cell in twenty is higher.
    unseen_low: Value  #: The lower end for networks that the fit left out.
    unseen_high: Value  #: The upper end for networks that the fit left out.
    at_bandwidth: Value  #: Constant power and that of bytes at this price at the measured bandwidth.


class KernelJoules(Facts):
    """The energy of the roof kernels above the idle power."""

    idle: Value  #: Power while nothing runs.
    base: Value  #: Energy of a FLOP at fp32.
    byte: Value  #: Energy of a byte from memory.


class TokenJoules(Facts):
    """Joules per decoded token at the lower precision in eager mode."""

    network: Name  #: The language model with the most batch sizes.
    batch: Value  #: Its largest batch size.
    single: Value  #: Energy of a token alone.
    large: Value  #: Energy of a token at the largest batch size.


class Energy(Facts):
    device: Name  #: The GPU with the most cells whose energy is known.
    limit: Value  #: Its power limit.
    batch: Value  #: The batch: of the sizes above 1, the one with the most cells whose energy is known.
    base: Name  #: The precision that the lower one is compared with.
    images: ImageJoules  # at the lower precision
    saved: Saved
    puzzle: JoulePuzzle
    fit: EnergyFit  # at the lower precision
    fit_base: EnergyFit  # at fp32
    kernels: KernelJoules
    tokens: TokenJoules
    fitted: bool  #: The prices of FLOP, bytes and time were fitted
    flop_is_free: bool  #: At the lower precision, the interval of the price of a FLOP begins at 0
    busy_draws_more: bool  #: At the lower precision, the fit to cells of several inputs has more constant power
    unread_is_least: bool  #: By the fit, a network whose energy was not read takes less than each one read in the batch
    draws_too_much: bool  #: Some energy in the batch over its time exceeds the power limit
    is_short: bool  #: Energies were read over windows of half a second
    byte_exceeds: bool  #: At the price of bytes, a stream at full bandwidth would exceed the power limit
    single_lasts: bool  #: Each image alone that takes more energy at the lower precision also takes longer there


@cache
def spent(machine: Machine) -> pd.DataFrame:
    """Return one row per cell whose energy is known: the work of a call, its time and energy, ``input_j`` per input.

    Bytes are those between layers: every operator reads its inputs and writes its outputs. A training step's energy is
    read over whole calls and as many calls stage by stage, so its time is the mean of both.
    """
    inference, steps = pd.concat([machine.cells, machine.variants]), machine.steps
    staged_s = steps.forward_s + steps.backward_s + steps.update_s
    rows = pd.concat([
        inference.assign(flop=inference.forward_flop, byte=inference.traffic_byte, time_s=inference.energy_s),
        steps.assign(
            phase=STEP, flop=steps.forward_flop + steps.backward_flop, time_s=(steps.energy_s + staged_s) / 2,
            byte=steps.traffic_byte + steps.backward_traffic_byte + update_byte(steps),
        ),
    ])[COLUMNS].dropna(subset=[*WORK, "energy_j"])  # fmt: skip
    return rows.assign(input_j=rows.energy_j / rows.batch).reset_index(drop=True)


def machines_with_energy(paper: Paper) -> list[Machine]:
    """Return the GPUs that report their energy, those with the most cells first."""
    found = [machine for machine in paper.machines if machine.chip_kind == "gpu" and len(spent(machine))]
    return sorted(found, key=lambda machine: -len(spent(machine)))


def images(machine: Machine, precision: str | None = None, batch: Any = None, variant: str = EAGER) -> pd.DataFrame:
    """Return the cells of inference with images, at one precision and batch size or all."""
    rows = matching(spent(machine), phase=INFERENCE, variant=variant, precision=precision, batch=batch)
    return rows[rows.input_shape.str.count("x") == 2]


def usual_batch(machine: Machine) -> Any:
    """Return the batch size above 1 with the most cells, of several the largest; None if there is none."""
    counts = images(machine).batch.value_counts().drop(ALONE, errors="ignore")
    return counts[counts == counts.max()].index.max() if len(counts) else None


@dataclass(frozen=True)
class FittedEnergy:
    """The fit of some cells. ``draws`` (resamples, 3) are the prices of FLOP, byte and second for resampled networks;
    ``ratios`` (cells) are measured over fitted energies, ``unseen`` those by a fit to all other networks.
    """

    roof: EnergyRoof
    rows: pd.DataFrame
    draws: Numbers
    ratios: Numbers
    unseen: Numbers

    def parts(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the shares of FLOP, bytes and time (``WORK``) in the fitted energy of some rows."""
        joules = rows[WORK] * [self.roof.joule_per_flop, self.roof.joule_per_byte, self.roof.constant_w]
        return joules.div(joules.sum(axis=1), axis=0)


def solve(work: Numbers, weight: Numbers) -> Numbers:
    """Return the prices (3) of FLOP, byte and second, none below 0, with the least squares of relative errors.

    ``work`` (cells, 3) is the cells' work over their joules; ``weight`` (cells) counts each cell.
    """
    scale, root = work.max(axis=0), np.sqrt(weight)
    found: Numbers = nnls(work / scale * root[:, None], root)[0] / scale
    return found


@cache
def fitted(machine: Machine, precision: str, fewest: int = ALONE) -> FittedEnergy | None:
    """Fit the energy of the cells in eager mode at a precision with so many inputs or more; None below six networks."""
    rows = matching(spent(machine), precision=precision, variant=EAGER)
    rows = rows[rows.batch >= fewest]
    if rows.model.nunique() < FEWEST_MODELS:
        return None
    work = rows[WORK].to_numpy(float) / rows[["energy_j"]].to_numpy(float)
    once, unseen = np.ones(len(rows)), np.empty(len(rows))
    for model in rows.model.unique():
        is_out = (rows.model == model).to_numpy()
        unseen[is_out] = 1 / (work[is_out] @ solve(work[~is_out], once[~is_out]))
    draws = np.array([solve(work, weight) for weight in weights(tuple(rows.model)).T])
    prices = solve(work, once)
    return FittedEnergy(EnergyRoof(*prices.tolist()), rows, draws, 1 / (work @ prices), unseen)


def efficiencies(machine: Machine) -> pd.DataFrame:
    """Return one row per cell of one image or of the batch: ``flop_per_j`` and the ``intensity`` layer by layer."""
    rows, usual = images(machine), usual_batch(machine)
    rows = rows.assign(
        name=rows.model.map(model_name), intensity=rows.flop / rows.byte, flop_per_j=rows.flop / rows.energy_j,
        inputs=rows.batch.map({usual: f"batch of {usual}", ALONE: "one image"}),
    )  # fmt: skip
    return rows.dropna(subset="inputs")


def arch(machine: Machine, precision: str, intensities: pd.Series) -> pd.DataFrame | None:
    """Return the FLOP that a joule buys at the speed of the roof, by the fit; None without a fit or a roof."""
    fit, roof = fitted(machine, precision), machine.roof(precision)
    if fit is None or roof is None:
        return None
    bought = fit.roof.attainable(intensities, roof.attainable(intensities))
    return pd.DataFrame({"intensity": intensities, "flop_per_j": bought})


def of(paper: Paper) -> Energy:
    if not (machines := machines_with_energy(paper)):
        return missing(Energy)
    machine = machines[0]
    lower, printed = machine.lower_precision, datasheet(paper.chips, machine.environment.name).power_w
    limit_w = machine.environment.power_limit_w or printed.max()
    fit, fit_base = fit_of(machine, lower), fit_of(machine, BASE_PRECISION)
    shown = _images(machine, lower)
    facts = Energy(
        Name(machine.name), exact(limit_w, "W"), exact(usual_batch(machine)), Name(BASE_PRECISION),
        shown, _saved(machine), _puzzle(machine), fit, fit_base, _kernels(machine), _tokens(machine),
        fitted=not (fit.constant.is_missing and fit_base.constant.is_missing),
        flop_is_free=fit.flop.low == 0,
        busy_draws_more=fit.busy.above(fit.constant.high or nan),
        unread_is_least=(shown.unread.number or nan) < (shown.least.number or 0),
        draws_too_much=bool((shown.drawn.number or 0) > limit_w),
        is_short=bool((machine.cells.recorded_at.dropna() < WHOLE_ROUNDS).any()),
        byte_exceeds=bool((fit.at_bandwidth.low or 0) > limit_w),
        single_lasts=_single_lasts(machine),
    )  # fmt: skip
    values = facts.images.networks, facts.fit.cells, facts.fit_base.cells, facts.kernels.idle, facts.tokens.large
    if all(value.is_missing for value in values):  # a name alone is no section
        facts = missing(Energy)
    return sourced(facts, Source(f"machines/{machine.folder}/samples.csv", "energy_j, eager", gpu_command()))


def _images(machine: Machine, precision: str) -> ImageJoules:
    usual = usual_batch(machine)
    single, large = images(machine, precision, ALONE), images(machine, precision, usual)
    if usual is None or large.empty:
        return missing(ImageJoules)
    fit, busy = fitted(machine, precision), fitted(machine, precision, ALONE + 1)
    fit_base, single_base = fitted(machine, BASE_PRECISION), images(machine, BASE_PRECISION, ALONE)
    timed = matching(machine.cells, status="ok", precision=precision, batch=usual)
    timed = timed[timed.input_shape.str.count("x") == 2]
    unread = timed[timed.energy_j.isna()].set_index("model")
    work = unread.forward_flop, unread.traffic_byte, unread.latency_s
    estimates = fit.roof.energy_j(*work) / unread.batch if fit else unread.energy_j
    drawn = (large.energy_j / large.time_s).set_axis(large.model)
    joules = _joules(machine, large)
    return ImageJoules(
        Name(precision),
        run=count_of(len(timed), "networks"),
        networks=count_of(len(large) if len(large) > 1 else None, "networks"),
        unread=extremes(estimates.rename(model_name), "J")[0],
        least=joules.least("J"),
        most=joules.most("J"),
        drawn=extremes(drawn.rename(model_name), "W")[1],
        batched_least=(_joules(machine, single) / joules).least(),
        batched_most=(_joules(machine, single) / joules).most(),
        constant_single=_constant(fit, single),
        constant_base=_constant(fit_base, single_base),
        constant=_constant(fit, large),
        constant_busy=_constant(busy, large),
    )


def _constant(fit: FittedEnergy | None, rows: pd.DataFrame) -> Value:
    return median_of(fit.parts(rows).time_s, "%") if fit else Value(None, "%")


@dataclass(frozen=True)
class Joules:
    """Energies by model, or their ratios; ``half`` is half the 95 % interval of their logarithms, NaN if unknown."""

    energies: pd.Series
    half: pd.Series

    def __truediv__(self, other: "Joules") -> "Joules":
        quotients = (self.energies / other.energies).dropna()
        squares = (self.half**2 + other.half**2).reindex(quotients.index)
        return Joules(quotients, squares**0.5)

    def value(self, model: Any, unit: str = "") -> Value:
        """Return the energy of a model with its interval and the model's name."""
        energy, factor = float(self.energies[model]), float(np.exp(self.half[model]))
        low, high = (None, None) if np.isnan(factor) else (energy / factor, energy * factor)
        return Value(energy, unit, low, high, counted="samples", name=model_name(model))

    def least(self, unit: str = "") -> Value:
        return self.value(self.energies.idxmin(), unit) if len(self.energies) > 1 else Value(None, unit)

    def most(self, unit: str = "") -> Value:
        return self.value(self.energies.idxmax(), unit) if len(self.energies) > 1 else Value(None, unit)


def _joules(machine: Machine, rows: pd.DataFrame) -> Joules:
    """Return the energies of cells of one batch size, with intervals by all cells of that size."""
    rows = rows.set_index("model")
    several = matching(spent(machine), batch=rows.batch.iloc[0] if len(rows) else None).dropna(subset="energy_scatter")
    freedom = several.energy_rounds.sum() - len(several)
    half = rows.energy_rounds * nan
    if freedom >= FEWEST_MODELS:
        scatter = np.sqrt((several.energy_scatter**2 * (several.energy_rounds - 1)).sum() / freedom)
        half = critical(CONFIDENCE, int(freedom)) * scatter / np.sqrt(rows.energy_rounds)
    return Joules(rows.input_j, half)


def _saved(machine: Machine) -> Saved:
    lower, usual = machine.lower_precision, usual_batch(machine)
    if usual is None:
        return missing(Saved)
    single, batched = (
        _joules(machine, images(machine, BASE_PRECISION, batch)) / _joules(machine, images(machine, lower, batch))
        for batch in (ALONE, usual)
    )
    compiled = images(machine, lower, variant="compile")
    compiled = matching(compiled, batch=compiled.batch.max())
    eager = images(machine, lower, compiled.batch.max()).set_index("model").input_j
    fused = median_of(eager / compiled.set_index("model").input_j)
    command = measure_command("--device cuda --sections inference --variants eager compile")
    source = Source(f"machines/{machine.folder}/samples.csv", "energy_j, compile over eager", command)
    known = len(single.energies) or None
    more = None if known is None else (single.energies < 1).sum()
    apart = None if single.half.isna().all() else (single.energies * np.exp(single.half) < 1).sum()
    return Saved(
        count_of(len(batched.energies), "networks"), batched.least(), batched.most(), count_of(known, "networks"),
        count_of(more, "networks"), count_of(apart, "networks"), replace(fused, source=source),
    )  # fmt: skip


def _single_lasts(machine: Machine) -> bool:
    base, lower = (
        images(machine, precision, ALONE).set_index("model") for precision in (BASE_PRECISION, machine.lower_precision)
    )
    more = (lower.input_j > base.input_j.reindex(lower.index)).to_numpy()
    longer = (lower.time_s > base.time_s.reindex(lower.index)).to_numpy()
    return bool(more.any() and longer[more].all())


def _puzzle(machine: Machine) -> JoulePuzzle:
    usual = usual_batch(machine)
    rows = images(machine, machine.lower_precision, usual).set_index("model")
    if usual is None or not set(STORY) <= set(rows.index):
        return missing(JoulePuzzle)
    light, heavy = (rows.loc[model] for model in STORY)
    joules = _joules(machine, rows.reset_index())
    return JoulePuzzle(
        Name(model_name(STORY[0])), Name(model_name(STORY[1])),
        joules.value(STORY[0], "J"), joules.value(STORY[1], "J"), exact(light.flop / heavy.flop, "%"),
    )  # fmt: skip


def fit_of(machine: Machine, precision: str) -> EnergyFit:
    fit, busy, roof = fitted(machine, precision), fitted(machine, precision, ALONE + 1), machine.roof(precision)
    if fit is None:
        return missing(EnergyFit)
    of_draws = fit.draws.T
    bandwidth = roof.bandwidth_byte_per_s if roof else nan

    def value(number: float | None, draws: Numbers, unit: str, fit: FittedEnergy = fit) -> Value:
        networks = fit.rows.model.nunique()
        least, most = interval(draws, networks)
        return Value(number, unit, least, most, networks)

    flop, byte, constant = fit.roof.joule_per_flop, fit.roof.joule_per_byte, fit.roof.constant_w
    low, high, unseen_low, unseen_high = (
        Value(float(end), count=len(fit.rows), counted="cells")
        for ratios in (fit.ratios, fit.unseen)
        for end in np.quantile(ratios, [0.05, 0.95])
    )
    return EnergyFit(
        count_of(len(fit.rows), "cells"), value(flop, of_draws[0], "J/FLOP"), value(byte, of_draws[1], "J/B"),
        value(constant, of_draws[2], "W"),
        value(busy.roof.constant_w, busy.draws.T[2], "W", busy) if busy else Value(None, "W"),
        low, high, unseen_low, unseen_high,
        value(constant + byte * bandwidth, of_draws[2] + of_draws[1] * bandwidth, "W"),
    )  # fmt: skip


def _kernels(machine: Machine) -> KernelJoules:
    """Divide the energy above the idle power by the work, for the fastest kernels whose energy was read."""
    rows = machine.roof_measurements.astype({"energy_j": float}).dropna(subset="energy_j")
    command = measure_command("--device cuda --sections roofs")
    source = Source(f"machines/{machine.folder}/roofs.csv", "energy_j", command)
    idle = matching(rows, roof_kernel="idle")
    if idle.empty:
        return sourced(missing(KernelJoules), source)
    idle_w = float((idle.energy_j / idle.latency_s).median())

    def price(found: pd.DataFrame, work: str, unit: str) -> Value:
        if found.empty:
            return Value(None, unit)
        row = highest(found, f"{work}_per_s")
        return exact((row.energy_j - idle_w * row.latency_s) / row[work], unit)

    peaks, streams = sustained(rows, PEAK_KERNELS), sustained(rows, STREAM_ARRAYS)
    sizes = [(each.first_byte, each.last_byte) for each in machine.levels[-1:]]  # of the memory
    far = streams[streams["size"].between(*sizes[0])] if sizes else streams[:0]
    base = price(matching(peaks, precision=BASE_PRECISION), "flop", "J/FLOP")
    facts = KernelJoules(exact(idle_w, "W"), base, price(far, "byte", "J/B"))
    return sourced(facts, source)


def _tokens(machine: Machine) -> TokenJoules:
    rows = matching(spent(machine), phase=INFERENCE, variant=EAGER, precision=machine.lower_precision)
    tasks = [parse_task(model) for model in rows.model]
    rows = rows[np.array([task is not None and task.phase == DECODE for task in tasks], dtype=bool)]
    if rows.empty:
        return missing(TokenJoules)
    network = rows.model.value_counts().idxmax()
    by_batch = matching(rows, model=network).set_index("batch").input_j
    largest = by_batch.index.max()
    if largest == ALONE:
        return missing(TokenJoules)
    return TokenJoules(
        Name(model_name(network)), exact(largest), exact(by_batch.get(ALONE), "J"), exact(by_batch[largest], "J")
    )
