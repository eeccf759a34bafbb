"""Whether a user's own model is still what was counted under its name: its code may have changed since."""

from collections.abc import Iterable

from measure.cache.models import OWN, Model
from measure.cache.workload_records import Workload
from measure.counting import count
from measure.errors import UserError
from measure.models.isolated import Isolated, RaisedError

TELLING = {
    "input_shape": "input shape",
    "input_byte": "bytes of inputs",
    "parameter_count": "parameters",
    "forward_flop": "FLOP",
}
"""The columns of a workload that tell one network from another, whatever the version of torch."""


def check(models: Iterable[Model], counted: Iterable[Workload], own: Isolated) -> None:
    """Raise UserError for an own model that is not what was counted: its measurements would be of two networks.

    It is counted again for that, in a process apart, at the smallest batch size that it was counted at; one that was
    not passes. A change that leaves parameters, inputs and FLOP as they were is not seen.
    """
    rows = [row for row in counted if row.status == "ok" and row.autocast is None]
    for model in models:
        known = [row for row in rows if row.model == model.name]
        if model.source == OWN and known:
            _check(model, min(known, key=lambda row: row.batch), own)


def _check(model: Model, then: Workload, own: Isolated) -> None:
    try:
        now = own.call(model.name, _counted, model, then.batch, then.precision)
    except RaisedError as problem:
        changed = f"it raises {problem}"
    else:
        differing = [name for name in TELLING if getattr(then, name) != getattr(now, name)]
        if not differing:
            return
        name = differing[0]
        changed = f"{TELLING[name]} {getattr(then, name)} when it was counted, {getattr(now, name)} now"
    raise UserError(
        f"--models: the code of {model.name} has changed ({changed}); give the new one a name of its own, or measure "
        "all of it again with --force"
    )


def _counted(model: Model, batch: int, precision: str) -> Workload:
    return count.count(model, batch, precision).workload
