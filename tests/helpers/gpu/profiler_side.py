"""torch's profiler on a GPU that is not there: it sees the operators of the host as ever, and the kernels they launch.

While it records, each launch opens a range on the host's timeline. Afterwards the range is gone, and so is what this
double did to launch: the kernel belongs to the operator around it, and has an event on the device's timeline.
"""

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from helpers.gpu.catalogue import Machine
from helpers.gpu.stream import STREAM, Kernel

LAUNCH = "launch "
"""What the name of such a range begins with; the kernel's number follows."""

MODE = "PythonDispatchMode"
"""The event in which ``helpers.gpu.operators`` takes an operator's place."""


class Kernels:
    """The kernels that are launched while a profile records, with the time at which each begins on the device (ns)."""

    def __init__(self) -> None:
        self._began_ns = STREAM.now_ns()
        self.seen: list[tuple[Kernel, int]] = []

    def watch(self, kernel: Kernel, start_ns: int) -> None:
        from torch._C._profiler import _RecordFunctionFast

        with _RecordFunctionFast(f"{LAUNCH}{len(self.seen)}"):
            self.seen.append((kernel, start_ns - self._began_ns))


def with_kernels(events: Iterable[Any], kernels: Sequence[tuple[Kernel, int]], unseen: float) -> list[Any]:
    """Return the profiler's events as they are on a GPU, of whose kernels it does not see the first so many."""
    from torch.autograd import DeviceType
    from torch.autograd.profiler_util import FunctionEvent

    on_host, on_device = [], []
    for event in events:
        if event.name.startswith(LAUNCH):
            number = int(event.name.removeprefix(LAUNCH))
            if number >= unseen:
                kernel, start_ns = kernels[number]
                if launcher := _launcher(event):
                    launcher.append_kernel(kernel.name, 0, kernel.time_ns / 1e3)
                span = (start_ns / 1e3, (start_ns + kernel.time_ns) / 1e3)
                on_device.append(
                    FunctionEvent(-1, kernel.name, 0, *span, use_device="cuda", device_type=DeviceType.CUDA)
                )
        elif not _is_of_double(event):
            event.use_device = "cuda"
            event.cpu_children = [child for child in event.cpu_children if not _is_of_double(child)]
            on_host.append(event)
    return [*on_host, *on_device]


def _launcher(launch: Any) -> Any:
    """Return the event of the operator that a kernel was launched for, which may have been taken apart on the way.

    None where no operator was called for it.
    """
    found = above = launch.cpu_parent
    while above is not None:
        if above.name == MODE:
            found = above.cpu_parent
        above = above.cpu_parent
    return found


def _is_of_double(event: Any) -> bool:
    """Return whether an event is, or lies within, what a GPU's operator has no part of."""
    while event is not None:
        if event.name == MODE or event.name.startswith(LAUNCH):
            return True
        event = event.cpu_parent
    return False


def stand_in(machine: Machine, torch: ModuleType) -> None:
    """Put a profiler of the machine's kernels into the place of torch's, for as long as the process lives."""
    from torch.profiler import ProfilerActivity

    class Profile(torch.profiler.profile):
        """A profile that does not ask for the kernels of a real GPU, which would start NVIDIA's CUPTI."""

        def __init__(self, *, activities: Iterable[Any], **options: Any) -> None:
            super().__init__(activities=[ProfilerActivity.CPU], **options)
            self._sees_device = ProfilerActivity.CUDA in activities

        def __enter__(self) -> Any:
            super().__enter__()
            if self._sees_device:
                self._kernels = Kernels()
                STREAM.watchers.append(self._kernels.watch)
            return self

        def __exit__(self, *problem: Any) -> None:
            if self._sees_device:
                STREAM.watchers.remove(self._kernels.watch)
            super().__exit__(*problem)

        def events(self) -> list[Any]:
            events = super().events()
            if not self._sees_device:
                return events
            return with_kernels(events, self._kernels.seen, machine.unseen_kernels)

    torch.profiler.profile = Profile
