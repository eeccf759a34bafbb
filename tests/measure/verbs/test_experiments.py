"""``model --operators``, ``--warm-up`` and ``--types``, from the command to what it prints."""

import json
from dataclasses import replace

import pytest
from helpers.rows import kernel_time, layer, operator, operator_time

from measure import __main__ as command
from measure.cache.folders import machine_names
from measure.domain.operator_work import operator_work
from measure.roofs import roofs
from measure.timing.sampling import Sampling
from measure.verbs import model as one_model
from measure.verbs.operators import LONGEST_KERNEL, ProfiledCall, kernel_totals, operator_lines
from measure.verbs.terminal import aligned

OWN = "tests.helpers.small_network:network"
ONE_CORE = ["--device", "cpu", "--threads", "1"]

pytestmark = pytest.mark.usefixtures("forked_workers")


def run(capsys, data, *words):
    code = command.main(["model", OWN, *ONE_CORE, "--data", str(data), *words])
    return code, capsys.readouterr()


def test_the_first_calls_are_printed_and_nothing_is_kept(tmp_path, capsys):
    code, printed = run(capsys, tmp_path / "data", "--warm-up")
    lines = printed.out.splitlines()
    assert code == 0
    assert lines[0].startswith(f"{OWN} on ")
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["1", "2", "3", "4", "5", "6"]
    assert not (tmp_path / "data").exists()
    _, printed = run(capsys, tmp_path / "data", "--warm-up", "--json")
    found = json.loads(printed.out)
    assert [*found["latencies_s"]] == ["inference", "step", "forward", "backward", "update"]
    assert {len(times) for times in found["latencies_s"].values()} == {20}
    assert [each["warm_up"] for each in found["averages"]["step"]] == [0, 1, 2, 5, 10]


def test_number_types_are_those_under_autocast(tmp_path, capsys):
    code, printed = run(capsys, tmp_path, "--types")
    assert code == 0
    assert "autocast to bf16" in printed.out
    assert printed.out.splitlines()[-1] == "loss: fp32; all parameters: fp32; their gradients: fp32"
    _, printed = run(capsys, tmp_path, "--types", "--json", "--precisions", "fp16")
    found = json.loads(printed.out)
    assert (found["precision"], found["layers"][0]["outputs"], found["loss"]) == ("fp16", ["fp16"], "fp32")


def test_a_network_that_does_not_train_is_one_sentence(tmp_path, capsys):
    code = command.main(["model", "language:gpt2_decode_16", *ONE_CORE, "--data", str(tmp_path), "--types"])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "NAME: training gpt2_decode_16 batch 1 bf16 autocast: unsupported, " in err


def test_a_glob_of_several_functions_is_refused_by_what_was_written(tmp_path, capsys):
    assert command.main(["model", "examples.attention:*_16_256", "--data", str(tmp_path)]) == 2
    assert "NAME: 'examples.attention:*_16_256' selects 2 models; name one" in capsys.readouterr().err


@pytest.mark.slow
def test_operators_of_both_passes_are_profiled_and_listed(tmp_path, capsys, monkeypatch):
    sampling = Sampling(warm_up_s=0.1, least_s=0.1, limit_s=0.1)
    monkeypatch.setattr(one_model, "make_sampling", lambda _: sampling)
    monkeypatch.setattr(roofs, "first_kernels", lambda *_: [])
    code, printed = run(capsys, tmp_path, "--operators", "--json")
    assert code == 0
    passes = json.loads(printed.out)["operators"]
    assert [(each["phase"], each["status"]) for each in passes] == [("inference", "ok"), ("step", "ok")]
    flop = {(row["layer_kind"], row["operator"]): row["flop"] for row in passes[0]["operators"]}
    # 8 channels of 14 x 14 from 3 of 3 x 3, then 8 * 14 * 14 by 10, a multiply-add being 2, and an addition per bias
    assert flop["convolution", "convolution"] in (2 * 8 * 14 * 14 * 27, 2 * 8 * 14 * 14 * 27 + 8 * 14 * 14)
    assert flop["linear", "matrix product"] in (2 * 8 * 14 * 14 * 10, 2 * 8 * 14 * 14 * 10 + 10)
    assert {row["stage"] for row in passes[1]["operators"]} == {"forward", "backward", "update"}
    assert len(machine_names(tmp_path)) == 1
    _, printed = run(capsys, tmp_path, "--operators", "2")  # from the cache
    assert "more, " in printed.out
    assert "Matrix products take" in printed.out


def test_kernels_of_a_gpu_follow_its_operators():
    rows = operator_work([operator_time(name="linear")], [layer()], [operator()])
    kernels = kernel_totals([
        kernel_time(kernel="sgemm", time_s=0.5), replace(kernel_time(kernel="sgemm", time_s=0.25), path="tail"),
        kernel_time(kernel="a" * 200, time_s=0.25),
    ])  # fmt: skip
    assert [(each.kernel[:5], each.calls, each.time_s, each.share) for each in kernels] == [
        ("sgemm", 2, 0.75, 0.75), ("aaaaa", 1, 0.25, 0.25),
    ]  # fmt: skip
    lines = operator_lines([ProfiledCall("inference", "ok", None, rows, kernels)], 20, aligned)
    assert max(map(len, lines)) < LONGEST_KERNEL + 60
    assert "Matrix products take 100 % of the time and 100 % of the counted FLOP." in lines
    failed = ProfiledCall("step", "oom", "too large", [], [])
    assert operator_lines([failed], 20, aligned) == ["", "Operators of a training step: oom, too large"]
