"""The tables behind predicted tokens: ``python -m measure fit`` writes them from timed kernels and servers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from measure.cache.table import read
from measure.domain.schema import NUMBER, Column, one_of, table
from measure.errors import UserError, as_called, quote
from measure.predicting import kernels, serving
from measure.predicting.records import POOL

WHOLE, ASIDE = "all", "put aside"


def with_link(sort: str) -> str:
    """Return the label of the errors of all GPUs with one sort of link."""
    return f"{WHOLE}, {sort}"


@table("prediction/kernels.csv", key=("kind", "level", "label", "term"))
class KernelCoefficient:
    """The coefficient of a term in a kind of kernel, or a factor on it: of a kernel, or of it on a class of chips.

    A collective's class is the vendor and the sort of link, and the link has a factor too.
    """

    kind: Annotated[str, Column("the kind of kernel", form=one_of(kernels.KINDS))]
    level: Annotated[str, Column("what the value belongs to", form=one_of(kernels.LEVELS))]
    label: Annotated[str, Column("the kernel; with a class of chips or a link before it", empty="")]
    term: Annotated[str, "a term of `docs/prediction.md`"]
    value: Annotated[float, Column("the coefficient of a kind, or the factor on it", NUMBER)]


def read_kernels(path: Path) -> list[KernelCoefficient]:
    """Read the coefficients of kernels. Raises UserError for an invalid cell or other terms than ours."""
    return _read(path, KernelCoefficient, "kind", {kind: kernels.term_names(kind) for kind in kernels.TERMS})


def _read(path: Path, record: type[Any], column: str, known: Mapping[str, Sequence[str]]) -> list[Any]:
    """Read rows with terms. A value of ``column`` has the ``known`` terms in their order, in each level and label."""
    found = read(path, record)
    terms: dict[tuple[str, str, str], list[str]] = {(name, POOL, ""): [] for name in known if found}
    for row in found:
        terms.setdefault((getattr(row, column), row.level, row.label), []).append(row.term)
    for (name, level, label), names in terms.items():
        if names != [*known[name]]:
            where = f"{name}, {level}" + (f" {quote(label)}" if label else "")
            differing = sorted(set(names) ^ {*known[name]})
            how = f"differ in {', '.join(map(quote, differing))}" if differing else "stand in another order"
            remedy = f"fit again with {as_called('measure fit')}"
            raise UserError(f"{path}: the terms of {where} {how} from those of this program; {remedy}")
    return found


@table("prediction/kernel_errors.csv", key=("kind", "device"))
class KernelError:
    """The errors of predictions of kernels on a GPU that the fit left out, or set aside before the first fit.

    An error is the absolute value of prediction over time, less 1. Of all GPUs it is the median, each counting once.
    """

    kind: Annotated[str, Column("the kind of kernel", form=one_of(kernels.KINDS))]
    device: Annotated[
        str, f"the GPU; `{WHOLE}`: all that the fit may see; `{with_link('PCIe')}`: those with such a link"
    ]
    rows: Annotated[int, Column("the number of predicted times", NUMBER)]
    median_error: Annotated[float, Column("the median error", NUMBER)]
    p90_error: Annotated[float, Column("the 90th percentile of the errors", NUMBER)]
    coverage: Annotated[float | None, Column("the share of times within an interval made of other GPUs", NUMBER)]
    median_ratio: Annotated[float, Column("the median of time over prediction", NUMBER)]
    within: Annotated[float | None, Column("nine in ten times lie within this factor of the prediction", NUMBER)]


@table("prediction/served.csv", key=("phase", "level", "label", "term"))
class ServedCoefficient:
    """The coefficient of a part of a served step, or a factor on it: of an engine, or of a class of chips."""

    phase: Annotated[str, Column("reading prompts, or a token of each request", form=one_of(serving.PHASES))]
    level: Annotated[str, Column("what the value belongs to", form=one_of(serving.LEVELS))]
    label: Annotated[str, Column("the engine, or the class of chips", empty="")]
    term: Annotated[str, Column("a part of a step", form=one_of(serving.TERMS))]
    value: Annotated[float, Column("the coefficient of all servers, or the factor on it", NUMBER)]


def read_served(path: Path) -> list[ServedCoefficient]:
    """Read the coefficients of servers. Raises UserError as ``read_kernels`` does."""
    return _read(path, ServedCoefficient, "phase", dict.fromkeys(serving.PHASES, serving.TERMS))


@table("prediction/served_errors.csv", key=("phase", "left_out", "label", "batches"))
class ServedError:
    """The errors of predictions of servers that the fit left out: of a GPU, of a family of models, or of an engine.

    An error is the absolute value of prediction over time, less 1.
    """

    phase: Annotated[str, Column("time to the first token, or per further token", form=one_of(serving.PHASES))]
    left_out: Annotated[str, Column("what the fit left out", form=one_of((*serving.CHECKS, ASIDE)))]
    label: Annotated[str, f"the GPU, the family or the engine; `{WHOLE}`: all of them"]
    batches: Annotated[str, Column("requests at once in each copy of attention", form=one_of(serving.BATCHES))]
    servers: Annotated[int, Column("the number of predicted servers", NUMBER)]
    median_error: Annotated[float, Column("the median error", NUMBER)]
    p90_error: Annotated[float, Column("the 90th percentile of the errors", NUMBER)]
    coverage: Annotated[float | None, Column("the share of times within an interval made of others", NUMBER)]
    median_ratio: Annotated[float, Column("the median of time over prediction", NUMBER)]
    within: Annotated[float | None, Column("nine in ten times lie within this factor of the prediction", NUMBER)]
