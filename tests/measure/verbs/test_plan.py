"""``measure plan``: its output, its JSON and its errors."""

import json
import re

import pytest
from helpers.places import ROOT

from measure import __main__ as command
from measure.predicting.collectives import CollectivePredictor

LLAMA = "hf:Meta-Llama-3.1-8B"
TRAIN = "--chip", "NVIDIA H100 SXM", "--gpus", "8", "--batch", "64"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache: chips and fits are the project's."""
    monkeypatch.chdir(tmp_path)


def plan(capsys, *words, model=LLAMA):
    code = command.main(["plan", model, *words, "--data", "cache"])
    return code, capsys.readouterr()


def planned(capsys, *words, model=LLAMA):
    code, printed = plan(capsys, *words, "--json", model=model)
    assert code == 0, printed.err
    return json.loads(printed.out)


def documented(phase):
    """The words in backquotes of the section of docs/json.md about plans of a phase."""
    text = (ROOT / "docs" / "json.md").read_text("utf-8")
    title = f"`python -m measure plan NAME --chip CHIP --gpus 8 --batch 64{phase} --json`"
    section = text.partition(title)[2].partition("\n## ")[0]
    return set(re.findall(r"`(\w+)`", section))


def keys(value):
    if isinstance(value, dict):
        return set(value) | {key for each in value.values() for key in keys(each)}
    return {key for each in value for key in keys(each)} if isinstance(value, list) else set()


def test_training_on_eight_gpus(capsys):
    found = planned(capsys, *TRAIN, "--context", "4096")
    assert (found["gpus"], found["batch"], found["context_tokens"], found["phase"]) == (8, 64, 4096, "training")
    assert found["parameter_byte"] == {
        "precision": "bf16", "weight": 2, "gradient": 2, "master": 4, "moments": 8, "update": 4, "total": 16
    }  # fmt: skip
    layouts = [row["layout"] for row in found["plans"]]
    assert all(each["data"] * each["tensor"] * each["pipeline"] == 8 for each in layouts)
    assert {(each["data"], each["zero"]) for each in layouts} >= {(8, 0), (8, 1), (8, 2), (8, 3), (1, 0)}
    fitting = [row for row in found["plans"] if row["fits"]]
    assert fitting
    assert [row["serial_s"] for row in fitting] == sorted(row["serial_s"] for row in fitting)
    assert all(row["memory"]["byte"] <= 80e9 for row in fitting)
    for row in found["plans"]:
        assert row["serial_s"] >= row["overlapped_s"] >= row["arithmetic_s"]
    for each in found["likely"]:  # NVLink's collectives in a node were measured
        assert each["low_s"] <= each["likely_s"] <= each["high_s"]
    assert [each["name"] for each in found["limits"]] == ["data parallel (DDP)", "FSDP (ZeRO 3)", "tensor parallel"]
    assert keys(found) <= documented("")


def test_the_text_says_the_same(capsys):
    words = *TRAIN, "--dp", "8", "--zero", "3", "--recompute", "full", "--micro-batch", "1", "--network", "50"
    (row,) = planned(capsys, *words)["plans"]
    code, printed = plan(capsys, *words)
    assert code == 0
    assert "8.03 G parameters, a training step of 64 sequences of 4,096 tokens, bf16" in printed.out
    assert re.search(r"dp 8 zero 3 +full +8 of 1 ", printed.out)
    assert f"{row['memory']['byte'] / 1e9:.1f} GB" in printed.out
    assert "MFU = model FLOP of the step / (step time x GPUs x peak)" in printed.out
    assert "2 weight + 2 gradient + 4 optimiser's weight + 8 optimiser's moments = 16 B" in printed.out
    # 2 x 2 x 989e12 / (6 x 450e9) tokens, and 6 / 4 of it
    assert "= 1,470 tokens a GPU (DDP)" in printed.out
    assert "= 2,200 (FSDP)" in printed.out
    code, printed = plan(capsys, *words, "--markdown")
    assert "| plan | recompute |" in printed.out


def test_long_sequences_are_split(capsys):
    words = "--chip", "NVIDIA H100 SXM", "--gpus", "8", "--batch", "1", "--context", "131072"
    found = planned(capsys, *words)
    best = found["plans"][0]
    assert best["fits"]
    assert best["layout"]["context"] > 1
    assert keys(found) <= documented("")
    code, printed = plan(capsys, *words, "--cp", "8", "--zero", "3")
    assert code == 0
    assert re.search(r"^zero 3 cp 8 +full ", printed.out, re.MULTILINE)
    # Keys and values of 131,072 tokens in 8 heads of 128 numbers at 2 B
    assert re.search(r"^all_gather +keys and values +8 +in a node +96 +537 MB ", printed.out, re.MULTILINE)


def test_what_is_unknown_is_said(capsys):
    _, printed = plan(capsys, "--chip", "NVIDIA L4", "--gpus", "16", "--batch", "64")
    assert "How many NVIDIA L4 a node has is not known; it counts as 8." in printed.out
    assert "Links between nodes of 8 need --network GB/s" in printed.out
    _, printed = plan(capsys, "--chip", "NVIDIA L4", "--gpus", "2", "--batch", "64")
    larger = re.search(r"No plan fits: (\d+) GPUs would do: ", printed.out)[1]
    found = planned(capsys, "--chip", "NVIDIA L4", "--gpus", larger, "--batch", "64")
    assert found["plans"][0]["fits"]


def test_a_server(capsys):
    words = "--chip", "NVIDIA H100 SXM", "--gpus", "4", "--batch", "8", "--inference", "--context", "2048"
    found = planned(capsys, *words)
    assert found["plans"][0]["plan"] == {"tensor": 4, "expert": 1, "data": 1, "pipeline": 1}
    assert keys(found) <= documented(" --inference")
    code, printed = plan(capsys, *words)
    assert code == 0
    assert printed.out.rstrip().endswith("is measure predict with --gpus.")
    assert "16.1 GB of weights in bf16, cache in bf16, " in printed.out


def test_a_server_with_stored_formats(capsys):
    words = "--chip", "NVIDIA H100 SXM", "--gpus", "1", "--batch", "8", "--inference", "--context", "2048"
    (plain,) = planned(capsys, *words)["plans"]
    found = planned(capsys, *words, "--weights", "fp8", "--cache", "fp8")
    assert (found["weight_formats"], found["cache_format"]) == (["fp8"], "fp8")
    (row,) = found["plans"]
    # 8,030,261,248 parameters at 2 B. In fp8 the matrices of 32 layers have 1: queries and results of 4,096 x 4,096,
    # keys and values of 4,096 x 1,024, three of 4,096 x 14,336
    matrices = 32 * 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    assert plain["weight_byte"] == 2 * 8_030_261_248
    assert row["weight_byte"] == 2 * 8_030_261_248 - matrices
    # Keys and values of 8 heads of 128 numbers in 32 layers, for 2,048 tokens
    assert plain["request_byte"] == 2 * 2048 * 32 * 2 * 8 * 128
    assert row["request_byte"] == 2048 * 32 * 2 * 8 * 128
    assert row["held_byte"] == row["weight_byte"] + 8 * row["request_byte"]
    # A step reads half of the matrices and caches less, at 3.35 TB/s; activations move the difference of one in 100.
    saved_s = (matrices + 8 * row["request_byte"]) / 3.35e12
    assert plain["decode"]["memory_s"] - row["decode"]["memory_s"] == pytest.approx(saved_s, rel=0.01)
    (row,) = planned(capsys, *words, "--weights", "fp8")["plans"]
    assert row["request_byte"] == plain["request_byte"]  # the cache has a flag of its own
    _, printed = plan(capsys, *words, "--weights", "fp8")
    assert f"{row['weight_byte'] / 1e9:.3g} GB of weights in fp8, cache in bf16, " in printed.out


@pytest.mark.slow
def test_any_network_is_counted_block_by_block(capsys):
    found = planned(capsys, "--chip", "NVIDIA H100 SXM", "--gpus", "2", "--batch", "8", model="resnet18")
    assert {(row["layout"]["data"], row["layout"]["pipeline"]) for row in found["plans"]} == {(2, 1), (1, 2)}
    # 11,689,512 parameters (torchvision), 2 x 1.814 GFLOP a picture, three passes but for the first layer's input
    assert found["parameters"] == 11_689_512
    assert found["plans"][0]["model_flop"] == pytest.approx(8 * 3 * 3.63e9, rel=0.03)
    assert len(found["limits"]) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--tp", "3"), "--tp 3 does not divide the heads and matrices of a layer"),
        (("--inference", "--cp", "2"), "--cp: belongs to training; leave it out, or leave out --inference"),
        (("--zero", "4"), "--zero: '4' is not a stage of ZeRO; use 0 (DDP), 1, 2 or 3 (FSDP)"),
        (("--network", "fast"), "--network: 'fast' is not a rate in GB/s; write a number such as 50"),
        (("--weights", "fp8"), "--weights: belongs to a server; add --inference, or leave it out"),
        (("--inference", "--cache", "fp7"), "--cache: 'fp7'"),
        (("--inference", "--weights", "nvfp4"), "has no units for fp4"),
        (("--inference", "--zero", "3"), "--zero: belongs to training; leave it out, or leave out --inference"),
        (("--context", "200000"), "takes 131072 tokens at most"),
    ],
)
def test_bad_words_get_one_sentence(capsys, words, sentence):
    code, printed = plan(capsys, *TRAIN, *words)
    assert code == 2
    assert sentence in printed.err
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "words", "sentence"),
    [
        ("resnet18", ("--context", "128"), "--context: resnet18 has its own inputs"),
        ("resnet18", ("--cp", "2"), "--cp 2 splits the sequences of a decoder alone, and resnet18 is no hf: config"),
        ("resnet18", ("--inference",), "--inference: resnet18 is no hf: configuration"),
        ("resnet18", ("--inference", "--weights", "fp8"), "--inference: resnet18 is no hf: configuration"),
        ("hf:nothing", (), "'nothing' is not one of the"),
        ("nothing", (), "no model is called 'nothing'"),
    ],
)
def test_other_networks_have_other_limits(capsys, model, words, sentence):
    code, printed = plan(capsys, *TRAIN, *words, model=model)
    assert code == 2
    assert sentence in printed.err


def test_the_likely_time_is_that_of_all_calls(capsys):
    found = planned(capsys, *TRAIN, "--dp", "2", "--zero", "1", "--tp", "4", "--recompute", "none")
    for planned_calls, likely in zip(found["plans"][0]["collectives"], found["likely"], strict=True):
        sizes = planned_calls["kind"], planned_calls["message_byte"], planned_calls["gpus"], "NVIDIA H100 SXM"
        one = CollectivePredictor.read(ROOT / "data").predict(*sizes)
        assert likely["likely_s"] == pytest.approx(planned_calls["calls"] * one.likely_s)
        assert likely["likely_s"] >= planned_calls["least_s"]


def test_one_gpu_needs_no_collective(capsys):
    found = planned(capsys, "--chip", "NVIDIA H100 SXM", "--gpus", "1", "--batch", "8")
    (row,) = found["plans"]
    assert row["collectives"] == found["likely"] == []
    code, printed = plan(capsys, "--chip", "NVIDIA H100 SXM", "--gpus", "1", "--batch", "8")
    assert code == 0
    assert "one GPU" in printed.out
