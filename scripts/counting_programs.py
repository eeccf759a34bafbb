"""Compare this program with other counting programs on torchvision's classification models: accuracy, time, memory.

    python scripts/counting_programs.py
    python scripts/counting_programs.py --cases    # the small networks of docs/counting.md instead

The counting programs run one after another, each in a process of its own. A program counts one model after another at
batch size 1 and the size of the default weights, in eval mode without gradients. torch's fused inference path of
attention is off, which suits all programs. torchvision publishes multiply-adds and parameters with these weights.
"""

import argparse
import fnmatch
import gc
import logging
import os
import sys
import time
import warnings
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from peers import COUNTERS, Counter
from process import apart, peak_byte, prepare

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

import counting_cases

from measure.cache import table
from measure.domain.models import Model
from measure.domain.schema import file_of
from measure.domain.words import shape_name
from measure.domain.workload_records import CaseCount, ProgramCount
from measure.errors import UserError
from roofwright.command_line import answer

DATA = Path(__file__).parents[1] / "data"
MEMORY_LIMIT_BYTE = 2_000_000_000


def classification_models(pattern: str) -> list[Model]:
    """Return torchvision's classification models with matching names, at the size of their default weights."""
    from torchvision import models

    from measure.models import catalog

    wanted = fnmatch.filter(models.list_models(module=models), pattern)
    if not wanted:
        raise UserError(f"--models: torchvision has no classification model {pattern!r}; try 'resnet*'")
    found = catalog.find([f"torchvision:{name}" for name in wanted], native_size=True)
    return sorted(found, key=lambda model: model.name)


def count_model(counter: Counter, model: Model) -> dict[str, Any]:
    """Return the columns that a counting program fills for a model."""
    import torch

    from measure.models import catalog
    from measure.run.worker import classify

    try:
        start = time.perf_counter()
        network = catalog.build_on_meta(model) if counter.device == "meta" else catalog.build(model)
        (images,) = catalog.make_inputs(model, 1, counter.device)
        built = time.perf_counter()
        with torch.set_grad_enabled(counter.package is None):  # this program counts the backward pass too
            mac, parameters = counter.count(network, images)
        counted = time.perf_counter()
    except Exception as problem:  # a peer may raise anything
        failure = classify(problem)
        return {"status": failure.status, "reason": failure.reason, "peak_byte": peak_byte()}
    return {
        "status": "ok", "reason": None, "parameter_count": parameters, "forward_mac": round(mac),
        "build_s": round(built - start, 6), "count_s": round(counted - built, 6), "peak_byte": peak_byte(),
    }  # fmt: skip


def results_of(name: str, pattern: str) -> list[ProgramCount]:
    """Count each model with a counting program; the main function of its process."""
    import torch
    from torchvision import models

    warnings.simplefilter("ignore")  # peers warn of each unknown operator, and of their age
    logging.disable(logging.WARNING)
    torch.backends.mha.set_fastpath_enabled(False)  # it would hide attention's projections from some
    counter = COUNTERS[name]
    here, chosen = prepare(), classification_models(pattern)
    missing = None
    if counter.installed:
        count_model(counter, chosen[0])  # imports and libraries' first steps are not the first model's
    else:
        reason = f"{counter.package} is not installed; install it with pip install -e '.[benchmark]'"
        missing = {"status": "unsupported", "reason": reason}
    results = []
    for model in chosen:
        published = models.get_model_weights(model.name).DEFAULT.meta
        columns = missing or count_model(counter, model)
        gc.collect()
        results.append(ProgramCount(
            environment_id=here, program=name, version=counter.version, model=model.name, family=model.family,
            input_shape=shape_name(model.input_shape), published_parameter_count=published["num_params"],
            published_mac=round(published["_ops"] * 1e9), **columns,
        ))  # fmt: skip
    return results


def show_scores(results: Sequence[ProgramCount]) -> None:
    """Print a line for each counting program, then a line for each target."""
    from report.chapters.counting import facts
    from report.paper import frame

    counts = frame(list(results), ProgramCount)
    costs = counts.groupby("program").agg({"build_s": "sum", "peak_byte": "max"})
    scores = facts.scores(facts.with_deviations(counts)).set_index("program").join(costs)
    header = ["right", "equal", "parameters", "not counted", "counting", "with building", "peak memory"]
    print(f"{'':18}" + "".join(f"{name:>14}" for name in header))
    for counter, row in scores.iterrows():
        same = "-" if row.same_parameters != row.same_parameters else f"{row.same_parameters:.0f}"
        cells = [f"{row.right:.0f} of {row.models:.0f}", f"{row.equal:.0f}", same, f"{row.models - row.counted:.0f}"]
        cells += [f"{row.count_s:.2f} s", f"{row.count_s + row.build_s:.2f} s", f"{row.peak_byte / 1e9:.2f} GB"]
        print(f"{counter:18}" + "".join(f"{cell:>14}" for cell in cells))
    print("right: within 1 % of the published MACs, or their rounding; equal: within their rounding\n")
    ours = scores.loc[facts.OURS]
    exact = min(ours.equal, ours.same_parameters)
    verdict = "all" if exact == ours.models else "NOT ALL"
    print(f"{'equal, parameters too':42}{exact:.0f} of {ours.models}, {verdict}")
    peer_s = scores.loc["fvcore"].count_s
    if peer_s == peer_s:
        ratio = ours.count_s / peer_s
        verdict = "within" if ratio <= 1 else "ABOVE"
        taken = f"{ours.count_s:.2f} s, {verdict} {peer_s:.2f} s; {ratio:.2f} times fvcore's forward"
        print(f"{'forward, backward, bytes and layers':42}{taken}")
    verdict = "within" if ours.peak_byte <= MEMORY_LIMIT_BYTE else "ABOVE"
    print(f"{'peak memory of that':42}{ours.peak_byte / 1e9:.2f} GB, {verdict} {MEMORY_LIMIT_BYTE / 1e9:g} GB")


def parser() -> argparse.ArgumentParser:
    flags = argparse.ArgumentParser(
        prog="python scripts/counting_programs.py",
        description="Count torchvision's classification models with this program and with others, compare the counts "
        "with torchvision's own, and keep the results as CSV. All models take about ten minutes and 8 GB of memory.",
        epilog="The other counting programs: pip install -e '.[benchmark]'",
    )
    flags.add_argument("--models", default="*", metavar="GLOB", help="such as 'resnet*' (default: all)")
    flags.add_argument("--cases", action="store_true", help="count the small networks of docs/counting.md instead")
    out = "the table to write (default: the committed one in data/workload; none with --models)"
    flags.add_argument("--out", type=Path, help=out)
    return flags


def run(arguments: argparse.Namespace) -> int:
    record = CaseCount if arguments.cases else ProgramCount
    out = arguments.out or (file_of(record, DATA) if arguments.models == "*" else None)
    if out and not os.access(out.parent, os.W_OK):
        raise UserError(f"--out: {out} cannot be written; name a file in a folder that can be")
    if arguments.cases:
        cases = counting_cases.count_cases()
        if out:
            table.write(out, CaseCount, cases)
            print(f"written: {out}")
        print(f"\n{counting_cases.to_markdown(cases)}")
        return 0
    results: list[ProgramCount] = []
    for name in COUNTERS:
        print(f"{name}: counting", flush=True)
        try:
            own = apart(results_of, name, arguments.models)
        except BrokenProcessPool:
            raise UserError(
                f"the process of {name} died, as it does when memory runs out; free some, or name fewer --models"
            ) from None
        for reason in sorted({result.reason for result in own if result.reason}):
            print(f"{name}: {reason}")
        results += own
    if out:
        table.write(out, ProgramCount, results)
        print(f"written: {out}")
    print()
    show_scores(results)
    return 0


if __name__ == "__main__":
    sys.exit(answer("counting_programs", lambda: run(parser().parse_args())))
