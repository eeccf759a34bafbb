from measure.run.processes import oom_kills


def test_kills_for_memory_are_those_that_linux_counts(tmp_path):
    # Parts of what Linux 6.8 shows; its v1 control groups show the third.
    vmstat, events, control = (tmp_path / name for name in ("vmstat", "memory.events", "memory.oom_control"))
    vmstat.write_text("nr_free_pages 1043\noom_kill 3\nnuma_hit 7\n")
    events.write_text("low 0\nhigh 0\nmax 12\noom 5\noom_kill 2\noom_group_kill 1\n")
    control.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 4\n")
    counters = (vmstat, events, control)
    assert oom_kills(counters) == 3 + 2 + 4
    vmstat.write_text("nr_free_pages 1043\noom_kill 4\nnuma_hit 7\n")
    assert oom_kills(counters) == 4 + 2 + 4


def test_a_system_that_counts_none_has_none(tmp_path):
    old = tmp_path / "vmstat"
    old.write_text("nr_free_pages 1043\n")
    assert oom_kills((tmp_path / "none", old)) == 0
