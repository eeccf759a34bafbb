"""The work of one call by kind of layer, the roofs of devices, and the terms of a latency that follow from both."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.project import read_both
from measure.domain.chips import datasheet_roof, fold_name, rows_by_name
from measure.domain.records import Environment, RoofMeasurement
from measure.domain.roofs import Roof, Roofline, machine_roof
from measure.domain.words import FULL_PRECISION, LAYER_KINDS, TF32
from measure.predicting import records
from measure.published.records import Chip

Numbers = NDArray[np.float64]

PLACE = {kind: place for place, kind in enumerate(LAYER_KINDS)}
CONVOLUTION, DEPTHWISE_PLACE = PLACE["convolution"], PLACE["depthwise convolution"]
EXPERTS = PLACE["experts"]
MATRICES = [PLACE[kind] for kind in ("linear", "attention", "experts", "recurrent")]
PRODUCTS = [CONVOLUTION, DEPTHWISE_PLACE, *MATRICES, PLACE["embedding"]]  # they read parameters
FUSED = [PLACE[kind] for kind in ("normalisation", "activation", "other")]  # compilers fuse these into their neighbours
MICROSECOND, NANOSECOND = 1e-6, 1e-9
COMPILED_LAUNCHES = 0.7  # kernels that a compiled network launches, over the operators of eager mode
ONE_TOKEN = "1"  # the input shape of a language model that decodes: a token of each request
DEPTHWISE_SHARE = 0.01  # of the FLOP: a network with more counts as one of depthwise convolutions
# A GPU that serves language models, by a program that launches with little delay: as it decodes, and reads prompts
SERVING = DECODES, READS = "tokens", "prompts"
TILE = 64  # tokens of a product that share numbers which such a program has unpacked
OWN_HOSTS = ("cpu", "soc", *SERVING)  # these kinds of chips have launches as a term of their own
CHIP_KIND = {"cpu": "cpu", "cuda": "gpu", "mps": "soc"}  # the kind of chip behind each of torch's devices


@dataclass(frozen=True)
class LayerRoof(Roofline):
    """A roofline with a second peak (FLOP/s), of convolutions, and a third one, of units that multiply no matrices.

    The third is infinite unless a program serves language models: other work on these units is bound by its bytes.
    """

    convolution_flop_per_s: float
    vector_flop_per_s: float = np.inf

    @cached_property
    def peaks(self) -> Numbers:
        """The peak (FLOP/s) of each of ``LAYER_KINDS``."""
        peaks = np.full(len(LAYER_KINDS), float(self.peak_flop_per_s))
        peaks[[CONVOLUTION, DEPTHWISE_PLACE]] = self.convolution_flop_per_s
        return peaks


@dataclass(frozen=True)
class ExpertBytes:
    """Bytes of the experts' parameters, and how many of them a call reads.

    Routing decides. A call reads ``least`` if all tokens go to the same experts, ``expected`` if each token draws its
    experts at random, and ``most`` if tokens share as few as possible.
    """

    parameter: float
    least: float
    expected: float
    most: float

    @classmethod
    def of(cls, parameter_byte: float, share: float, tokens: int) -> "ExpertBytes":
        """Return the bytes if each token goes to a ``share`` of the experts, such as 2 of 8."""
        expected = 1.0 - (1.0 - share) ** tokens
        return cls(parameter_byte, *(parameter_byte * part for part in (share, expected, min(1.0, share * tokens))))


@dataclass(frozen=True, eq=False)
class CallWork:
    """The work of a call on a batch; a training step has forward and backward pass together.

    ``flop`` and ``byte`` are ``(kinds,)`` in the order of ``LAYER_KINDS``. ``calls`` counts operators.
    ``footprint_byte`` is parameters, inputs and activations, each once, with the fewest experts that routing can name;
    ``byte`` has as many as random routing names. ``fresh_byte`` is the outputs that a C library maps anew.
    ``peak_byte`` is the memory of the call, None if unknown. Other devices timed the call as ``network``, at the same
    ``input_shape``.
    """

    batch: int
    flop: Numbers
    byte: Numbers
    calls: int
    input_byte: float
    parameter_byte: float
    footprint_byte: float
    fresh_byte: float = 0.0
    network: str = ""
    input_shape: str = ""
    family: str = ""
    peak_byte: int | None = None
    output_byte: int = 0
    experts: ExpertBytes | None = None

    def least_s(self, roof: LayerRoof) -> float:
        """Return the least time (s) under this roof (Williams et al. 2009)."""
        return max(float(self.arithmetic_s(roof).sum()), self.footprint_byte / float(roof.bandwidth_byte_per_s))

    def arithmetic_s(self, roof: LayerRoof) -> Numbers:
        """Return the time (s) of each kind of layer at the peak, ``(kinds,)``."""
        return self.flop / roof.peaks

    def memory_s(self, roof: LayerRoof) -> Numbers:
        """Return the time (s) of each kind's traffic at the bandwidth, ``(kinds,)``."""
        return self.byte / float(roof.bandwidth_byte_per_s)

    def terms(
        self, roof: LayerRoof, chip_kind: str, host_us: float = 0.0, compiled: bool = False, copied: bool = False
    ) -> tuple[Numbers, float]:
        """Return the ``TERMS`` of the call's latency (s) ``(terms,)``, and the time (s) of its launches on the host.

        A device that is its own host has launches as a term, in microseconds. ``copied``: the time includes the
        input's copy. Only CPUs get fresh pages.
        """
        flop_s, byte_s = self.arithmetic_s(roof), self.memory_s(roof)
        launch_us = self.calls * MICROSECOND * (COMPILED_LAUNCHES if compiled else 1.0)
        is_host = chip_kind in OWN_HOSTS
        terms = np.array([
            flop_s[CONVOLUTION],
            flop_s[DEPTHWISE_PLACE],
            flop_s[MATRICES].sum(),
            byte_s[PRODUCTS].sum(),
            byte_s[[*FUSED, PLACE["pooling"]]].sum(),
            0.0 if compiled else byte_s[FUSED].sum(),
            launch_us * is_host,
            NANOSECOND * (self.input_byte * copied + self.fresh_byte * (chip_kind == "cpu")),
            self.unpacked_flop / roof.vector_flop_per_s,
        ])  # fmt: skip
        return terms, 0.0 if is_host else host_us * launch_us

    @cached_property
    def unpacked_flop(self) -> float:
        """The FLOP of one token with each stored number, as often as a program unpacks it: for each tile of tokens."""
        tokens = self.batch if self.sort == records.DECODING else TILE
        return float(self.flop[[PLACE["linear"], EXPERTS]].sum()) / min(tokens, TILE)

    @cached_property
    def sort(self) -> str:
        """The sort of network, by its work if it reads images, else by its family."""
        if self.family == records.LANGUAGE:
            return records.DECODING if self.input_shape == ONE_TOKEN else records.LANGUAGE
        if self.family == records.AUDIO:
            return records.AUDIO
        if self.flop[DEPTHWISE_PLACE] > DEPTHWISE_SHARE * self.flop.sum():
            return records.DEPTHWISE
        return records.DENSE if self.flop[MATRICES].sum() > self.flop[CONVOLUTION] else records.CONVOLUTIONAL


@dataclass(frozen=True, eq=False)
class PredictedDevice:
    """A chip or a machine: its roof with a bandwidth, its memory (B), None if unknown, and its die, if known."""

    name: str
    chip_kind: str
    roof: Roof
    memory_byte: float | None = None
    die: str = ""

    @property
    def has_tf32(self) -> bool:
        return TF32 in self.roof.flop_per_s

    def usable(self, options: Iterable[str]) -> tuple[str, ...]:
        """Return those of some options that change a time here: all on a GPU with TF32, else compilers alone."""
        is_gpu = self.chip_kind == "gpu"
        return tuple(
            option for option in options
            if option == records.COMPILED or (is_gpu and (option != records.TF32_CONVOLUTIONS or self.has_tf32))
        )  # fmt: skip

    def layer_roof(self, precision: str, serves: bool = False, tf32: bool = False) -> LayerRoof | None:
        """Return the roof at a precision; None without a rate at it. With ``tf32``, convolutions at fp32 are in TF32.

        A program that ``serves`` language models at fp16 accumulates in fp16. Tensor cores do that at half their int8
        rate, even if they are slower with fp32 accumulation.
        """
        roofline = self.roof.at(precision)
        if roofline is None:
            return None
        peak, rates = roofline.peak_flop_per_s, self.roof.flop_per_s
        if serves and precision == "fp16":
            peak = max(peak, rates.get("int8", 0.0) / 2)
        convolutions = rates.get(TF32, peak) if tf32 and precision == FULL_PRECISION else peak
        vector = rates.get(FULL_PRECISION, peak) if serves else np.inf
        return LayerRoof(peak, roofline.bandwidth_byte_per_s, max(convolutions, peak), vector)


def of_chips(data: Path) -> dict[str, PredictedDevice]:
    """Return the chips of ``chips.csv``, each under all its folded names."""
    by_name, devices = rows_by_name(read_both(Chip, data)), {}
    for chip in {rows[0].chip for rows in by_name.values()}:
        rows = by_name[fold_name(chip)]
        memory_byte = max((row.memory_byte for row in rows if row.memory_byte), default=None)
        devices[chip] = PredictedDevice(chip, rows[0].chip_kind, datasheet_roof(rows), memory_byte, rows[0].die)
    return {name: devices[rows[0].chip] for name, rows in by_name.items()}


def of_machines(data: Path) -> Iterator[tuple[MachineFolder, Environment, PredictedDevice]]:
    """Yield each machine with its newest environment and its device; skip machines without roofs."""
    for name in machine_names(data):
        folder = MachineFolder(data, name)
        environment = folder.newest_environment()
        rows = [row for row in folder.rows(RoofMeasurement) if row.environment_id == environment.environment_id]
        roof, kind = machine_roof(rows), CHIP_KIND[environment.device]
        if roof.byte_per_s is not None and roof.flop_per_s:
            yield folder, environment, PredictedDevice(name, kind, roof, environment.memory_byte)
