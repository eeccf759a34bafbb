"""Convolutions by the algorithms that cuDNN has timed, instead of those that its heuristics choose."""

from measure.cache.variants.base import Variant


class CudnnBenchmark(Variant):
    name, order = "cudnn_benchmark", 8
    words = "has cuDNN time its algorithms for each convolution and keep the fastest"
    tried_on = ("gpu",)
    first_call_s = 300.0

    def begin(self, device_kind: str, precision: str) -> None:
        if device_kind != "cuda":
            raise NotImplementedError(f"cuDNN computes convolutions on NVIDIA's GPUs, not on {device_kind}")
        import torch

        torch.backends.cudnn.benchmark = True
