"""torch's profiler on a GPU that is not there: it sees the operators of the host as ever, and the kernels they launch.

While it records, each launch opens a range on the host's timeline. In the exported trace the range is a call of CUDA's
runtime, without the double's own work: the call is in the operator around it, and leads to the kernel.
"""

import json
from pathlib import Path

from helpers.gpu.stream import STREAM

LAUNCH = "launch "  # the prefix of such a range; the kernel's number follows
MODE = "PythonDispatchMode"  # the event of ``helpers.gpu.operators`` in an operator's place


class Kernels:
    """The kernels of a profile, with their start times on the device (ns)."""

    def __init__(self):
        self._began_ns = STREAM.now_ns()
        self.seen = []

    def watch(self, kernel, start_ns):
        from torch._C._profiler import _RecordFunctionFast

        with _RecordFunctionFast(f"{LAUNCH}{len(self.seen)}"):
            self.seen.append((kernel, start_ns - self._began_ns))


def with_kernels(events, kernels, unseen):
    """A trace's events as on a GPU, without the first ``unseen`` kernels.

    Within ``MODE`` only the operators stay that an operator is taken apart into: each holds a ``MODE`` of its own.
    """
    ranges = sorted((event for event in events if event.get("ph") == "X"), key=lambda each: (each["ts"], -each["dur"]))
    began = min((event["ts"] for event in ranges), default=0.0)
    running, taken_over, hidden, found = {}, set(), set(), []
    for event in ranges:
        above = running.setdefault((event["pid"], event["tid"]), [])
        while above and above[-1]["ts"] + above[-1]["dur"] <= event["ts"]:
            above.pop()
        if event["name"] == MODE and above:
            taken_over.add(id(above[-1]))
        if any(each["name"] == MODE for each in (*above, event)):
            hidden.add(id(event))
        above.append(event)
    for event in ranges:
        name = event["name"]
        if name.startswith(LAUNCH):
            if (number := int(name.removeprefix(LAUNCH))) >= unseen:
                kernel, start_ns = kernels[number]
                called = {"correlation": number + 1}
                found.append(event | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": called})
                ran = {"cat": "kernel", "name": kernel.name, "ts": began + start_ns / 1e3, "dur": kernel.time_ns / 1e3}
                found.append(event | ran | {"pid": 0, "tid": 7, "args": called | {"device": 0, "stream": 7}})
        elif id(event) in taken_over or id(event) not in hidden:
            found.append(event)
    return found


def stand_in(machine, torch):
    """Put a profiler of the machine's kernels into the place of torch's, for as long as the process lives."""
    from torch.profiler import ProfilerActivity

    class Profile(torch.profiler.profile):
        """A profile that does not ask for the kernels of a real GPU, which would start NVIDIA's CUPTI."""

        def __init__(self, *, activities, **options):
            super().__init__(activities=[ProfilerActivity.CPU], **options)
            self._sees_device = ProfilerActivity.CUDA in activities

        def __enter__(self):
            super().__enter__()
            if self._sees_device:
                self._kernels = Kernels()
                STREAM.watchers.append(self._kernels.watch)
            return self

        def __exit__(self, *problem):
            if self._sees_device:
                STREAM.watchers.remove(self._kernels.watch)
            super().__exit__(*problem)

        def export_chrome_trace(self, path):
            super().export_chrome_trace(path)
            if self._sees_device:
                trace = json.loads(Path(path).read_text("utf-8"))
                events = with_kernels(trace["traceEvents"], self._kernels.seen, machine.unseen_kernels)
                Path(path).write_text(json.dumps(trace | {"traceEvents": events}), "utf-8")

    torch.profiler.profile = Profile
