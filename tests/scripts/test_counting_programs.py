"""The table that the script prints when it has counted."""

import counting_programs

from measure.domain.workload_records import ProgramCount


def row(program, model, **changes):
    cells = {"environment_id": "0", "program": program, "version": None, "model": model, "family": "alexnet"}
    published = {"input_shape": "3x8x8", "published_parameter_count": 10, "published_mac": 2_000_000}
    counted = {"status": "ok", "reason": None, "parameter_count": 10, "forward_mac": 2_000_000}
    costs = {"build_s": 1.0, "count_s": 0.25, "peak_byte": 10**9}
    return ProgramCount(**cells | published | counted | costs | changes)


def test_a_program_shows_summed_times_and_its_peak(capsys):
    ours = [row("roofwright", "a"), row("roofwright", "b", peak_byte=3 * 10**9)]
    failed = row("fvcore", "a", status="error", reason="no", parameter_count=None, forward_mac=None)
    counting_programs.show_scores([*ours, failed, row("fvcore", "b", count_s=1.0)])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    # 2 x 0.25 s, and 2 x 1 s more to build
    assert lines[1] == "roofwright 2 of 2 2 2 0 0.50 s 2.50 s 3.00 GB"
    assert lines[-1] == "peak memory of that 3.00 GB, ABOVE 2 GB"
