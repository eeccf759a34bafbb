"""The chapter on causes, from the rules of the world (tests/data/world/README.md)."""

from dataclasses import replace

import pytest
from helpers.world import rows_of, world, wrong

from report import display
from report.chapters.cause import figures, traced


def test_facts_by_hand():
    expected = {
        "compiled.device": "Bead 2", "compiled.networks": 31, "compiled.speed": 1.6,
        "compiled.slower": 2 / 31,  # elm22 and elm23
        # Least shares of other bytes: oak0 to oak7. The others: 0.5, 0.8, ten times 1.5, seven times 1.6, four times 2
        "fused.least": 2, "fused.rest": 1.5,
        "together.both": 2.4,  # 12 of 3.6 and 12 of 1.2
        "together.compiled_next": 1.2,  # 3.6 over 3 for oaks, 1.2 over 1 for elms
        # Compiled on Bead 2 over eager on Cog 3: 2/3 for oaks, 1.5 for ten elms, 0.5 and 0.8, 1.6/2 for the others
        "together.over_next": 0.8,
        # Datasheets: 989.4 and 1307.4 TFLOP/s at bf16, 3.35 and 5.3 TB/s
        "traces.first": "H100 SXM", "traces.second": "Instinct MI300X", "traces.peak": 1307.4 / 989.4,
        "traces.bandwidth": 5.3 / 3.35,
        # Kernels: 4 + 2 + 3 s over 2 + 4 + 6 s. Linear: 1 s of arithmetic in 2 s and in 4 s. Pointwise: 6.7 TB are 2 s
        # of 4 s, 5.3 TB 1 s of 2 s. Softmax: 3.35 TB are 1 s of 6 s, a quarter of 5.3 TB 0.25 s of 3 s.
        "traces.video.kernels": 9 / 12, "traces.video.linear": 2, "traces.video.linear_first": 1 / 2,
        "traces.video.linear_second": 1 / 4, "traces.video.pointwise": 1 / 2, "traces.video.pointwise_first": 1 / 2,
        "traces.video.pointwise_second": 1 / 2, "traces.video.softmax": 1 / 2,
        "traces.video.softmax_roof": 1 / 6,
        # Kernels 4 s over 2 s, steps 8 s over 10 s, with 4 s and 2 s busy
        "traces.images.kernels": 2, "traces.images.step": 0.8, "traces.images.idle_first": 0.8,
    }  # fmt: skip
    assert wrong("cause", world(), expected) == {}


def test_a_trace_of_images_tells_its_batch_and_release():
    def recorded(trace):
        row = replace(trace.operators[0], layer_kind="convolution", shape="4x3x224x224 768x3x16x16")
        return trace._replace(
            devices=[replace(trace.devices[0], torch="2.7.0+git1")], operators=[row, *trace.operators]
        )

    found = traced.of(replace(world(), traces=tuple(map(recorded, world().traces)))).images
    assert (found.batch.number, found.torch_first.text, found.torch_second.text) == (4, "2.7.0", "2.7.0")


def test_figures_show_networks_of_any_name():
    both = [trace for trace in world().traces if trace.devices[0].network == traced.VIDEO]
    names = [*(f"net {number}" for number in range(9)), "<b>", "bf16", "MobileNet-v2", "linear"]
    traces = tuple(
        trace._replace(devices=[replace(trace.devices[0], network=name), *trace.devices[1:]])
        for name in names
        for trace in both
    )
    rows = rows_of(figures.kinds.__wrapped__(replace(world(), traces=traces)), "network", "kind", "ratio")
    assert {network for network, *_ in rows} == set(names)
    with pytest.raises(display.Missing):  # the network that it is about is not there
        figures.traced_roofs.__wrapped__(replace(world(), traces=traces))


def test_a_figure_shows_the_facts():
    kinds = rows_of(figures.kinds.__wrapped__(world()), "network", "kind", "ratio")
    ratios = {kind: ratio for network, kind, ratio in kinds if network == traced.VIDEO}
    assert ratios == {"linear": 2, "pointwise": 0.5, "softmax": 0.5}
