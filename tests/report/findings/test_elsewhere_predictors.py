from dataclasses import replace

from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import plain

from report.analysis.correlations import Correlation
from report.analysis.elsewhere_predictors import Order
from report.findings import elsewhere_predictors


def test_predictors():
    text = plain(elsewhere_predictors.predictors(timed_elsewhere()))
    assert "by the time of an input is FLOP on the Bead 2 at fp16 and the Cog 3 at fp16 (" in text


def test_where_something_else_orders_better_flop_stands_beside_it(monkeypatch):
    def order(device, predictor, value):
        return Order(device, "fp16", predictor, Correlation(value, None, 20, 20))

    found = [order("A", "FLOP", 0.8), order("A", "traffic", 0.9), order("B", "FLOP", 0.7), order("B", "traffic", 0.95)]
    monkeypatch.setattr(elsewhere_predictors.elsewhere_predictors, "orders", lambda paper: found)
    assert plain(elsewhere_predictors.predictors(timed_elsewhere())) == (
        "What orders the models best by the time of an input is traffic on the A at fp16 and the B at fp16 (ρ = 0.90 "
        "to 0.95). Where it is not FLOP, these reach ρ = 0.70 to 0.80."
    )


def test_own():
    # The processor orders lean, broad, tokens, deep, Bead 2 swaps the two in the middle
    text = plain(elsewhere_predictors.own(timed_elsewhere()))
    assert "with ours run over 1 device: 0.80 on the Bead 2 for 4 models." in text
    without = replace(timed_elsewhere(), machines=())
    assert "No device was timed with 3 models that were measured here" in elsewhere_predictors.own(without)
