from measure.diagnosis.finding import OK, PROBLEM, WARNING
from measure.diagnosis.tuning_checks import tuning_findings


def test_an_untuned_machine_is_well():
    (finding,) = tuning_findings({"PATH": "/bin"})
    assert (finding.level, finding.subject) == (OK, "tuning")


def test_what_is_set_is_a_warning_that_names_it():
    (finding,) = tuning_findings({"OMP_PROC_BIND": "close", "ATEN_CPU_CAPABILITY": "avx2"})
    assert finding.level == WARNING
    assert finding.fact.endswith("ATEN_CPU_CAPABILITY=avx2, OMP_PROC_BIND=close")


def test_what_decides_over_precisions_is_a_problem_beside_the_rest():
    problem, rest = tuning_findings({"NVIDIA_TF32_OVERRIDE": "0"})
    assert problem.level == PROBLEM
    assert problem.advice == "unset it"
    assert rest.level == OK
