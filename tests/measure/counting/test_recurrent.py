import pytest
from helpers.counting import case, meta, named, nn, recorder, torch

from measure.counting.formulas import Work

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}

# A sequence of 7 steps, 2 at a time, of width 3; a state of 5: 14 steps and 70 units. A gate has matrices of 3 by 5
# and 5 by 5, 40 multiply-adds a step.
STEPS, UNITS, GATE = 14, 70, 15 + 25
ROWS = meta(7, 2, 3)

# Operations a unit, by kind: the gates' two products added, activations (sigmoid 4, tanh 1), and the state's.
FORWARD = {
    "rnn_relu": 1 + 1,
    "rnn_tanh": 1 + 1,
    "lstm": 4 + 3 * 4 + 1 + 3 + 2,  # c = f c + i g; h = o tanh(c)
    "gru": 3 + 1 + 2 * 4 + 1 + 3,  # r times the new gate's product; (h - n) z + n
}
# Backward: a sigmoid's 3 operations, tanh's 3, ReLU's 1; each product's two factors; sums of what comes two ways.
BACKWARD = {
    "rnn_relu": 1 + 1,  # the state's gradient comes from the output and the next step
    "rnn_tanh": 3 + 1,
    "lstm": 2 + 3 + 4 + 3 * 3 + 3 + 2,
    "gru": 2 + 1 + 3 + 2 + 2 * 3 + 2,  # d z, d h, and d n = g - g z
}


def weights(mode, width, biased, hidden=5, state=5):
    gates = GATES[mode] * hidden
    return [meta(gates, width), meta(gates, state)] + [meta(gates), meta(gates)] * biased


def mkldnn(mode, biased):
    """One layer and direction: the call forward, and backward."""
    four = (weights(mode, 3, True))[:4]
    forward = (ROWS, *four, meta(2, 5), meta(2, 5), False, [], MODES[mode], 5, 1, biased, False, False, True)
    gradients = (meta(7, 2, 5), meta(2, 5), meta(2, 5)) * 2
    settings = (False, MODES[mode], 5, 1, biased, True, False, [], False, meta(0))
    return forward, (ROWS, *four, meta(2, 5), meta(2, 5), *gradients, *settings)


def cudnn(mode, all_weights, stride, hidden, layers, bidirectional, mask, projection=0):
    kind = (MODES[mode], hidden, projection, layers, False, 0.0, True, bidirectional, [], None)
    states = (meta(0), meta(0), meta(0))
    return (
        (ROWS, all_weights, stride, *states, *kind),
        (ROWS, all_weights, stride, *states, *[meta(0)] * 4, *kind, meta(0), mask),
    )


def miopen(call):
    """AMD's operator, without a buffer for weights and without a projection."""
    return (*call[:3], *call[4:8], *call[9:])


def miopen_backward(call):
    return (*call[:12], *call[13:])


def cases():
    for mode, gates in GATES.items():
        for biased in (True, False):
            biases = 2 * gates * UNITS * biased  # an addition for each of two biases of a gate
            # their gradients: sums over 14 steps, 13 additions for each of 5 units
            summed = 2 * gates * 13 * 5 * biased
            product = 2 * STEPS * gates * GATE
            other, other_back = FORWARD[mode] * UNITS + biases, BACKWARD[mode] * UNITS + summed
            forward, backward = mkldnn(mode, biased)
            yield case("mkldnn_rnn_layer", *forward, flop=product, other=other, out=())
            yield case("mkldnn_rnn_layer_backward", *backward, flop=2 * product, other=other_back, out=())
            one = weights(mode, 3, biased)
            forward, backward = cudnn(mode, one, len(one), 5, 1, False, (True, True, True, True))
            yield case("_cudnn_rnn", *forward, flop=product, other=other, out=())
            yield case("_cudnn_rnn_backward", *backward, flop=2 * product, other=other_back, out=())
            forward, backward = miopen(forward), miopen_backward(backward)
            yield case("miopen_rnn", *forward, flop=product, other=other, out=())
            yield case("miopen_rnn_backward", *backward, flop=2 * product, other=other_back, out=())
    # Two layers, two directions, an LSTM: the second layer's inputs are 10 wide. Without the input's gradient the
    # first layer's matrices of 3 by 5 take part in one product less. Both directions' gradients of the second layer's
    # input are added, 10 a step, and those of the first's, 3 a step.
    first, second = 2 * 4 * GATE, 2 * 4 * (50 + 25)
    both = [*weights("lstm", 3, True) * 2, *weights("lstm", 10, True) * 2]
    units, biases, summed = 4 * UNITS, 4 * 8 * UNITS, 4 * 8 * 13 * 5
    for mask, products, added in [
        ((True, True, True, True), 2 * (first + second), 10 + 3),
        ((False, True, True, True), 2 * (first + second) - 2 * 4 * 15, 10),
        ((True, False, False, False), first + second, 10 + 3),
    ]:
        forward, backward = cudnn("lstm", both, 4, 5, 2, True, mask)
        yield case("_cudnn_rnn", *forward, flop=2 * STEPS * (first + second), other=22 * units + biases, out=())
        other = 23 * units + summed + STEPS * added
        yield case("_cudnn_rnn_backward", *backward, flop=2 * STEPS * products, other=other, out=())
    # A projection of the state from 5 to 2: matrices of 3 by 20, 2 by 20 and 5 by 2.
    projected = [*weights("lstm", 3, False, state=2), meta(2, 5)]
    forward, _ = cudnn("lstm", projected, 3, 5, 1, False, None, projection=2)
    yield case("_cudnn_rnn", *forward, flop=2 * STEPS * (60 + 40 + 10), other=22 * UNITS, out=())
    yield from cells()


def cells():
    """One step of 2 rows, its products apart: 10 units."""
    state, gates = meta(2, 5), {"lstm": meta(2, 20), "gru": meta(2, 15)}
    for biased in (True, False):
        for mode, width in (("lstm", 20), ("gru", 15)):
            name, biases = f"_thnn_fused_{mode}_cell", [meta(width), meta(width)] if biased else []
            out = (state, state, meta(2, 20)) if mode == "lstm" else (state, meta(2, 25))
            added = 2 * width * 2 * biased
            yield case(name, gates[mode], gates[mode], state, *biases, other=FORWARD[mode] * 10 + added, out=out)
        yield case(
            "_thnn_fused_lstm_cell_backward_impl",
            *(state, state, state, state, meta(2, 20), biased),
            other=BACKWARD["lstm"] * 10 + 2 * 20 * biased,  # each bias of 20 is summed over 2 rows
            out=(meta(2, 20), state, meta(20)),
        )
        yield case(
            "_thnn_fused_gru_cell_backward",
            *(state, meta(2, 25), biased),
            other=BACKWARD["gru"] * 10 + 2 * 15 * biased,
            out=(meta(2, 15), meta(2, 15), state, meta(15), meta(15)),
        )


CASES = list(cases())


@pytest.mark.parametrize(**named(CASES))
def test_by_hand(case):
    assert case.counted() == case.work


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True)])
@pytest.mark.parametrize(
    ("mode", "kind", "settings"),
    [
        ("lstm", nn.LSTM, {}),
        ("gru", nn.GRU, {}),
        ("rnn_tanh", nn.RNN, {}),
        ("rnn_relu", nn.RNN, {"nonlinearity": "relu"}),
    ],
)
def test_step_by_step_and_fused_are_the_same(mode, kind, settings, layers, bidirectional, biased, device):
    layer = kind(3, 5, layers, bias=biased, bidirectional=bidirectional, device=device, **settings)
    parameters = [parameter.to("meta") for parameter in layer.parameters()]
    runs = layers * (2 if bidirectional else 1)
    calls = cudnn(mode, parameters, len(parameters) // runs, 5, layers, bidirectional, (True, True, True, True))
    names = ("_cudnn_rnn", "_cudnn_rnn_backward")
    fused = [case(name, *call, out=()).counted() for name, call in zip(names, calls, strict=True)]

    is_fused = (device, kind) == ("cpu", nn.LSTM)  # and computes the initial state's gradient unasked

    def zeros(*shape, asks):
        return torch.zeros(shape, device=device, requires_grad=asks)

    states = [zeros(runs, 2, 5, asks=not is_fused) for _ in range(2 if kind is nn.LSTM else 1)]
    inputs = [zeros(7, 2, 3, asks=True), tuple(states) if kind is nn.LSTM else states[0]]
    record = recorder.record_training(layer, inputs)
    assert not record.forward.uncounted | record.backward.uncounted
    forward, backward = (Work(p.total("flop"), p.total("other_flop")) for p in (record.forward, record.backward))
    assert forward == fused[0]
    assert backward.flop == fused[1].flop
    # Each step's gradient of a weight is added to the others': 6 additions of each element, which one product over
    # all 7 steps does in its multiply-adds. A CPU takes all steps' products of the inputs in one, too.
    stepped = {"meta": "weight", "cpu": "weight_hh"}
    added = [p.numel() for name, p in layer.named_parameters() if name.startswith(stepped[device])]
    apart = 0 if is_fused else 6 * sum(added)
    # A GRU's g - g z is a change of sign and an addition, where it is taken apart.
    assert backward.other_flop == fused[1].other_flop + apart + (runs * UNITS if kind is nn.GRU else 0)
