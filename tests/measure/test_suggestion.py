import pytest

from measure.errors import UserError, chosen, did_you_mean, nearest, unknown

# Likeness is twice the letters in common over all letters (Ratcliff and Obershelp, as difflib has it).


def test_the_likest_known_names_come_first_whatever_their_case():
    # Of 6 + 7 letters "cuad:0x" ... by hand: vgg16 shares 5 of 5 + 5, vgg11 4 of 10, alexnet none in order but "g"s.
    assert nearest("VGG16", ["alexnet", "vgg11", "vgg16", "vgg19"]) == ["vgg16", "vgg19", "vgg11"]
    assert nearest("xyzzy", ["alexnet", "vgg11"]) == []


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("compere", "; did you mean compare?"),  # 6 of 7 letters in common: 12 / 14
        ("cuad", "; did you mean cuda?"),  # 3 of 4: 6 / 8
        ("gpu", ""),  # "pu" is in "cpu": 4 / 6, which is not sure enough
        ("", ""),
    ],
)
def test_only_a_name_that_is_very_like_is_suggested(name, end):
    assert did_you_mean(name, ["compare", "cpu", "cuda"]) == end


def test_a_complaint_lists_the_few_that_are_known():
    assert str(unknown("--phase", "stop", ["step", "inference"])) == (
        "--phase: 'stop' is not one of step, inference; did you mean step?"
    )
    assert str(unknown("--phase", "nap", ["step", "inference"])).endswith("is not one of step, inference")


def test_of_many_known_names_the_nearest_are_told():
    known = ["fig-roofs", "fig-roof", "fig-on-roof", *(f"tbl-{number}" for number in range(13))]
    # Letters in common with the 8 of "fig-rofs": 8 of 9, 7 of 8 and 7 of 11, which are 16/17, 14/16 and 14/19.
    assert str(unknown("--figures", "fig-rofs", known)) == (
        "--figures: 'fig-rofs' is not one of the 16; the nearest are fig-roofs, fig-roof, fig-on-roof"
    )
    few = known[:-1]
    assert "is not one of fig-roofs, fig-roof, fig-on-roof, tbl-0, " in str(unknown("--figures", "fig-rofs", few))


def test_names_and_globs_mean_what_is_known():
    assert chosen("MODEL", ["vgg*", "lean"], ["vgg11", "vgg16", "lean", "deep"]) == {"vgg11", "vgg16", "lean"}
    assert chosen("MODEL", [], ["lean"]) == set()
    with pytest.raises(UserError, match="MODEL: 'gone' is not one of deep, lean"):
        chosen("MODEL", ["lean", "gone"], ["lean", "deep"])
