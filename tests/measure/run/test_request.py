"""What is asked of a device, before anything is measured; ``test_main`` and ``test_bad_inputs`` have the flags."""

from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT

from measure.errors import UserError
from measure.verbs.measure import make_request, parser

T4 = replace(ENVIRONMENT, device="cuda", name="Tesla T4", capability="7.5")
A100 = replace(ENVIRONMENT, device="cuda", name="NVIDIA A100-SXM4-40GB", capability="8.0")


def check(environment, *arguments, sections=("inference",)):
    asked = ["--models", "vgg11", "--sections", *sections, *arguments]
    make_request(parser().parse_args(asked)).check_device(environment)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["bf16"], r"^--precisions: Tesla T4 has no units for bf16 \(compute capability 7\.5\); use fp32 or fp16$"),
        (["bf16", "tf32"], r"^--precisions: Tesla T4 has no units for tf32 and bf16 \("),
    ],
)
@pytest.mark.parametrize("section", ["inference", "roofs"])
def test_what_a_gpu_would_emulate_is_refused_where_nothing_else_is_asked_for(asked, words, section):
    with pytest.raises(UserError, match=words):
        check(T4, "--precisions", *asked, sections=[section])


def test_what_a_gpu_would_emulate_is_no_reason_to_leave_out_the_rest():
    check(T4)
    check(T4, "--precisions", "fp16", "bf16")
    check(A100, "--precisions", "bf16", "tf32")
    check(replace(T4, capability=None), "--precisions", "bf16")  # torch knows more than this driver tells


def test_tf32_is_a_gpus():
    with pytest.raises(UserError, match=r"^--precisions: tf32 is a format of NVIDIA's GPUs; leave"):
        check(ENVIRONMENT, "--precisions", "fp32", "tf32")


def test_autocast_needs_16_bits_which_a_gpu_is_asked_for_anyway():
    for gpu in (T4, A100):
        check(gpu, "--variants", "autocast")
    with pytest.raises(UserError, match=r"^--variants: autocast casts to fp16 or bf16; give --precisions bf16"):
        check(ENVIRONMENT, "--variants", "autocast")
