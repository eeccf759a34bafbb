"""The chapter on remedies, and the cells behind its advice and the findings, from the rules of the world."""

import pytest
from helpers.world import CPU, GPU, mutated, numbers, world, wrong

from report import display, facts
from report.chapters.remedies import tables
from report.stats.value import NOTHING, Value


def test_facts_by_hand():
    # Llama: 2.4 GB and 20.256 MB a sequence
    decoding = {"decode": 2500 / 2420.256, "decode_batch": 8, "decode_batched": 8 * 2500 / (2400 + 8 * 20.256)}
    others = {"layout": 1.1, "layout_device": "Bead 2", "layout_other": None, "threshold": 0.2, "decode_small": None}
    assert wrong("remedies", world(), decoding | others) == {}


def test_a_small_model_is_decoded_at_the_same_batch_size(tmp_path):
    """GPT-2 has the counts of lean: 8 times 100 MFLOP, 2 MB of parameters, 0.25 MB and 2 kB a sequence."""

    def rename(row):
        is_lean = (row["model"], row["input_shape"], row["autocast"]) == ("lean", "3x224x224", "")
        return row | {"model": "gpt2_decode_512"} if is_lean and row["precision"] == "bf16" else row

    paper = world(mutated(tmp_path / "world", {"workload/models.csv": rename}))
    assert wrong("remedies", paper, {"decode_small": 800 / (2 + 8 * 0.252)}) == {}


def test_cells_of_a_loaded_machine_enter_no_finding(tmp_path):
    def disturb(row):
        is_disturbed = row["phase"] == "inference" and row["variant"] == "eager"
        return row | ({"flags": "loaded"} if is_disturbed else {})

    undisturbed, disturbed = world(), world(mutated(tmp_path / "world", {f"machines/{CPU}/runs.csv": disturb}), (CPU,))
    vars(disturbed)["reference"] = vars(disturbed.undisturbed)["reference"] = undisturbed.reference
    cpu = disturbed.machine("cpu")
    assert numbers("machine", disturbed)["at_hand.loaded"] == len(cpu.cells) > 0
    assert numbers("machine", undisturbed)["at_hand.loaded"] is None
    # A gain of keeping memory rests on eager mode as well
    found = facts.of_paper(disturbed)
    for key in ("gains.kept", "gains.batch", "processor.networks"):
        assert None not in (numbers("utilisation", undisturbed)[key], found[f"utilisation.{key}"]["value"])
        assert found[f"undisturbed.utilisation.{key}"]["value"] is None
    assert len(disturbed.undisturbed.machine("cpu").steps) == len(cpu.steps)
    assert disturbed.undisturbed.machine("cpu").profiles.equals(cpu.profiles)
    assert facts.of_paper(undisturbed).keys() == {key for key in found if not key.startswith("undisturbed.")}


def test_a_profile_of_a_loaded_machine_enters_no_finding(tmp_path):
    table = f"machines/{CPU}/profiles.csv"
    rows = mutated(tmp_path / "world", {table: lambda row: row | {"load": "0.1" if row["phase"] == "step" else "0.09"}})
    cpu = world(rows, (CPU,)).undisturbed.machine("cpu")
    assert set(cpu.profiles.phase) == {"inference"}


def test_a_gain_is_a_median_or_two_ends_and_says_where():
    median, least, most = Value(1.5, low=1.4, high=1.6), Value(2.0), Value(30.0)
    assert tables.gain(median, at="batch 64") == r"1\.50 \(1\.40–1\.60\), batch 64"
    assert tables.gain(least, most) == r"2\.00 to 30\.0"
    assert tables.gain(least, NOTHING, at="batch 64") == ""


def test_only_remedies_with_a_gain_are_listed():
    found = {"graph": ("", "2"), "fused": ("", ""), "batch": ("1", "")}
    words = {"graph": ("idle", "graph"), "fused": ("slow", "fuse"), "batch": ("small", "batch")}
    shown = tables._with_gains("Symptom | Remedy | CPU > | GPU >", words, found)
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()[2:]]
    assert cells == [["idle", "graph", "–", "2"], ["small", "batch", "1", "–"]]
    with pytest.raises(display.Missing):
        tables._with_gains("Symptom | Remedy | CPU > | GPU >", {"fused": words["fused"]}, found)


def test_a_gpu_at_hand_has_no_gains_of_a_processor():
    assert not facts.of_chapter("remedies", world()).on_gpu
    assert facts.of_chapter("remedies", world(chosen=(GPU,))).on_gpu


def test_a_gain_has_at_most_three_digits():
    assert tables.gain(Value(1.588, low=1.5685, high=1.6171)) == r"1\.59 \(1\.57–1\.62\)"
    assert tables.gain(Value(1.5, low=1.41, high=2.13)) == r"1\.5 \(1\.4–2\.1\)"
