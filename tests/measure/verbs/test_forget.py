from pathlib import Path

import pytest
from helpers.rows import ENVIRONMENT, layer, operator, operator_time, profile, run, samples, workload

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads
from measure.domain.records import OperatorTime, Profile, Run, Sample
from measure.domain.workload_records import Layer, Operator, Workload

CACHE, MODELS = Path("cache"), {"lean", "deep", "mine:net"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Two machines that ran ``lean`` and ``deep``, with the counts of both."""
    monkeypatch.chdir(tmp_path)
    for name in ("box", "rack"):
        folder = MachineFolder(CACHE, name)
        folder.put_environment(ENVIRONMENT)
        for model in ("lean", "deep"):
            for number in range(2):
                folder.put_run(run(model, round_=number), samples(2, model, round_=number))
            folder.put_profile(profile(model), [operator_time(model)])
    Workloads(CACHE).put([(workload(model), [layer(model)], [operator(model)]) for model in MODELS])


def left(tables, *records):
    """The models in each of the tables: the same in all."""
    (models,) = {frozenset(row.model for row in tables.rows(record)) for record in records}
    return set(models)


def test_what_is_left_and_what_goes_is_listed_before_and_after(golden, capsys):
    for words, on_box, on_rack, counted in (
        ("lean --plan", {"lean", "deep"}, {"lean", "deep"}, MODELS),
        ("deep --machine box", {"lean"}, {"lean", "deep"}, MODELS),  # only the measurements there
        ("lean", set(), {"deep"}, {"deep", "mine:net"}),
        ("mine:* d*p", set(), set(), set()),
    ):
        assert command.main(["forget", *words.split(), "--data", "cache"]) == 0
        for name, models in (("box", on_box), ("rack", on_rack)):
            assert left(MachineFolder(CACHE, name), Run, Sample, Profile, OperatorTime) == models
        assert left(Workloads(CACHE), Workload, Layer, Operator) == counted
    golden("forget", capsys.readouterr().out)
