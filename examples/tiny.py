"""The core in one sitting: count a network, time it, measure two roofs, draw the roofline.

    python examples/tiny.py --models resnet18 mobilenet_v2 --out roofline.svg

It imports nothing of the project. The instrument does the same with more formulas, kernels, devices and checks; a test
holds this file's numbers against the instrument's.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
import torchvision
import vl_convert
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

FLOAT_BYTE = 4

# A block of calls lasts at least this long, so that the clock's own cost does not matter.
BLOCK_S = 0.02
# Warm-up is over when the medians of the newest blocks and of as many before them agree this well.
TARGET = 0.025
TREND = 3
WARM_UP_S = 5.0


# 1. Count. One addition or multiplication is one FLOP, so a multiply-add is two.


class Work(NamedTuple):
    """The work of one forward pass: FLOP of products, parameters, and the footprint (B)."""

    flop: int
    parameters: int
    footprint_byte: int

    @property
    def intensity(self) -> float:
        """FLOP per byte of the footprint."""
        return self.flop / self.footprint_byte


def convolution_flop(weight: torch.Tensor, out: torch.Tensor) -> int:
    """Each output is a sum over one filter: input channels of a group x kernel height x kernel width."""
    return 2 * out.numel() * weight[0].numel()


def product_flop(rows: int, inner: int, columns: int) -> int:
    """Each of rows x columns outputs takes one multiply-add for each inner element."""
    return 2 * rows * inner * columns


class FlopCounter(TorchDispatchMode):
    """Sees every operator below autograd and adds up the FLOP of convolutions and matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.flop = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = operator(*args, **(kwargs or {}))
        name = operator.overloadpacket
        if name is torch.ops.aten.convolution:
            self.flop += convolution_flop(args[1], out)
        elif name is torch.ops.aten.addmm:  # a linear layer: bias + input @ weight
            self.flop += product_flop(*args[1].shape, args[2].shape[1])
        elif name is torch.ops.aten.mm:
            self.flop += product_flop(*args[0].shape, args[1].shape[1])
        elif name is torch.ops.aten.bmm:
            self.flop += args[0].shape[0] * product_flop(*args[0].shape[1:], args[1].shape[2])
        return out


def count(network: nn.Module, shape: Sequence[int]) -> Work:
    """Count one call on an input of ``shape``. The meta device has shapes but no values, so it computes nothing."""
    network = network.to("meta").eval()
    inputs = torch.empty(shape, device="meta")
    # In-place layers return their input. Holding each output keeps the identity of its storage unique.
    outputs: dict[int, torch.Tensor] = {}

    def keep(_module: nn.Module, _inputs: Any, out: torch.Tensor) -> None:
        outputs.setdefault(out.untyped_storage()._cdata, out)

    leaves = [module for module in network.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(keep) for module in leaves]
    with torch.no_grad(), FlopCounter() as counter:
        network(inputs)
    for hook in hooks:
        hook.remove()
    parameters = sum(parameter.numel() for parameter in network.parameters())
    activation_byte = sum(out.untyped_storage().nbytes() for out in outputs.values())
    # The footprint is the least traffic without fusion: parameters, input and each layer's output, each once.
    return Work(counter.flop, parameters, FLOAT_BYTE * (parameters + inputs.numel()) + activation_byte)


# 2. Time. The first calls allocate memory and fill caches, so they do not count.


def time_block(call: Callable[[], object], calls: int) -> float:
    """Return the seconds of one call, averaged over a block of calls."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def is_flat(blocks: Sequence[float]) -> bool:
    """Whether the newest blocks are about as fast as those before them."""
    if len(blocks) < 2 * TREND:
        return False
    newer, older = median(blocks[-TREND:]), median(blocks[-2 * TREND : -TREND])
    return abs(newer - older) <= TARGET * older


def sample(call: Callable[[], object], seconds: float) -> list[float]:
    """Warm up until the trend is flat, then return one sample (s) for each block."""
    calls = max(1, math.ceil(BLOCK_S / min(time_block(call, 1), time_block(call, 1))))
    warm_up: list[float] = []
    end = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < end and not is_flat(warm_up):
        warm_up.append(time_block(call, calls))
    samples = [time_block(call, calls)]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        samples.append(time_block(call, calls))
    return samples


def latency(rounds: Sequence[Sequence[float]]) -> float:
    """Return the median of the rounds' medians (s): a machine differs more between rounds than within one."""
    return median(median(samples) for samples in rounds)


def time_all(calls: dict[str, Callable[[], object]], rounds: int, seconds: float) -> dict[str, float]:
    """Time every call once a round, so that a slow minute of the machine does not hit one call alone."""
    found: dict[str, list[list[float]]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name].append(sample(call, seconds))
    return {name: latency(samples) for name, samples in found.items()}


# 3. Roofs. No network can be faster than the machine's arithmetic or its memory.


def matrix_product(rows: int = 1024) -> tuple[Callable[[], object], int]:
    """Return a square product and its FLOP. It uses each number many times, so arithmetic limits it."""
    left, right, out = torch.rand(rows, rows), torch.rand(rows, rows), torch.empty(rows, rows)
    return lambda: torch.mm(left, right, out=out), product_flop(rows, rows, rows)


def triad_byte(elements: int) -> int:
    """Two arrays are read and one is written."""
    return 3 * elements * FLOAT_BYTE


def triad(elements: int = 2**25) -> tuple[Callable[[], object], int]:
    """Return ``a = b + 3 * c`` and its bytes. The arrays exceed the caches, so memory limits it."""
    a, b, c = (torch.rand(elements) for _ in range(3))
    return lambda: torch.add(b, c, alpha=3.0, out=a), triad_byte(elements)


# 4. Draw. Rate against intensity, on logarithmic axes.


class Point(NamedTuple):
    """A network on the roofline."""

    model: str
    intensity: float
    flop_per_s: float


def attainable(intensity: float, peak_flop_per_s: float, byte_per_s: float) -> float:
    """Return the highest rate (FLOP/s) at an intensity (Williams, Waterman and Patterson 2009)."""
    return min(peak_flop_per_s, intensity * byte_per_s)


def draw(points: Sequence[Point], peak_flop_per_s: float, byte_per_s: float) -> dict[str, object]:
    """Return the roof with its ridge point, and the networks below it, as a specification of Vega-Lite."""
    ridge = peak_flop_per_s / byte_per_s
    ends = [min([ridge / 10, *(point.intensity for point in points)]), ridge, 10 * ridge]
    line = [{"intensity": end, "rate": attainable(end, peak_flop_per_s, byte_per_s) / 1e9} for end in ends]
    dots = [{"model": model, "intensity": intensity, "rate": rate / 1e9} for model, intensity, rate in points]
    title = {"intensity": "FLOP per byte of the footprint", "rate": "GFLOP/s"}
    x, y = (
        {"field": field, "type": "quantitative", "title": title[field], "scale": {"type": "log"}}
        for field in ("intensity", "rate")
    )
    name = {"mark": {"type": "text", "align": "right", "dx": -8}, "encoding": {"text": {"field": "model"}}}
    networks = {"mark": {"type": "point", "filled": True, "size": 80, "color": "black"}}
    roof = {"data": {"values": line}, "mark": {"type": "line", "color": "gray"}}
    return {
        "title": "Roofline of this machine, fp32, batch size 1",
        "width": 480,
        "height": 320,
        "encoding": {"x": x, "y": y},
        "layer": [roof, *({"data": {"values": dots}, **layer} for layer in (networks, name))],
    }


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Count networks, time them, measure two roofs, draw the roofline.")
    parser.add_argument("--models", nargs="+", default=["resnet18", "mobilenet_v2"], help="names in torchvision")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of timing (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="a round and call (default: %(default)s)")
    parser.add_argument("--out", default="roofline.svg", help="an SVG file (default: %(default)s)")
    return parser


def main() -> None:
    flags = make_parser().parse_args()
    shape = (1, 3, 224, 224)
    works = {name: count(torchvision.models.get_model(name), shape) for name in flags.models}
    product, flop = matrix_product()
    stream, byte = triad()
    image = torch.rand(shape)
    calls: dict[str, Callable[[], object]] = {"product": product, "triad": stream}
    for name in flags.models:
        network = torchvision.models.get_model(name).eval()
        calls[name] = lambda network=network: network(image)
    with torch.inference_mode():
        times = time_all(calls, flags.rounds, flags.seconds)
    peak, bandwidth = flop / times["product"], byte / times["triad"]
    print(f"roofs: {peak / 1e9:.1f} GFLOP/s, {bandwidth / 1e9:.1f} GB/s")
    points = [Point(name, work.intensity, work.flop / times[name]) for name, work in works.items()]
    for point in points:
        work, roof = works[point.model], attainable(point.intensity, peak, bandwidth)
        counted = f"{work.flop / 1e9:.2f} GFLOP, {work.footprint_byte / 1e6:.1f} MB"
        reached = f"{point.flop_per_s / 1e9:.1f} GFLOP/s, {point.flop_per_s / roof:.0%} of the roof"
        print(f"{point.model}: {counted}, {1e3 * times[point.model]:.1f} ms, {reached}")
    Path(flags.out).write_text(vl_convert.vegalite_to_svg(draw(points, peak, bandwidth)))
    print(f"wrote {flags.out}")


if __name__ == "__main__":
    main()
