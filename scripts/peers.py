"""Counting programs by name, this one among them, each called as its documentation says.

The peers are the versions that ``pip install -e '.[benchmark]'`` brings. ``CASE_COUNTERS`` has two more, for the small
networks of ``docs/counting.md``.
"""

import contextlib
import importlib.metadata
import importlib.util
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import nn

Count = tuple[float, int | None]  # multiply-adds, and parameters if the program counts them


def roofwright(network: "nn.Module", images: "torch.Tensor") -> Count:
    """Count all that the paper needs: forward, backward, bytes, memory and layers."""
    from measure.counting.count import count_network

    columns, *_ = count_network(network, (images,))
    return columns["forward_flop"] / 2, columns["parameter_count"]


def torch_counter(network: "nn.Module", images: "torch.Tensor") -> Count:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        network(images)
    return counter.get_total_flops() / 2, None


def fvcore(network: "nn.Module", images: "torch.Tensor") -> Count:
    from fvcore.nn import FlopCountAnalysis, parameter_count

    return FlopCountAnalysis(network, images).total(), parameter_count(network)[""]


def ptflops(network: "nn.Module", images: "torch.Tensor", backend: str) -> Count:
    from ptflops import get_model_complexity_info

    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        macs, parameters = get_model_complexity_info(
            network, (1,), False, False, input_constructor=lambda _: images, backend=backend
        )
    if macs is None:
        raise RuntimeError(output.getvalue().strip().splitlines()[-1])
    return macs, parameters


def thop(network: "nn.Module", images: "torch.Tensor") -> Count:
    from thop import profile

    macs, parameters = profile(network, inputs=(images,), verbose=False)
    return macs, int(parameters)


def torchinfo(network: "nn.Module", images: "torch.Tensor") -> Count:
    from torchinfo import summary

    found = summary(network, input_data=images, device=images.device, verbose=0)
    return found.total_mult_adds, found.total_params


def calflops(network: "nn.Module", images: "torch.Tensor") -> Count:
    from calflops import calculate_flops

    flop, _, parameters = calculate_flops(network, args=[images], print_results=False, output_as_string=False)
    return flop / 2, parameters


def deepspeed(network: "nn.Module", images: "torch.Tensor") -> Count:
    from deepspeed.profiling.flops_profiler import get_model_profile

    flop, _, parameters = get_model_profile(network, args=[images], print_profile=False, as_string=False)
    return flop / 2, parameters


@dataclass(frozen=True)
class Counter:
    """A counting program: its package (None: this one), the device of its network, and the call.

    ``is_once``: only the first count of a process is right, because the program leaves torch's functions wrapped.
    """

    package: str | None
    device: str
    count: "Callable[[nn.Module, torch.Tensor], Count]"
    is_once: bool = False

    @property
    def installed(self) -> bool:
        return self.package is None or importlib.util.find_spec(self.package) is not None

    @property
    def version(self) -> str | None:
        return importlib.metadata.version(self.package) if self.package and self.installed else None


COUNTERS = {
    "roofwright": Counter(None, "meta", roofwright),
    "torch": Counter("torch", "meta", torch_counter),
    "fvcore": Counter("fvcore", "cpu", fvcore),  # its tracer fails on the meta device
    "ptflops-aten": Counter("ptflops", "cpu", partial(ptflops, backend="aten")),
    "ptflops-pytorch": Counter("ptflops", "cpu", partial(ptflops, backend="pytorch")),
    "thop": Counter("thop", "cpu", thop),
    "torchinfo": Counter("torchinfo", "cpu", torchinfo),
}

CASE_COUNTERS = {
    **COUNTERS,
    "torch": Counter("torch", "cpu", torch_counter),  # where a user has the network
    "calflops": Counter("calflops", "cpu", calflops, is_once=True),
    "deepspeed": Counter("deepspeed", "cpu", deepspeed),
}
