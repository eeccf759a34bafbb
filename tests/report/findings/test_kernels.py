import pytest
from helpers.counted_papers import GAP, counted
from helpers.papers import tiny
from helpers.places import ROOT
from helpers.profiled_papers import profiled
from helpers.sentences import plain
from helpers.training_papers import trained

from report.findings import kernels
from report.load import paper

ALL = (
    kernels.spent,
    kernels.gaps,
    kernels.launched,
    kernels.waiting,
    kernels.counted,
    kernels.printed,
    kernels.candidates,
)


def test_where_the_time_goes():
    text = plain(kernels.spent(profiled()))
    # at batch size 8 lean alone: 8.3, 2.4 and 2.0 of 12.7 ms
    assert "goes to convolution in inference (74 % at batch size 1 and 65 % at batch size 8)." in text
    # zeta's 0.5 of 2.8 + 12.7 + 95.5 ms
    assert "The share that no rule matches is 0.45 %." in text
    assert "Every operator is matched by a rule." in text  # the GPU's


def test_gaps():
    text = plain(kernels.gaps(counted()))
    # The GPU's one cell: 0.1 of 2 ms under the profiler, 0.1 of 1.0 ms without.
    assert "the times of the groups sum to 5.0 % of a call under the profiler in the median of 1 cell;" in text
    assert "from 62 % in lean (inference at batch size 1) to 96 % in deep (inference at batch size 1)" in text
    assert "Of a call without the profiler no kernel runs in about 90 % in the median" in text


def test_kernels_and_their_names():
    text = plain(kernels.launched(counted()))
    assert "3 different kernels run; the longest is ampere_sgemm_128x64_nn, with 50 % of the time" in text
    # A product by its name, that one works for a convolution: 15 and 35 of 100 us are sorted the same way.
    assert "kernels with 50 % of the time would be in the groups of the operators that launch them" in text
    assert text.endswith("and with 0 % in none.")
    assert "--device cuda --sections workload operators` times them there" in kernels.launched(profiled())


def test_what_waits_for_memory():
    text = plain(kernels.waiting(profiled()))
    # The ridge point is at 10 FLOP/B; lean's convolution at 9.9 and its product at 4 lie below: 10.7 of 12.7 ms
    assert "84 % in lean (inference at 8)" in text
    # deep's convolution: 4900 MFLOP / 90 ms of 100 GFLOP/s; its product: 100 MFLOP / 2 ms
    assert "The fastest group is convolution in lean, at 86.7 GFLOP/s, 87 % of the peak." in text


def test_counters():
    text = plain(kernels.counted(counted()))
    # 12 of 4.504 MB and of 20 MB; 91 of 110 MFLOP
    assert "went 2.7 times the ideal bytes in the median, and 60 % of the unfused ones" in text
    assert "The FLOP counted are 82.7 % of those by formulas" in text
    assert f"The FLOP of tensor cores are not known, because {GAP}" in text


def test_printed_rows_that_contradict_the_others():
    text = plain(kernels.printed(counted()))
    assert text.startswith("The study prints 9 rows.")
    # 204.8 / 215.4 = 0.9508, where 0.9235 is printed: 3.0 % more
    assert "by at most 3.0 % (resnet50 on the NVIDIA L4)" in text
    # 1615 * 0.7590 = 1226, 204.8 * 0.9508 = 195 and 6570 * 0.1867 = 1227 GFLOP
    assert "that of resnet50 on the NVIDIA L4 comes to 195 GFLOP, where the median of the GPUs is 1.23 TFLOP" in text
    # 544.5 * 0.2204 = 120, 2224 * 0.1174 = 261 and 2094 * 0.0612 = 128 GFLOP
    assert "that of mobilenet_v3_large on the NVIDIA L4 comes to 261 GFLOP" in text
    assert text.endswith("these contradict the others.")


def test_exact_counts_stand_beside_what_the_study_implies():
    text = plain(kernels.candidates(paper.load(ROOT / "data")))
    assert "asks for 82.5 GFLOP (mobilenet_v3_large) to 1.68 TFLOP (vit_b_32), products alone" in text
    # 1.23 of ResNet-50's 64 * 3 * 8.18 GFLOP, less the first layer's; 128 of MobileNetV3's 82.5
    assert "the study's counters see 0.788 times to 1.55 times as many." in text
    # 128 GFLOP by the counters: 114 of MobileNetV2 are nearer than 82 of MobileNetV3-Large
    assert "Of the MobileNets, mobilenet_v2 is the nearer to the study's counters." in text


@pytest.mark.parametrize("made", [counted, trained])
def test_every_finding_is_whole_sentences(made):
    for finding in ALL:
        text = finding(made())
        assert text.endswith(".")
        assert not {"nan", "None", "inf"} & set(plain(text).replace(",", " ").replace(".", " ").split())


def test_without_operators_the_command_is_named():
    assert "--sections workload operators` profiles them" in kernels.spent(tiny())
