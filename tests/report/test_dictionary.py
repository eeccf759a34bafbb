"""The committed descriptions of data and facts agree with the code; the package lists the existing tables."""

import json
import re
from pathlib import Path, PurePosixPath

import pytest
from helpers.places import ROOT
from helpers.world import WORLD

from report import dictionary, facts

DATA = ROOT / "data"
COMMITTED = json.loads((DATA / dictionary.DESCRIPTOR).read_text("utf-8"))
WRITE = "run python -m report.dictionary"


@pytest.mark.parametrize(("name", "text"), [("data", dictionary.text), ("facts", facts.dictionary)])
def test_the_committed_dictionaries_match_records_and_facts(name, text):
    assert (ROOT / "docs" / f"{name}.md").read_text("utf-8") == text(), WRITE


def test_the_committed_schemas_are_those_of_the_records():
    written = {path: text for path, text in dictionary.package_files(DATA).items() if path.parent.name == "schemas"}
    assert set((DATA / "schemas").iterdir()) == set(written), WRITE
    assert [path.name for path, text in written.items() if path.read_text("utf-8") != text] == [], WRITE


def test_the_committed_descriptor_is_that_of_its_tables():
    """A clone may hold machines that are not committed, so it goes by the tables that it names."""
    paths = [PurePosixPath(resource["path"]) for resource in COMMITTED["resources"]]
    assert dictionary.package(paths) == COMMITTED, WRITE
    assert [path for path in paths if not (DATA / path).is_file()] == [], WRITE
    assert {resource["schema"] for resource in COMMITTED["resources"]} <= {
        path.relative_to(DATA).as_posix() for path in (DATA / "schemas").iterdir()
    }


def test_every_table_of_a_cache_is_a_resource_with_its_own_name(tmp_path):
    own = tmp_path / "workload" / "own" / "models.csv"
    own.parent.mkdir(parents=True)
    own.touch()
    assert dictionary.tables_in(tmp_path) == []  # a user's own counts are not the project's
    found = dictionary.package(dictionary.tables_in(WORLD))["resources"]
    assert {resource["path"] for resource in found} == {
        path.relative_to(WORLD).as_posix() for path in WORLD.rglob("*.csv")
    }
    names = [resource["name"] for resource in found]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9._-]+", name) for name in names)  # as the standard has it


def test_frictionless_takes_the_committed_package():
    frictionless = pytest.importorskip("frictionless", reason="an independent reader of data packages")
    report = frictionless.validate(str(DATA / dictionary.DESCRIPTOR), type="package")
    assert report.flatten(["rowNumber", "fieldName", "note"]) == []


def test_duckdb_runs_the_statements_of_the_page(monkeypatch):
    duckdb = pytest.importorskip("duckdb", reason="what the page is about")
    monkeypatch.chdir(ROOT)
    with duckdb.connect() as connection:
        for block in re.findall(r"```sql\n(.*?)```", Path("docs/reading.md").read_text("utf-8"), re.DOTALL):
            rows = connection.execute(block).fetchall()
            assert len(rows) == 10 or block.startswith("CREATE")
