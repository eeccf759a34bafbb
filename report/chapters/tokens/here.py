"""Steps of decode as this program timed them, on one machine: a small mixture of experts beside a dense model."""

import pandas as pd

from measure.domain.models import DECODE, PREFILL
from measure.serving.kernels import distinct_experts
from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import Machine, Paper
from report.paper.frames import matching
from report.stats.value import Name, Source, Value, estimated, exact, ratio

PRECISION = "bf16"
MIXTURE, DENSE = MODELS = "hf:examples/mixture_1b.json_decode_512", "llama_1b_decode_512"
EXPERTS, ACTIVE = 8, 2  # of a layer of the mixture, and of a token
REQUESTS = 1, 8, 64
COMMAND = f"--models {MIXTURE} {DENSE} --precisions {PRECISION} --batch-sizes {' '.join(map(str, REQUESTS))}"


class MeasuredDecode(Facts):
    """A step of decode of both models on the first machine that timed them with one, some and many requests."""

    machine: Name  #: The machine.
    precision: Name  #: The precision of weights and cache.
    sparse_size: Value  #: Parameters of the mixture, in billions.
    dense_size: Value  #: Parameters of the dense model, in billions.
    experts: Value  #: Experts of a layer of the mixture.
    active: Value  #: Experts of a token.
    some: Value  #: The requests of the first ratio, over one.
    more: Value  #: The requests of the second ratio, over those of the first.
    met: Value  #: Experts that some token of the first ratio meets, on average by random routing.
    sparse_first: Value  #: Time of a step of the mixture with some requests over that with one.
    sparse_second: Value  #: Its time with many requests over that with some.
    dense_first: Value  #: Time of a step of the dense model with some requests over that with one.


def steps(machine: Machine) -> pd.DataFrame:
    """Return the cells of both models with results, by model and batch."""
    rows = matching(machine.cells, precision=PRECISION, status="ok")
    return rows[rows.model.isin(MODELS) & rows.batch.isin(REQUESTS)].set_index(["model", "batch"]).sort_index()


def language_models(machine: Machine) -> pd.DataFrame:
    """Return prefill and decode of language models on a machine, by model, precision and batch."""
    rows = matching(machine.cells, status="ok")
    rows = rows[rows.model.str.fullmatch(rf".*_({PREFILL}|{DECODE})_\d+")]
    return rows.sort_values(["model", "precision", "batch"])


def of(paper: Paper) -> MeasuredDecode:
    machine = next((each for each in paper.machines if len(steps(each)) == len(MODELS) * len(REQUESTS)), None)
    source = Source(f"machines/{machine.folder if machine else '*'}/samples.csv", "decode", measure_command(COMMAND))
    if machine is None:
        return sourced(missing(MeasuredDecode), source)
    found, (_, some, many) = steps(machine), REQUESTS
    sparse, dense = ([estimated(found.loc[(model, batch)], "latency_s", "s") for batch in REQUESTS] for model in MODELS)
    sparse_size, dense_size = (exact(found.parameter_count[model].iloc[0] / 1e9, "billion") for model in MODELS)
    measured = MeasuredDecode(
        Name(machine.name), Name(PRECISION), sparse_size, dense_size, exact(EXPERTS), exact(ACTIVE),
        exact(some), exact(many // some), exact(distinct_experts(some, EXPERTS, ACTIVE)),
        ratio(sparse[1], sparse[0]), ratio(sparse[2], sparse[1]), ratio(dense[1], dense[0]),
    )  # fmt: skip
    return sourced(measured, source)
