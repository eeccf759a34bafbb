"""A process of a group that shards a small decoder with torch's FSDP, takes steps and weighs what it holds."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, AutoModelForCausalLM

STEPS = 2  # the optimiser's states exist from the first update on
RECORDED = 3  # gloo's threads release a buffer late at times: the step with the least peak has what it needs alone


def local_byte(tensors: Any) -> int:
    """Return the bytes of this process's shards."""
    return sum(each.to_local().nbytes if hasattr(each, "to_local") else each.nbytes for each in tensors)


def peak_of(events: Any, before_byte: int) -> int:
    """Return the most bytes alive by the allocator's events, of which ``before_byte`` were there at first."""
    alive = peak = before_byte
    for event in events:
        if event.name() == "[memory]":
            alive += event.nbytes()
            peak = max(peak, alive)
    return peak


def main(configuration: str, sequences: int, tokens: int, output: str) -> None:
    """Run this rank and write what it held: bytes of weights, gradients and states, and the most alive in a step."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    values = json.loads(Path(configuration).read_text("utf-8"))
    network = AutoModelForCausalLM.from_config(AutoConfig.for_model(**values), attn_implementation="sdpa")
    network.config.use_cache = False
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in network.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(network, mesh=mesh)
    optimizer = torch.optim.Adam(network.parameters(), foreach=True)  # as on a GPU
    ids = torch.randint(0, values["vocab_size"], (sequences, tokens))

    def step() -> None:
        network(input_ids=ids, labels=ids).loss.backward()

    for _ in range(STEPS - 1):
        step()
        optimizer.step()
        optimizer.zero_grad()
    weights = local_byte(network.parameters())
    states = local_byte(each for of in optimizer.state.values() for each in of.values() if each.ndim)
    peaks = []
    for _ in range(RECORDED):
        optimizer.zero_grad()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            step()
            gradients = local_byte(each.grad for each in network.parameters())
            optimizer.step()
        peaks.append(peak_of(profiler.profiler.kineto_results.events(), weights + states))
    peak = min(peaks)
    held = {"weights": weights, "gradients": gradients, "states": states, "peak": peak}
    Path(f"{output}.{os.environ['RANK']}").write_text(json.dumps(held), "utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
