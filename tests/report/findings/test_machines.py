from dataclasses import replace

from helpers.papers import tiny
from helpers.sentences import plain
from helpers.timed_papers import timed, timing

from report.analysis.available import Missing
from report.findings import machines
from report.text.prose import Markup


def unescaped(text):
    return plain(text.replace("\\", ""))


def test_the_gpu_that_others_timed_is_named_with_its_source_and_conditions():
    text = machines.timed_by_others(timed())
    assert isinstance(text, Markup)
    assert unescaped(text) == (
        "In place of a GPU of ours figures show the Bead 2 as others timed it [@lamikr_benchmark], with open squares, "
        "under the dashed roof of its datasheet. Of the GPUs that others timed at fp32 in eager mode none ran more of "
        "the models here: 2, at batch size 4. The copy of the input to the GPU is within these times, and in none of "
        "ours. Figures that need an interval, a measured roof or the times of operators leave it out."
    )


def test_several_sources_are_all_cited_and_a_copy_is_told_of_only_where_it_was_timed():
    text = machines.timed_by_others(timed(timing(source="timm_results;lamikr_benchmark", input_copied="no")))
    assert "[@timm_results; @lamikr_benchmark], with" in text
    assert "copy" not in text


def test_names_of_a_table_are_text():
    chips = tiny().chips
    named = replace(tiny(), chips=chips.assign(chip=chips.chip.replace("Bead 2", "Bead *2* [@x]")))
    text = machines.timed_by_others(timed(timing(device="Bead *2* [@x]"), paper=named))
    assert r"Bead \*2\* \[\@x\] as others" in text


def test_a_gpu_that_was_measured_takes_its_place():
    text = machines.timed_by_others(replace(timed(), machines=tiny().machines))
    assert text == "No GPU that others timed stands in for the Example GPU, which was measured here."


def test_without_one_the_command_that_adds_times_is_said():
    text = machines.timed_by_others(replace(tiny(), machines=tiny().machines[:1]))
    assert isinstance(text, Missing)
    assert "`python -m measure add-published FILE" in text
