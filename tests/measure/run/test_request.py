"""Demands on a device that are refused before measuring; ``test_main`` and ``test_bad_inputs`` have the flags."""

from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT

from measure.errors import UserError
from measure.verbs.run_flags import make_request, parser

T4 = replace(ENVIRONMENT, device="cuda", name="Tesla T4", capability="7.5")
EMULATED = r"Tesla T4 has no units for bf16 \(compute capability 7\.5\); use fp32 or fp16"


@pytest.mark.parametrize(
    ("environment", "flags", "refused"),
    [
        # A GPU's emulated precision is refused, unless there is another.
        (T4, "--precisions bf16", EMULATED),
        (T4, "--precisions fp16 bf16", None),
        (replace(T4, capability=None), "--precisions bf16", None),  # torch knows more than this driver tells
        (ENVIRONMENT, "--precisions fp32 tf32", "tf32 is a format of NVIDIA's GPUs; leave it out"),
        (T4, "--variants autocast", None),  # a GPU computes in 16 bits anyway
        (ENVIRONMENT, "--variants autocast", "autocast casts to fp16 or bf16; give --precisions bf16"),
    ],
)
def test_a_request_that_no_cell_could_run_is_refused(environment, flags, refused):
    request = make_request(parser().parse_args(["--models", "vgg11", *flags.split()]))
    if refused is None:
        request.check_device(environment)
    else:
        with pytest.raises(UserError, match=f"^--(precisions|variants): {refused}"):
            request.check_device(environment)
