"""A user has counts of formulas that have been corrected since."""

from dataclasses import replace

import pytest

from measure import __main__ as command
from measure.cache.folders import Workloads
from measure.counting import count
from measure.domain.workload_records import Workload

WORDS = "--device cpu --threads 1 --models alexnet --batch-sizes 1 --variants eager --sections workload"


@pytest.mark.usefixtures("forked_workers")
def test_counts_by_other_formulas_are_counted_again_once(tmp_path, capsys):
    workloads = Workloads(tmp_path)
    assert command.main([*WORDS.split(), "--data", str(tmp_path)]) == 0
    (row,) = workloads.rows(Workload)
    assert row.counting == count.VERSION
    key = {name: getattr(row, name) for name in ("model", "input_shape", "batch", "precision", "autocast")}
    failed = Workload(**key, source=row.source, family=row.family, status="unsupported", reason="?", counting=0)
    for old in (replace(row, forward_flop=1, counting=count.VERSION - 1), failed):
        workloads.put([(old, [], [])])
        capsys.readouterr()
        assert command.main([*WORDS.split(), "--data", str(tmp_path)]) == 0
        assert "1 done" in capsys.readouterr().out
        assert workloads.rows(Workload) == [row]
    assert command.main([*WORDS.split(), "--data", str(tmp_path)]) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
