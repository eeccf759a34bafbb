import recompute
from helpers.places import ROOT
from recomputing.text import Held

AGREES, DIFFERS = Held("2", "2", True), Held("3", "4", False)
MISSING, GIVEN = Held("5 of 6", "", False), Held("21 causes", "a judgement", True, given=True)


def test_the_verdict_counts_what_was_recomputed():
    assert recompute.verdict([AGREES, AGREES], 1) == "2 numbers in 1 sentences recomputed, all agree"
    assert recompute.verdict([AGREES, DIFFERS, MISSING, GIVEN], 3) == (
        "2 numbers in 3 sentences recomputed, 1 differ; 1 NOT RECOMPUTED; 1 taken as given"
    )


def test_a_sentence_is_shown_with_what_is_wrong_in_it(capsys):
    recompute.show("Abstract", "We count 3 models.", [AGREES, DIFFERS, MISSING, GIVEN])
    recompute.show("Abstract", "We count 2 models.", [AGREES])
    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()] == [
        "Abstract DIFFERS 2 We count 3 models.",
        "printed 3, recomputed 4",
        "NOT RECOMPUTED: 5 of 6",
        "taken as given: 21 causes (a judgement)",
        "Abstract agrees 1 We count 2 models.",
    ]


def test_it_shares_no_code_with_the_paper():
    files = [ROOT / "benchmarks" / "recompute.py", *(ROOT / "benchmarks" / "recomputing").glob("*.py")]
    imports = [line for file in files for line in file.read_text("utf-8").splitlines() if "import " in line]
    assert not [line for line in imports if "report" in line.split()[1] or "measure" in line.split()[1]]


def test_every_number_of_the_committed_papers_abstract_and_conclusions_is_recomputed(site, capsys):
    status = recompute.main(["--html", str(site / "index.html")])
    assert status == 0, capsys.readouterr().out
