import pytest

from measure.machine.visible import chosen

BY_UUID = {"GPU-ab1": "first", "GPU-ab2": "second", "GPU-c": "third"}


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("", []),
        ("1", ["second"]),
        (" 2 , 0", ["third", "first"]),
        ("GPU-c,GPU-ab2", ["third", "second"]),
        ("0,GPU-ab,2", ["first"]),  # two begin so
        ("0,3,1", ["first"]),
        ("0,x,1", ["first"]),
    ],
)
def test_gpus_are_chosen_up_to_the_first_invalid_name(visible, found):
    assert chosen(visible, ["first", "second", "third"], BY_UUID) == found
