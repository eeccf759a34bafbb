import pytest
from helpers.rows import ENVIRONMENT, layer, operator, operator_time, profile, run, samples, workload

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import OperatorTime, Profile, Run, Sample
from measure.cache.workload_records import Layer, Operator, Workload


@pytest.fixture
def data(tmp_path):
    """Two machines that ran ``lean`` and ``deep``, whose counts are there."""
    for name in ("box", "rack"):
        folder = MachineFolder(tmp_path, name)
        folder.put_environment(ENVIRONMENT)
        for model in ("lean", "deep"):
            for number in range(2):
                folder.put_run(run(model, round_=number), samples(2, model, round_=number))
            folder.put_profile(profile(model), [operator_time(model)])
    counted = [(workload(model), [layer(model)], [operator(model)]) for model in ("lean", "deep", "mine:net")]
    Workloads(tmp_path).put(counted)
    return tmp_path


def call(data, *arguments):
    return command.main(["forget", *arguments, "--data", str(data)])


def left(data, name):
    """The models in each table of a machine."""
    folder = MachineFolder(data, name)
    tables = (folder.rows(Run), folder.rows(Sample), folder.rows(Profile), folder.rows(OperatorTime))
    return [{row.model for row in rows} for rows in tables]


def counted(data):
    tables = Workloads(data)
    return [{row.model for row in rows} for rows in (tables.rows(Workload), tables.rows(Layer), tables.rows(Operator))]


def test_a_model_goes_everywhere(data, capsys):
    assert call(data, "lean") == 0
    assert left(data, "box") == left(data, "rack") == [{"deep"}] * 4
    assert counted(data) == [{"deep", "mine:net"}] * 3
    assert "lean" not in (data / "machines/box/samples.csv").read_text()
    assert "lean" not in (data / "workload/layers.csv").read_text()
    assert capsys.readouterr().out.splitlines() == [
        f"{data}/machines/box: rounds: 2, profiles: 1",
        f"{data}/machines/rack: rounds: 2, profiles: 1",
        f"{data}/workload: counts: 1",
        "Forgot lean",
    ]


def test_on_one_machine_only_what_was_measured_there_goes(data):
    assert call(data, "lean", "--machine", "box") == 0
    assert left(data, "box") == [{"deep"}] * 4
    assert left(data, "rack") == [{"lean", "deep"}] * 4
    assert counted(data) == [{"lean", "deep", "mine:net"}] * 3


def test_a_glob_means_all_that_it_fits(data):
    assert call(data, "mine:*", "d*p") == 0
    assert left(data, "box") == [{"lean"}] * 4
    assert counted(data) == [{"lean"}] * 3


def test_a_plan_removes_nothing(data, capsys):
    before = {path: path.read_bytes() for path in data.rglob("*.csv")}
    assert call(data, "lean", "--plan") == 0
    assert {path: path.read_bytes() for path in data.rglob("*.csv")} == before
    assert capsys.readouterr().out.splitlines()[-1] == "Would forget lean"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("leam",), "MODEL: 'leam' is not one of deep, lean, mine:net; did you mean lean?"),
        (("lean", "--machine", "bo"), "--machine: 'bo' is not one of box, rack; did you mean box?"),
        ((), "the following arguments are required: MODEL"),
    ],
)
def test_bad_input_removes_nothing(data, capsys, arguments, words):
    assert call(data, *arguments) == 2
    assert words in capsys.readouterr().err
    assert left(data, "box") == [{"lean", "deep"}] * 4
