"""The tables that the paper alone reads: FLOP per cycle of cores, results printed by studies, other programs' counts.

``hand_tables`` checks the rows that people write against each other and against the bibliography.
"""

import re
from decimal import Decimal
from typing import Annotated

from measure.cache import schema
from measure.cache.records import Environment
from measure.cache.schema import NUMBER, Column, Form, one_of, table
from measure.domain.words import VECTOR_EXTENSIONS
from measure.published.records import ChipPrecision, Note, Source

OURS = "roofwright"  # this program, beside the others that count

# The quantities and ratios of ``PrintedTraining``
LATENCY, FLOP = "latency", "flop"
BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD = "backward/forward", "forward/backward"

RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")


def model_numbers(text: str) -> set[int]:
    """Return the numbers in ``1;4-7``. Another text, or a range that runs backwards, has none."""
    numbers: set[int] = set()
    for part in text.split(";"):
        match = RANGE.fullmatch(part)
        if match is None or int(match[1]) > int(match[2] or match[1]):
            return set()
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return numbers


MODEL_NUMBERS = Form(model_numbers, "model numbers such as 1;4-7")


@table("flop_per_cycle.csv", key=("vendor", "family", "models", "vector_extension", "precision"), by_hand=True)
class FlopPerCycle:
    """The most FLOP of one core of a microarchitecture in a cycle, by fused multiply-adds if it has them."""

    vendor: Annotated[str, "the processor's vendor; on Arm the implementer"]
    family: Annotated[int, Column("the processor's family; on Arm the architecture", NUMBER, least=1, most=99999)]
    models: Annotated[str, Column("numbers and ranges joined by `;`; on Arm the part", form=MODEL_NUMBERS)]
    microarchitecture: Annotated[str, "the vendor's name of the core"]
    vector_extension: Annotated[str, Column("the extension that this rate needs", form=one_of(VECTOR_EXTENSIONS))]
    precision: ChipPrecision
    flop_per_cycle: Annotated[int, Column("FLOP of a core in a cycle", least=1, most=99999)]
    source: Source
    note: Note

    def fits(self, environment: Environment) -> bool:
        """Return whether the processor is of this family and has this vector extension."""
        return (
            (self.vendor, self.family) == (environment.cpu_vendor, environment.cpu_family)
            and environment.cpu_model in model_numbers(self.models)
            and self.vector_extension in (environment.vector_extension or "").split()
        )


Study = Annotated[str, "the study's key in `bib/references.bib`"]
ModelInStudy = Annotated[str, "the study's name of the model"]
ChipInStudy = Annotated[str, "the study's name of the chip"]
ChipKey = Annotated[str, "the chip in `data/chips.csv`"]
ModelKey = Annotated[str, "the built-in model"]
ChipKeyOrNone = Annotated[str, Column("the chip in `data/chips.csv`", empty="")]
ModelKeyOrNone = Annotated[str, Column("the built-in model", empty="")]
PrintedPeak = Annotated[Decimal, Column("the peak rate", least=1e9, most=1e18)]
Intensity = Annotated[Decimal, Column("the arithmetic intensity", least=1e-12)]


@table("published/chips.csv", key=(), by_hand=True)
class PrintedChip:
    """A chip's roof as a study prints it, errors included."""

    study: Study
    chip: ChipInStudy
    precision: Annotated[str, Column("the precision that the study names", empty="")]
    peak_flop_per_s: PrintedPeak
    bandwidth_byte_per_s: Annotated[Decimal, Column("the bandwidth", least=1e8, most=1e15)]
    printed: Annotated[str, "its place in the study, and the product printed there"]
    chip_key: ChipKeyOrNone


@table("published/models.csv", key=("study", "model"), by_hand=True)
class PrintedModel:
    """A model's forward pass of one input as a study prints it."""

    study: Study
    model: ModelInStudy
    flop: Annotated[Decimal, Column("FLOP of the forward pass", least=1)]
    footprint_byte: Annotated[Decimal, Column("the study's count of the model's memory", least=1)]
    intensity_flop_per_byte: Intensity
    model_key: ModelKeyOrNone


@table("published/training.csv", key=("study", "model", "quantity"), by_hand=True)
class PrintedTraining:
    """A model's forward and backward passes as a study prints them."""

    study: Study
    model: ModelInStudy
    batch: Annotated[int | None, Column("inputs of one call", NUMBER, least=1)]
    quantity: Annotated[str, Column("the compared quantity", form=one_of((LATENCY, FLOP)))]
    forward: Annotated[Decimal | None, Column("of the forward pass", "s or FLOP", least=1e-12)]
    backward: Annotated[Decimal | None, Column("of the backward pass", "s or FLOP", least=1e-12)]
    ratio_as_printed: Annotated[Decimal, Column("the ratio of the two", NUMBER, least=1e-12)]
    ratio_means: Annotated[str, Column("the ratio", form=one_of((BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD)))]


@table("published/training_steps.csv", key=("study", "model", "gpu"), by_hand=True)
class PrintedStep:
    """A training step on a GPU, counted by hardware counters, as a study prints it."""

    study: Study
    model: ModelInStudy
    gpu: ChipInStudy
    batch: Annotated[int, Column("inputs of one step", NUMBER, least=1)]
    dram_byte_per_s: Annotated[Decimal, Column("rate of traffic with memory", least=1)]
    time_s: Annotated[Decimal, Column("time of a step", least=1e-12)]
    flop_per_s: Annotated[Decimal, Column("rate of computing", least=1)]
    intensity_flop_per_byte: Intensity
    chip_key: ChipKey
    model_key: ModelKey


@table("published/step_estimates.csv", key=("study", "model", "gpu"), by_hand=True)
class PrintedEstimate:
    """The theoretical time of a training step as a study prints it: FLOP over peak."""

    study: Study
    model: ModelInStudy
    gpu: ChipInStudy
    flop: Annotated[Decimal, Column("FLOP of a step", least=1)]
    peak_flop_per_s: PrintedPeak
    time_s_as_printed: Annotated[Decimal, Column("the quotient", least=1e-12)]
    chip_key: ChipKey
    model_key: ModelKey


@table("workload/counting_programs.csv", key=("program", "model"))
class ProgramCount:
    """The count of multiply-adds (``_mac``, 2 FLOP each) by a counting program, for one model at batch size 1.

    All rows come from one run of ``benchmarks/counting_programs.py``. A row that is not ``ok`` has only a reason.
    """

    environment_id: schema.EnvironmentId
    program: Annotated[str, "the program; `roofwright`: this one"]
    version: Annotated[str | None, "the program's version; empty for this one"]
    model: schema.Model
    family: schema.Family
    input_shape: schema.InputShape
    status: schema.Status
    reason: schema.Reason
    published_parameter_count: Annotated[int, "torchvision's published count of parameters"]
    published_mac: Annotated[int, Column("torchvision's published count, rounded to `PUBLISHED_MAC_STEP`", least=1)]
    parameter_count: Annotated[int | None, "the parameters counted; empty if it counts none"] = None
    forward_mac: Annotated[int | None, Column("the multiply-adds counted in a forward pass", least=1)] = None
    build_s: Annotated[float | None, "the time of building the network and its input"] = None
    count_s: Annotated[float | None, "the time of counting alone"] = None
    peak_byte: Annotated[int | None, "the process's peak memory, libraries included"] = None


@table("workload/counting_cases.csv", key=("case", "program"))
class CaseCount:
    """What a counting program prints for a small network of `docs/counting.md`, where programs disagree.

    A program that prints multiply-adds has twice their number here. All rows come from one run of
    ``benchmarks/counting_programs.py``. A row that is not ``ok`` has only a reason.
    """

    case: Annotated[str, "the network, by its heading"]
    program: Annotated[str, "the program; `roofwright`: this one"]
    version: Annotated[str | None, "the program's version; empty for this one"]
    status: schema.Status
    reason: schema.Reason
    arithmetic: Annotated[str, "how the right count follows by hand"]
    right_flop: Annotated[int, "FLOP of convolutions, matrix products and attention by hand"]
    forward_flop: Annotated[float | None, "the FLOP that the program prints"] = None


@table("published/counting_suites.csv", key=("suite",), by_hand=True)
class CountedSuite:
    """A set of networks with known counts that nobody here wrote, and how many of them we counted wrongly."""

    suite: Annotated[str, "whose cases these are"]
    cases: Annotated[int, Column("the number of cases", NUMBER, least=1)]
    wrong: Annotated[int, Column("cases with a wrong count of products", NUMBER, least=0)]
    source: Source
    note: Note
