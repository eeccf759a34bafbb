"""Kernels' names, as the committed profiles and traces hold them."""

import csv
from collections import defaultdict

import pytest
from helpers.places import ROOT

from measure.domain.kernel_names import algorithm_of, is_conversion


@pytest.mark.parametrize(
    ("kernel", "converts", "algorithm"),
    [
        ("void cudnn::engines_precompiled::nchwToNhwcKernel<float, float, float, false, true>(...)", True, None),
        ("void cudnn::ops::nhwcToNchwKernel<__half, __half, float, true, false>(...)", True, None),
        ("void nhwcAddPaddingKernel<__half, float, true>(int, int)", True, None),
        ("batched_transpose_32x32_half", True, None),
        ("transpose_CNHW2NCHW_V2_2D_WG_off64", True, None),
        # The layouts that a product of matrices works on are no conversion, nor is another type,
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize128x32x8", False, None),
        ("cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_nhwc_align8", False, None),
        ("void cudnn::engines_precompiled::convertTensor_kernel<float, __nv_bfloat16, float>(...)", False, None),
        # nor a scaling whose argument speaks of a transposition.
        ("void scal_kernel<float, float, 1, true, 6, 5, 5, 3>(cublasTransposeParams<float>)", False, None),
        ("sm80_xmma_gemm_cf32cf32_f32f32_cf32_tn_n_tilesize64x64x8_stage3", False, "FFT"),
        ("void fft2d_r2c_32x32<float, false, 0u, false>(float2*)", False, "FFT"),
        ("void flip_filter<float, float>(float*, float const*, int)", False, "FFT"),
        ("void cudnn::winograd_nonfused::winogradWgradData4x4<float, float>(...)", False, "Winograd"),
        ("miopenSp3AsmConv_v21_1_3_gfx9_fp32_f2x3_stride1", False, "Winograd"),
        ("void at::native::diffTensor(float)", False, None),
        ("", False, None), (None, False, None),
    ],
)  # fmt: skip
def test_a_name_tells_conversions_and_algorithms(kernel, converts, algorithm):
    assert (is_conversion(kernel), algorithm_of(kernel)) == (converts, algorithm)


def test_a_quarter_of_resnets_time_at_bf16_is_conversion():
    """27 % by an audit of the same rows with code of its own; at fp32 less than 1 %."""
    times = defaultdict(lambda: [0.0, 0.0])
    with (ROOT / "data" / "machines" / "nvidia-h100-80gb-hbm3-69d5" / "kernels.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["phase"] == "inference" and row["model"] == "resnet18":
                times[row["precision"]][is_conversion(row["kernel"])] += float(row["time_s"])
    shares = {precision: converting / (converting + other) for precision, (other, converting) in times.items()}
    assert shares["bf16"] == pytest.approx(0.27, abs=0.005)
    assert shares["fp32"] < 0.01
