import sys

import pytest

from measure.errors import UserError, as_called, chosen, did_you_mean, in_short, one_line, unknown


class MuteError(Exception):
    def __str__(self):
        raise KeyError("no text")


def test_a_problem_in_short():
    for problem, text in (
        (ValueError("first line\nsecond line"), "ValueError: first line"),
        (RuntimeError("No kernel for 2.5 GB. Try another one."), "RuntimeError: No kernel for 2.5 GB"),
        (KeyError(), "KeyError: no message"),
        (MuteError(), "MuteError: its text cannot be read"),
        (ValueError("half a letter: \ud800"), "ValueError: half a letter: \N{REPLACEMENT CHARACTER}"),
    ):
        assert in_short(problem) == text


def test_any_text_is_one_line_that_tables_and_terminals_take():
    assert one_line("two\nlines\t and \N{LINE SEPARATOR}blanks ½") == "two lines and blanks ½"
    assert one_line("a \x1b[31mcolour\x00") == "a \N{REPLACEMENT CHARACTER}[31mcolour\N{REPLACEMENT CHARACTER}"
    assert (one_line("x" * 500), one_line("x" * 10_000_000)) == ("x" * 500, "x" * 499 + "…")


def test_only_a_name_that_is_very_like_is_suggested():
    # Likeness is twice the letters in common over all letters (Ratcliff and Obershelp, as difflib has it)
    for name, end in (
        ("Compere", "; did you mean compare?"),  # 6 of 7 letters in common: 12 / 14, whatever their case
        ("cuad", "; did you mean cuda?"),  # 3 of 4: 6 / 8
        ("gpu", ""),  # "pu" is in "cpu": 4 / 6, which is not sure enough
        ("", ""),
    ):
        assert did_you_mean(name, ["compare", "cpu", "cuda"]) == end


def test_a_complaint_lists_a_few_names_or_the_nearest():
    few, many = ["step", "inference"], ["fig-roofs", "fig-roof", "fig-on-roof", *(f"tbl-{n}" for n in range(13))]
    for name, known, said in (
        ("stop", few, "'stop' is not one of step, inference; did you mean step?"),
        ("nap", few, "'nap' is not one of step, inference"),
        # Letters in common with the 8 of "fig-rofs": 8 of 9, 7 of 8 and 7 of 11, which are 16/17, 14/16 and 14/19
        ("fig-rofs", many, "'fig-rofs' is not one of the 16; the nearest are fig-roofs, fig-roof, fig-on-roof"),
        ("step,inference", few, "'step,inference' is not one of the 2; write several with spaces: step inference"),
        ("none", many[:-1], f"'none' is not one of {', '.join(many[:-1])}"),
    ):
        assert str(unknown("--figures", name, known)) == f"--figures: {said}"
    assert chosen("MODEL", ["vgg*", "lean"], ["vgg11", "vgg16", "lean", "deep"]) == {"vgg11", "vgg16", "lean"}
    known = ["gpt2_decode_128", "gpt2_decode_512", "timm:vgg11", "vgg11"]
    assert chosen("MODEL", ["language:gpt2_*", "timm:*"], known) == set(known[:3])


def test_a_chip_may_be_named_without_its_maker_as_in_the_paper():
    known = ["NVIDIA GeForce RTX 4090", "NVIDIA B200 SXM", "NVIDIA GB200 SXM", "NVIDIA T400"]
    assert chosen("--chip", ["RTX 4090", "B200 SXM"], known) == set(known[:2])
    with pytest.raises(UserError, match="'T4' is not one of"):
        chosen("--chip", ["T4"], known)


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("/usr/bin/roofwright", "roofwright measure"),
        ("/clone/measure/__main__.py", "python -m measure"),
        ("", "python -m measure"),
    ],
)
def test_a_command_is_named_as_the_user_calls_it(monkeypatch, program, command):
    monkeypatch.setattr(sys, "argv", [program, "measure"])
    assert as_called("measure") == command
