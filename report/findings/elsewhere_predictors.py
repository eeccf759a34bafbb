"""What orders the latencies that others measured, and whether a GPU orders models as our processor does."""

from collections import defaultdict

from measure.domain.values import significant
from report.analysis import elsewhere_predictors
from report.analysis.available import DataMissingError, finding
from report.analysis.correlations import FEWEST, Correlation
from report.analysis.elsewhere import ADD
from report.analysis.elsewhere_predictors import OWN
from report.load.paper import Paper
from report.text.prose import listing, number

TOLD = 4
"""So many devices are told of, those of which most models are known."""


@finding
def predictors(paper: Paper) -> str:
    """Name what orders the models best on each of the devices with most of them, beside FLOP."""
    devices: dict[str, dict[str, Correlation]] = defaultdict(dict)
    for order in elsewhere_predictors.orders(paper):
        if order.predictor != OWN:
            devices[f"{order.device} at {order.computed}"][order.predictor] = order.coefficient
    best: dict[str, list[str]] = defaultdict(list)
    for device, known in list(devices.items())[:TOLD]:
        best[max(known, key=lambda name: known[name].value)].append(device)
    parts = []
    for name, where in best.items():
        on = listing([f"the {device}" for device in where])
        parts.append(f"{name} on {on} (ρ = {_ends([devices[device][name] for device in where])})")
    text = f"What orders the models best by the time of an input is {'; '.join(parts)}."
    beaten = [devices[device]["FLOP"] for name, where in best.items() for device in where if name != "FLOP"]
    return f"{text} Where it is not FLOP, these reach ρ = {_ends(beaten)}." if beaten else text


def _ends(coefficients: list[Correlation]) -> str:
    """Say the least and the most of some coefficients."""
    ends = dict.fromkeys(significant(end(one.value for one in coefficients), 2) for end in (min, max))
    return " to ".join(ends)


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
