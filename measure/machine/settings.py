"""The settings that stay while a process measures: one list, set once a network is built, checked after its round.

An import, a constructor or a forward pass may set any of them for the whole process. Inter-op threads are left out:
torch lets a process set them only once, and eager networks do not use them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any

THREADS, GRADIENTS = "torch.get_num_threads()", "torch.is_grad_enabled()"
DEFAULT_DTYPE, DEFAULT_DEVICE = "torch.get_default_dtype()", "torch.get_default_device()"
# torch's defaults: how products of half precision add up, and the kernels among which attention chooses
PRODUCTS = {
    "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction": True,
    "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction": True,
    "torch.backends.cuda.matmul.allow_fp16_accumulation": False,  # since torch 2.7
}
ATTENTION = {
    f"torch.backends.cuda.{kind}_sdp_enabled()": f"backends.cuda.enable_{kind}_sdp"
    for kind in ("flash", "mem_efficient", "math", "cudnn")
}
CALLS = {  # settings that torch reads by one function and sets by another
    "torch.get_float32_matmul_precision()": "set_float32_matmul_precision",
    "torch.get_deterministic_debug_mode()": "set_deterministic_debug_mode",
    "torch.is_anomaly_enabled()": "autograd.set_detect_anomaly",
    THREADS: "set_num_threads",
    GRADIENTS: "set_grad_enabled",
    DEFAULT_DTYPE: "set_default_dtype",
    DEFAULT_DEVICE: "set_default_device",
    **ATTENTION,
}
IEEE, INHERITED = "ieee", "none"
UNREADABLE = "unreadable"  # torch refuses to read an older flag that contradicts the newer ones


class SettingChangedError(Exception):
    """A network changed a setting while it ran. The text is a sentence that names both."""


@dataclass(frozen=True)
class ProcessSetting:
    """A setting of the process, under its name in Python."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], object]

    def read(self, as_it_is: bool = False) -> Any:
        try:
            value = self.get()
        except RuntimeError:
            return UNREADABLE
        if value == INHERITED and not as_it_is:  # from the more general flags, which a cell has all at fp32's own
            return IEEE
        return str(value) if self.name == DEFAULT_DEVICE else value


def _precisions(tf32: bool) -> dict[str, Any]:
    """Return the flags behind a product of fp32: torch's newer ones, the general first, then the older ones."""
    general = ("", "cudnn.", "mkldnn.", "mkldnn.matmul.", "mkldnn.conv.", "mkldnn.rnn.")
    values: dict[str, Any] = {f"torch.backends.{name}fp32_precision": IEEE for name in general}
    for name in ("cuda.matmul", "cudnn.conv", "cudnn.rnn"):
        values[f"torch.backends.{name}.fp32_precision"] = "tf32" if tf32 else IEEE
    values |= {"torch.backends.cuda.matmul.allow_tf32": tf32, "torch.backends.cudnn.allow_tf32": tf32}
    return values | {"torch.get_float32_matmul_precision()": "high" if tf32 else "highest"}


def wanted(tf32: bool = False, as_they_are: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings for measuring a cell, by names. Threads and gradients are wanted as they are now."""
    import torch

    now = current()
    return {
        **_precisions(tf32),
        **PRODUCTS,
        **dict.fromkeys(ATTENTION, True),
        "torch.backends.cudnn.benchmark": False,
        "torch.backends.cudnn.enabled": True,
        "torch.backends.mkldnn.enabled": True,
        "torch.backends.cudnn.deterministic": False,
        "torch.get_deterministic_debug_mode()": 0,
        "torch.is_anomaly_enabled()": False,
        **{f"torch.is_autocast_enabled({kind!r})": False for kind in ("cpu", "cuda", "mps")},
        DEFAULT_DTYPE: torch.float32,
        DEFAULT_DEVICE: "cpu",
        **{name: now[name] for name in (THREADS, GRADIENTS, *as_they_are)},
    }


def _set_default_device(name: str) -> None:
    """Take back a default device, and set another only if that is not enough: torch nests them."""
    import torch

    torch.set_default_device(None)
    if str(torch.get_default_device()) != name:
        torch.set_default_device(name)


@cache
def _settings() -> tuple[ProcessSetting, ...]:
    """List the settings of this torch, in the order of setting them."""
    import torch

    found = []
    for kind in ("cpu", "cuda", "mps"):
        get, put = (partial(call, kind) for call in (torch.is_autocast_enabled, torch.set_autocast_enabled))
        found.append(ProcessSetting(f"torch.is_autocast_enabled({kind!r})", get, put))
    flags = ("benchmark", "enabled", "deterministic")
    names = [
        *_precisions(False),
        *PRODUCTS,
        *(f"torch.backends.cudnn.{flag}" for flag in flags),
        "torch.backends.mkldnn.enabled",
    ]
    for name in [name for name in names if name not in CALLS]:
        place, _, attribute = name.removeprefix("torch.").rpartition(".")
        try:
            owner = attrgetter(place)(torch)
            setting = ProcessSetting(name, partial(getattr, owner, attribute), partial(setattr, owner, attribute))
            setting.read()
        except AttributeError:  # torch before 2.9 has the older flags of precision alone
            continue
        found.append(setting)
    for name, setter in CALLS.items():
        set_value = _set_default_device if name == DEFAULT_DEVICE else attrgetter(setter)(torch)
        found.append(ProcessSetting(name, attrgetter(name[len("torch.") : -2])(torch), set_value))
    return tuple(found)


def current(as_they_are: bool = False) -> dict[str, Any]:
    """Return the settings of this process by names. Inherited values read as fp32's own, unless ``as_they_are``."""
    return {each.name: each.read(as_they_are) for each in _settings()}


def apply(values: Mapping[str, Any], as_they_are: bool = False) -> None:
    for _ in range(2):  # an older flag sets several of the newer ones
        for each in _settings():
            value = values.get(each.name, UNREADABLE)
            if value != UNREADABLE and each.read(as_they_are) != value:
                each.set(value)


def allow_tf32(allowed: bool) -> None:
    """Let fp32 products on GPUs use TF32, or forbid it."""
    apply(_precisions(allowed))


def check(values: Mapping[str, Any], network: str) -> None:
    """Raise SettingChangedError if a setting is not as a network's cell wants it, after the network has run."""
    for each in _settings():
        if each.name in values and (found := each.read()) != values[each.name]:
            raise SettingChangedError(
                f"{network} changed {each.name} from {values[each.name]} to {found} while it ran, so its time does not "
                "belong to its cell; set nothing of the process in forward, or set it back there"
            )


@contextmanager
def preserve() -> Iterator[None]:
    """Set everything back at the end."""
    before = current(as_they_are=True)
    try:
        yield
    finally:
        apply(before, as_they_are=True)
