"""The plan's memory against two processes that shard a small decoder with torch's FSDP over gloo.

States are the plan's to the byte. The most alive in a step is within 5 %: with few activations (states and gathered
blocks decide), with many, and with many scores.
"""

import json
import os
import subprocess
import sys

import pytest
from helpers.places import ROOT

from measure.planning.decoders import TrainedDecoder
from measure.planning.fabric import Fabric
from measure.planning.layout import Layout
from measure.planning.states import state_bytes
from measure.planning.training import Accelerator, TrainingSetup, plan_step
from measure.serving import configuration

SMALL = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 8}
SMALL |= {"num_key_value_heads": 4, "num_hidden_layers": 6, "max_position_embeddings": 1024}
PROCESSES = 2


def hold(path, sequences, tokens):
    """Return what each process of a group held, in bytes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={PROCESSES}"]
    command += [str(ROOT / "tests/helpers/sharded_step.py"), str(path), str(sequences), str(tokens), str(path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=240)
    return [json.loads(path.with_name(f"{path.name}.{rank}").read_text("utf-8")) for rank in range(PROCESSES)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "sequences", "tokens"), [({"vocab_size": 1000}, 2, 512), ({"vocab_size": 16000}, 2, 256)]
)
def test_the_plan_is_what_two_processes_hold(settings, sequences, tokens, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SMALL | settings | {"tie_word_embeddings": False}), "utf-8")
    network = TrainedDecoder(configuration.read_file(path), tokens, 4)
    states = state_bytes("fp32", "adam")
    setup = TrainingSetup(network, Accelerator("processor", 1, 1, None), Fabric(1, 2), states, PROCESSES * sequences)
    memory = plan_step(setup, Layout(data=PROCESSES, zero=3), sequences).memory
    for held in hold(path, sequences, tokens):
        parts = held["weights"], held["gradients"], held["states"]
        assert parts == (memory.weights, memory.gradients, memory.optimizer)
        assert memory.byte == pytest.approx(held["peak"], rel=0.05)
