import threading

import pytest

from measure.roofs.processor_kernels import Team


def test_each_member_does_the_work_of_its_number_at_the_same_time():
    together = threading.Barrier(3, timeout=10)  # breaks unless all three wait at once

    def work(number):
        together.wait()
        return number, threading.get_ident()

    team = Team(3)
    first, second = team.run(work), team.run(work)
    assert [number for number, _ in first] == [0, 1, 2]
    assert len({thread for _, thread in first}) == 3
    assert second == first  # the same threads with the same numbers


def test_what_a_member_raises_is_raised():
    def work(number):
        if number == 1:
            raise MemoryError("full")

    with pytest.raises(MemoryError, match="full"):
        Team(2).run(work)


@pytest.mark.parametrize(
    ("threads", "count", "parts"), [(1, 5, [5]), (2, 5, [2, 3]), (3, 10, [3, 3, 4]), (4, 2, [0, 1, 0, 1])]
)
def test_parts_are_as_equal_as_can_be(threads, count, parts):
    assert Team(threads).parts(count) == parts
