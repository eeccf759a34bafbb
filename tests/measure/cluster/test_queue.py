from measure.cluster.queue import Queue


def test_stations_take_turns_and_no_task_is_handed_out_twice():
    queue = Queue(["a", "b", "c"])
    one, other = iter(queue), iter(queue)
    assert [next(one), next(other), next(one), next(other, None)] == ["a", "b", "c", None]
    assert len(queue) == 0


def test_what_was_not_done_comes_first():
    queue = Queue(["a", "b", "c"])
    station = iter(queue)
    next(station)
    queue.put_back("a")
    assert list(queue) == ["a", "b", "c"]


def test_the_second_node_that_a_task_loses_is_one_too_many():
    queue = Queue([])
    assert [queue.is_deadly("a"), queue.is_deadly("b"), queue.is_deadly("a")] == [False, False, True]
