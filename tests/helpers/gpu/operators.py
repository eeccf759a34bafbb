"""Operators on a GPU that is not there: they do nothing, in about the time that they would take.

A tensor "on cuda" lies on torch's meta device: it has a shape and no memory. Every operator of such tensors adds to the
stream the time of its FLOP or of its bytes, whichever is longer, and its outputs count as memory until they are freed.

Tensors from numbers in a program (``torch.tensor``, ``torch.arange``) stay on the CPU until they meet a tensor of the
device: networks such as RegNet read widths out of small tensors while they are built.
"""

import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from helpers.gpu.graph_side import LAUNCH_NS
from helpers.gpu.stream import Kernel

aten = torch.ops.aten

PRECISIONS = {
    torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "fp8", torch.int8: "int8"
}  # fmt: skip
# The arithmetic of operators. torch's registry counts FLOP, and so leaves out products of integers.
FORMULAS = {**flop_registry, aten._int_mm: flop_registry[aten.mm]}
WRITTEN_DOWN = {aten.arange, aten.linspace, aten.logspace, aten.scalar_tensor}
# They reserve memory and launch nothing.
UNWRITTEN = {aten.empty, aten.empty_like, aten.empty_strided, aten.new_empty, aten.new_empty_strided}


class Ledger:
    """The storages that are on the device, and their bytes: now, and at most."""

    def __init__(self, capacity_byte):
        self._capacity_byte = capacity_byte
        self._sizes = {}
        self.byte = self.peak_byte = 0

    def __contains__(self, tensor):
        return tensor.is_meta and tensor.untyped_storage()._cdata in self._sizes

    def add(self, tensor):
        """Count a tensor's storage until it is freed. Raises OutOfMemoryError where there is no room for it."""
        storage = tensor.untyped_storage()
        key, byte = storage._cdata, storage.nbytes()
        if key in self._sizes:
            return
        if self.byte + byte > self._capacity_byte:
            raise torch.cuda.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {byte / 2**20:.2f} MiB. GPU 0 has a total capacity of "
                f"{self._capacity_byte / 2**30:.2f} GiB of which {(self._capacity_byte - self.byte) / 2**20:.2f} MiB "
                "is free."
            )
        self._sizes[key] = byte
        self.byte += byte
        self.peak_byte = max(self.peak_byte, self.byte)
        weakref.finalize(storage, self._free, key).atexit = False

    def _free(self, key):
        self.byte -= self._sizes.pop(key)


class Operators(TorchDispatchMode):
    """Takes every operator of this thread: operators of the device are done here, all others as usual."""

    def __init__(self, gpu, launches):
        super().__init__()
        self._gpu, self._launches = gpu, launches
        self.ledger = Ledger(gpu.torch_memory_byte)

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else the first operator imports all of torch.compile

    def begin(self):
        """Enter at the bottom of this thread's modes, for as long as it lives."""
        # As FakeTensorMode does where there is no GPU: torch.tensor(..., device=...) dispatches its copy to the device.
        torch._C._set_only_lift_cpu_tensors(True)
        self.__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        device = kwargs.get("device")
        is_to_device = device is not None and torch.device(device).type == "cuda"
        if any(isinstance(tensor, FakeTensor) for tensor in tensors):  # of counting, which names the device only
            return func(*args, **kwargs)
        if not is_to_device and not any(tensor in self.ledger for tensor in tensors):
            result = func(*args, **kwargs)
            if func.overloadpacket is aten.lift_fresh:
                result.is_written_down = True
            return result
        is_copied = func.overloadpacket is aten._to_copy and getattr(tensors[0], "is_written_down", False)
        if func.overloadpacket in WRITTEN_DOWN or is_copied:
            return func(*args, **{**kwargs, "device": torch.device("cpu")})
        if _leaves_device(func, args, device):
            self._launches.wait()
            return _read(func, args, kwargs)
        with self:  # operators of others, as conv2d is, arrive whole in inference mode
            parts = func.decompose(*args, **kwargs)
        if parts is not NotImplemented:
            return parts
        if is_to_device:
            kwargs["device"] = torch.device("meta")
        args, kwargs = _map_tensors(_on_meta, (args, kwargs))
        if func.overloadpacket in FORMULAS:
            with self:
                args, kwargs = _in_one_type(args, kwargs)
        result = func(*args, **kwargs)
        made = [leaf for leaf in _leaves(result) if isinstance(leaf, torch.Tensor) and leaf.is_meta]
        for tensor in [*made, *filter(lambda tensor: tensor.is_meta, tensors)]:  # torch made some by ``tensor.device``
            self.ledger.add(tensor)
        if not func.is_view and func.overloadpacket not in UNWRITTEN:
            self._launches.launch(self._kernel(func, args, kwargs, result, tensors, made))
        return result

    def _kernel(self, func, args, kwargs, result, read, written):
        """An operator's only kernel: it takes its launch, and its FLOP or its bytes by the device's peaks."""
        name, precision = func.overloadpacket.__name__, self._precision([*read, *written])
        count = FORMULAS.get(func.overloadpacket)
        flop = count(*args, **kwargs, out_val=result) if count is not None else 0
        read_byte, written_byte = (sum(tensor.nbytes for tensor in each) for each in (read, written))
        arithmetic_s = flop / self._gpu.flop_per_s[precision]
        memory_s = (read_byte + written_byte) / self._gpu.byte_per_s
        time_ns = LAUNCH_NS + round(1e9 * max(arithmetic_s, memory_s))
        return Kernel(f"{name}_{precision}", precision, flop, read_byte, written_byte, time_ns)

    def _precision(self, tensors):
        """The tensors' type, or the device's type for computing with it."""
        types = [tensor.dtype for tensor in tensors if tensor.is_floating_point() or tensor.dtype in PRECISIONS]
        kinds = [PRECISIONS.get(dtype, "fp32") for dtype in types]
        precision = kinds[0] if kinds else "fp32"
        if precision == "fp32" and torch.backends.cuda.matmul.allow_tf32:
            precision = "tf32"
        return precision if precision in self._gpu.flop_per_s else "fp32"


def _leaves(value):
    """Everything in nested lists, tuples and dictionaries. Torch's own function takes most of an operator's time."""
    if isinstance(value, dict):
        value = tuple(value.values())
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, list | tuple) else [value]


def _map_tensors(change, value):
    """Change the tensors in nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: _map_tensors(change, each) for name, each in value.items()}
    return type(value)(_map_tensors(change, each) for each in value) if isinstance(value, list | tuple) else value


def _in_one_type(args, kwargs):
    """Cast the arguments of a product or convolution to autocast's type, or to the narrowest of theirs.

    Gradients of what autocast has cast are narrow, and meet weights that are not.
    """
    wide = [leaf.dtype for leaf in _leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    narrow = [dtype for dtype in wide if dtype in (torch.float16, torch.bfloat16)]
    if torch.is_autocast_enabled("cuda"):
        narrow = [torch.get_autocast_dtype("cuda")]
    if not narrow:
        return args, kwargs
    return _map_tensors(
        lambda tensor: tensor.to(narrow[0]) if tensor.dtype == torch.float32 else tensor, (args, kwargs)
    )


def _on_meta(tensor):
    """Move tensors of the CPU to the device, except single numbers, which kernels take as they are."""
    return tensor.to("meta") if tensor.device.type == "cpu" and tensor.ndim else tensor


def _leaves_device(func, args, device):
    """Whether an operator's result is on the host: a number, or a copy."""
    if func.overloadpacket is aten._to_copy:
        return device is not None and torch.device(device).type == "cpu"
    if func.overloadpacket is aten.copy_:
        return args[0].device.type == "cpu"
    return func.overloadpacket is aten._local_scalar_dense


def _read(func, args, kwargs):
    """The host reads zeros from the device."""
    if func.overloadpacket is aten.copy_:
        return args[0].zero_()
    zeros = torch.zeros(args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype, device="cpu")
    return zeros if func.overloadpacket is aten._to_copy else zeros.reshape(-1)[0].item()
