"""What orders the latencies that others measured, and whether a GPU orders models as our processor does."""

from collections import defaultdict

from report.analysis import elsewhere_predictors
from report.analysis.available import DataMissingError, finding
from report.analysis.correlations import FEWEST, Coefficient
from report.analysis.elsewhere import ADD
from report.analysis.elsewhere_predictors import OWN
from report.load.paper import Paper
from report.text.quantities import listing, number

TOLD = 4
"""So many devices are told of, those of which most models are known."""


@finding
def predictors(paper: Paper) -> str:
    """Name what orders the models best on each of the devices with most of them, beside FLOP."""
    devices: dict[str, dict[str, Coefficient]] = defaultdict(dict)
    for order in elsewhere_predictors.orders(paper):
        if order.predictor != OWN:
            devices[f"{order.device} at {order.computed}"][order.predictor] = order.coefficient
    parts = []
    for device, known in list(devices.items())[:TOLD]:
        best = max(known, key=lambda name: known[name].value)
        beside = "" if best == "FLOP" else f", FLOP {known['FLOP']}"
        parts.append(f"{best} on the {device} ({known[best]} for {number(known[best].models, 'model')}{beside})")
    return f"What orders the models best by the time of an input is {listing(parts)}."


@finding
def own(paper: Paper) -> str:
    """Say whether devices that others timed order the models as our processor does."""
    found = [order for order in elsewhere_predictors.orders(paper) if order.predictor == OWN]
    if not found:
        raise DataMissingError(f"No device was timed with {FEWEST} models that were measured here, too; {ADD}.")
    low, high = (pick(found, key=lambda order: order.coefficient.value) for pick in (min, max))
    where = {
        f"{order.coefficient} on the {order.device} for {number(order.coefficient.models, 'model')}"
        for order in (low, high)
    }
    devices = number(len(found), "device")
    return f"Rank correlations of latencies elsewhere with ours run over {devices}: {listing(sorted(where))}."
