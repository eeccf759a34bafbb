import csv
import json
import shutil
from dataclasses import replace

import pytest
from helpers.cells import CELL, DATED, machine, put
from helpers.rows import collective, data_parallel_step, workload
from helpers.world import WORLD

from measure import __main__ as command
from measure.cache.folders import Workloads
from measure.domain.records import Run, Sample


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A cache of two machines and a trace in the folder ``cache`` of the current one.

    One ran alexnet for 100 ms in three rounds, and a language model, 4 tokens at a time in half a second: 8 tokens/s.
    The other found no memory for alexnet. Two of its processes all-reduced 4 KiB in half a millisecond, and took a step
    of 3 s, of which 1 s was communication; a rank of four was killed.
    """
    box = machine(tmp_path / "cache", "box")
    for number in range(3):
        put(box, number, [0.1] * 6)
    cell = CELL._replace(model="gpt2_decode_128", batch=4)
    columns = {"environment_id": DATED.environment_id} | cell._asdict() | {"round": 0}
    decoded = Run(**columns, status="ok", reason=None, recorded_at="2026-01-01T00:00:00+00:00", flags="wide")
    box.put_run(decoded, [Sample(**columns, sample=number, block=1, latency_s=0.5) for number in range(6)])
    rack = machine(tmp_path / "cache", "rack")
    put(rack, 0, [], status="oom", reason="too large | by far")
    killed = collective(processes=4, status="killed", reason="rank 1 of 4 was killed by signal 9")
    of_here = {"environment_id": DATED.environment_id}
    rack.put_collectives([replace(row, **of_here) for row in (collective(latency_s=0.0005), killed)])
    steps = [data_parallel_step("alexnet", "overlapped", latency_s=3.0, gradient_byte=244403360)]
    steps.append(data_parallel_step("alexnet", "none", latency_s=2.0, gradient_byte=244403360))
    rack.put_data_parallel_steps([replace(row, **of_here) for row in steps])
    shutil.copytree(WORLD / "traces" / "images-1", tmp_path / "cache" / "traces" / "images-1")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("show", ""),
        ("show-markdown", "--markdown"),
        ("show-csv", "--csv"),
        ("show-json", "--json"),
        ("show-chosen", "alex* --machine box"),  # without the tokens of the other model
    ],
)
def test_show(golden, capsys, name, words):
    assert command.main(["show", *words.split(), "--data", "cache"]) == 0
    golden(name, capsys.readouterr().out)


def test_an_incomplete_last_row_is_named(tmp_path, capsys):
    box = machine(tmp_path, "box")
    put(box, 0, [0.1] * 6)
    runs = box.paths[Run]
    runs.write_text(f"{runs.read_text()}{DATED.environment_id},alex")
    assert command.main(["show", "--csv", "--data", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == f"{runs}: the last row is incomplete (a killed command left it) and left out\n"
    assert len(out.splitlines()) == 2


def test_the_stages_of_a_training_step_are_listed_if_asked_for(tmp_path, capsys):
    box, times = machine(tmp_path, "box"), {"step": 0.6, "forward": 0.1, "backward": 0.3, "update": 0.2}
    columns = {"environment_id": DATED.environment_id, "round": 0, **CELL._asdict()}
    rows = {phase: columns | {"phase": phase} for phase in times}
    runs = [Run(**row, status="ok", reason=None, recorded_at="2026-01-01T00:00:00+00:00") for row in rows.values()]
    samples = [Sample(**rows[phase], sample=0, block=1, latency_s=time_s) for phase, time_s in times.items()]
    for run in runs:
        box.put_run(run, [each for each in samples if each.phase == run.phase])
    assert command.main(["show", "--data", str(tmp_path)]) == 0
    assert "backward" not in capsys.readouterr().out
    assert command.main(["show", "--stages", "--json", "--data", str(tmp_path)]) == 0
    cells = json.loads(capsys.readouterr().out)["machines"][0]["cells"]
    assert [(each["phase"], each["latency_s"]) for each in cells] == list(times.items())


def test_two_rounds_have_a_range(tmp_path, capsys):
    box = machine(tmp_path, "box")
    for number, latency_s in enumerate((0.1, 0.3)):
        put(box, number, [latency_s] * 6)
    assert command.main(["show", "--data", str(tmp_path)]) == 0
    assert "200 ms  100 ms to 300 ms (range)" in capsys.readouterr().out


def test_energy_has_a_column_only_on_a_device_that_counts_it(tmp_path, capsys):
    put(machine(tmp_path, "silent"), 0, [0.1] * 6)
    put(machine(tmp_path, "telling"), 0, [0.1] * 10, energy_j=0.31)  # one call a sample, one second in all
    assert command.main(["show", "--data", str(tmp_path)]) == 0
    silent, telling = capsys.readouterr().out.split("telling")
    assert "energy/input" not in silent
    assert "inputs/s  energy/input  rounds" in telling
    assert "10        310 mJ       1" in telling
    assert command.main(["show", "--csv", "--data", str(tmp_path)]) == 0
    rows = {row["machine"]: row for row in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert (rows["telling"]["energy_j"], rows["silent"]["energy_j"]) == ("0.31", "")


def test_a_model_is_named_where_none_was_measured(tmp_path, capsys):
    machine(tmp_path, "box")
    assert command.main(["show", "alexnet", "--data", str(tmp_path)]) == 2
    assert "MODEL: no model was measured or counted yet in " in capsys.readouterr().err


def counted(model, batch, home, **changed):
    row = workload(model, batch, flop=5 * 10**9, parameter_count=124_000_000, traffic_byte=300_000_000)
    home.put([(replace(row, input_shape="16", precision="bf16", **changed), [], [])])


def test_without_a_machine_all_counts_are_listed(tmp_path, capsys):
    counted("resnet18", 1, Workloads(tmp_path))
    assert command.main(["show", "--data", str(tmp_path)]) == 0
    assert "resnet18  16         1  bf16" in capsys.readouterr().out
    assert command.main(["show", "--csv", "--data", str(tmp_path)]) == 2
    assert "were only counted" in capsys.readouterr().err
    put(machine(tmp_path, "box"), 0, [0.1] * 6)
    assert command.main(["show", "--data", str(tmp_path)]) == 0
    assert "resnet18" not in capsys.readouterr().out
    counted("alexnet", 1, Workloads(tmp_path))
    assert command.main(["show", "alexnet", "--csv", "--data", str(tmp_path)]) == 0
    assert "box,alexnet,1,fp32" in capsys.readouterr().out


def test_counts_are_listed_without_any_run(tmp_path, capsys):
    counted("hf:gpt2_prefill_16", 2, Workloads(tmp_path, "prediction/counted"))
    counted("hf:opt_prefill_16", 1, Workloads(tmp_path), status="unsupported", reason="no formula")
    counted("resnet18", 1, Workloads(tmp_path))
    assert command.main(["show", "hf:*", "--data", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for cell in ("hf:gpt2_prefill_16  16", "5.00 GFLOP", "300 MB", "124 M", "hf:opt_prefill_16, batch 1, bf16: unsupp"):
        assert cell in printed
    assert "resnet18" not in printed
    assert command.main(["show", "hf:*", "--json", "--data", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)["counts"]
    assert [(row["model"], row["status"]) for row in found] == [
        ("hf:gpt2_prefill_16", "ok"), ("hf:opt_prefill_16", "unsupported"),
    ]  # fmt: skip
    assert command.main(["show", "hf:*", "--csv", "--data", str(tmp_path)]) == 2
    assert "only counted" in capsys.readouterr().err
    assert command.main(["show", "vit*", "--data", str(tmp_path)]) == 2
