"""Events as torch's profiler gives them, as far as they are looked at, made by hand."""

from types import SimpleNamespace


def event(
    name, parent=None, number=-1, cpu_us=0.0, kernels_us=0.0, *,
    start=0.0, end=0.0, device="CPU", kernels=(), annotation=False,
):  # fmt: skip
    """What the profiler says of an event; times in microseconds, ``kernels`` by name and duration."""
    made = SimpleNamespace(
        name=name,
        cpu_parent=parent,
        cpu_children=[],
        sequence_nr=number,
        cpu_time_total=cpu_us,
        device_time_total=kernels_us,
        kernels=[SimpleNamespace(name=kernel, duration=duration) for kernel, duration in kernels],
        time_range=SimpleNamespace(start=start, end=end),
        device_type=SimpleNamespace(name=device),
        is_user_annotation=annotation,
    )
    if parent is not None:
        parent.cpu_children.append(made)
    return made
