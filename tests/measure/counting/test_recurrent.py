from helpers.counting import by_hand, case, meta

MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}

# A sequence of 7 steps, 2 at a time, of width 3; a state of 5: 14 steps and 70 units. A gate has matrices of 3 by 5
# and 5 by 5, 40 multiply-adds a step.
STEPS, UNITS, GATE = 14, 70, 15 + 25
ROWS, STATE, LEFT_OUT = meta(7, 2, 3), meta(2, 5), meta(0)

# Operations a unit, by kind: the gates' two products added, activations (sigmoid 4, tanh 1), and the state's.
FORWARD = {
    "rnn_relu": 1 + 1,
    "rnn_tanh": 1 + 1,
    "lstm": 4 + 3 * 4 + 1 + 3 + 2,  # c = f c + i g; h = o tanh(c)
    "gru": 3 + 1 + 2 * 4 + 1 + 3,  # r times the new gate's product; (h - n) z + n
}
# Backward: a sigmoid's 3 operations, tanh's 3, ReLU's 1; a product's two factors; sums of two gradients.
BACKWARD = {
    "rnn_relu": 1 + 1,  # the state's gradient comes from the output and the next step
    "rnn_tanh": 3 + 1,
    "lstm": 2 + 3 + 4 + 3 * 3 + 3 + 2,
    "gru": 2 + 1 + 3 + 2 + 2 * 3 + 2,  # d z, d h, and d n = g - g z
}


def weights(mode, width, biased, state=5):
    gates = GATES[mode] * 5
    return [meta(gates, width), meta(gates, state)] + [meta(gates), meta(gates)] * biased


def mkldnn(mode, biased):
    """One layer and direction: the call forward, and backward."""
    states = (*weights(mode, 3, True), STATE, STATE)
    forward = (ROWS, *states, False, [], MODES[mode], 5, 1, biased, False, False, True)
    settings = (False, MODES[mode], 5, 1, biased, True, False, [], False, LEFT_OUT)
    return forward, (ROWS, *states, *(meta(7, 2, 5), STATE, STATE) * 2, *settings)


def cudnn(mode, all_weights, stride, layers=1, bidirectional=False, mask=(True,) * 4, projection=0):
    kind = (MODES[mode], 5, projection, layers, False, 0.0, True, bidirectional, [], None)
    front = (ROWS, all_weights, stride, *[LEFT_OUT] * 3)
    return (*front, *kind), (*front, *[LEFT_OUT] * 4, *kind, LEFT_OUT, mask)


def cases():
    for mode, gates in GATES.items():
        for biased in (True, False):
            product = 2 * STEPS * gates * GATE
            # An addition for each of two biases of a gate; their gradients are sums over 14 steps, 13 additions for
            # each of 5 units.
            work = {"flop": product, "other": FORWARD[mode] * UNITS + 2 * gates * UNITS * biased, "out": ()}
            back = {"flop": 2 * product, "other": BACKWARD[mode] * UNITS + 2 * gates * 13 * 5 * biased, "out": ()}
            forward, backward = mkldnn(mode, biased)
            yield case("mkldnn_rnn_layer", *forward, **work)
            yield case("mkldnn_rnn_layer_backward", *backward, **back)
            one = weights(mode, 3, biased)
            forward, backward = cudnn(mode, one, len(one))
            yield case("_cudnn_rnn", *forward, **work)
            yield case("_cudnn_rnn_backward", *backward, **back)
            # AMD's operator, without a buffer for weights and without a projection
            yield case("miopen_rnn", *forward[:3], *forward[4:8], *forward[9:], **work)
            yield case("miopen_rnn_backward", *backward[:12], *backward[13:], **back)
    # Two layers, two directions, an LSTM: the second layer's inputs are 10 wide. Without the input's gradient the
    # first layer's matrices of 3 by 5 take part in one product less. Both directions' gradients of the second layer's
    # input are added, 10 a step, and of the first's, 3 a step.
    first, second = 2 * 4 * GATE, 2 * 4 * (50 + 25)
    both = [*weights("lstm", 3, True) * 2, *weights("lstm", 10, True) * 2]
    units, biases, summed = 4 * UNITS, 4 * 8 * UNITS, 4 * 8 * 13 * 5
    for mask, products, added in [
        ((True, True, True, True), 2 * (first + second), 10 + 3),
        ((False, True, True, True), 2 * (first + second) - 2 * 4 * 15, 10),
        ((True, False, False, False), first + second, 10 + 3),
    ]:
        forward, backward = cudnn("lstm", both, 4, 2, True, mask)
        yield case("_cudnn_rnn", *forward, flop=2 * STEPS * (first + second), other=22 * units + biases, out=())
        other = 23 * units + summed + STEPS * added
        yield case("_cudnn_rnn_backward", *backward, flop=2 * STEPS * products, other=other, out=())
    # A projection of the state from 5 to 2: matrices of 3 by 20, 2 by 20 and 5 by 2.
    projected = [*weights("lstm", 3, False, state=2), meta(2, 5)]
    forward, _ = cudnn("lstm", projected, 3, projection=2)
    yield case("_cudnn_rnn", *forward, flop=2 * STEPS * (60 + 40 + 10), other=22 * UNITS, out=())
    # One step of 2 rows, its products apart: 10 units. Backward each bias of 20 or 15 is summed over 2 rows.
    lstm, gru = meta(2, 20), meta(2, 15)
    for biased in (True, False):
        for name, gates, saved, each in (
            ("lstm", lstm, lstm, FORWARD["lstm"]),
            ("gru", gru, meta(2, 25), FORWARD["gru"]),
        ):
            width = gates.shape[1]
            out = (STATE, STATE, saved) if name == "lstm" else (STATE, saved)
            call = (gates, gates, STATE, *[meta(width), meta(width)] * biased)
            yield case(f"_thnn_fused_{name}_cell", *call, other=each * 10 + 2 * width * 2 * biased, out=out)
        call, out = (STATE, STATE, STATE, STATE, lstm, biased), (lstm, STATE, meta(20))
        other = BACKWARD["lstm"] * 10 + 2 * 20 * biased
        yield case("_thnn_fused_lstm_cell_backward_impl", *call, other=other, out=out)
        other, out = BACKWARD["gru"] * 10 + 2 * 15 * biased, (gru, gru, STATE, meta(15), meta(15))
        yield case("_thnn_fused_gru_cell_backward", STATE, meta(2, 25), biased, other=other, out=out)


CASES = list(cases())

test_by_hand = by_hand(CASES)
