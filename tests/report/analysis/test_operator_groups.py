import pandas as pd
import pytest
from helpers.places import ROOT

from measure.cache.table import read
from measure.cache.workload_records import Operator
from measure.domain.words import LAYER_KINDS
from report.analysis.operator_groups import (
    GROUPS,
    KERNEL_RULES,
    OTHER,
    RULES,
    group_of,
    group_of_kernel,
    grouped,
    kinds_of,
)
from report.charts import theme

LEAST_MATCHED = 0.98
"""The share of the calls, and of the bytes, of all counted operators that a rule matches."""


@pytest.mark.parametrize(
    ("operator", "kind", "stage", "group"),
    [
        # as counted, and as a profile shows it
        ("convolution", "convolution", "inference", "convolution"),
        ("conv2d", "convolution", "inference", "convolution"),
        ("conv1d", "", "inference", "convolution"),
        ("conv2d", "depthwise convolution", "forward", "depthwise convolution"),
        ("convolution_backward", "depthwise convolution", "backward", "depthwise convolution"),
        ("convolution_backward", "convolution", "backward", "convolution, both gradients"),
        ("cudnn_convolution_backward_input", "", "backward", "convolution, data gradient"),
        ("cudnn_convolution_backward_weight", "", "backward", "convolution, weight gradient"),
        ("addmm", "linear", "inference", "matrix product"),
        ("linear", "linear", "inference", "matrix product"),
        ("mm", "linear", "backward", "matrix product"),
        ("addmm", "attention", "inference", "attention"),
        ("_native_multi_head_attention", "attention", "inference", "attention"),
        ("_scaled_dot_product_flash_attention_for_cpu", "", "inference", "attention"),
        ("_transformer_encoder_layer_fwd", "other", "inference", "attention"),
        ("native_batch_norm", "normalisation", "inference", "batch norm"),
        ("batch_norm", "normalisation", "inference", "batch norm"),
        ("native_batch_norm_backward", "normalisation", "backward", "batch norm, backward"),
        ("layer_norm", "normalisation", "inference", "layer norm"),
        ("native_layer_norm_backward", "normalisation", "backward", "layer norm"),
        ("relu_", "activation", "inference", "elementwise"),
        ("threshold_backward", "activation", "backward", "elementwise"),
        ("add_", "other", "inference", "elementwise"),
        ("upsample_bilinear2d", "other", "inference", "elementwise"),
        ("native_dropout", "other", "forward", "elementwise"),
        ("mean", "pooling", "inference", "pooling"),
        ("mean", "other", "inference", "reduction"),
        ("max_pool2d_with_indices_backward", "", "backward", "pooling"),
        ("_softmax", "other", "inference", "reduction"),
        ("cat", "other", "inference", "memory copy and set"),
        ("_to_copy", "other", "inference", "memory copy and set"),
        ("constant_pad_nd", "other", "inference", "memory copy and set"),
        ("zero_", "other", "backward", "memory copy and set"),
        ("_convert_indices_from_coo_to_csr", "other", "inference", "other"),
        ("add_", "", "update", "optimiser"),
        ("special_zeta", "other", "inference", "other"),
    ],
)
def test_groups(operator, kind, stage, group):
    assert group_of(operator, kind, stage) == group


def test_every_group_can_be_reached_and_drawn():
    assert {rule.group for rule in RULES} | {OTHER} == set(GROUPS) == set(theme.GROUP_COLORS)
    assert {rule.group for rule in KERNEL_RULES} <= set(GROUPS)
    assert {kind for rule in RULES for kind in rule.kinds} <= set(LAYER_KINDS)


def test_kinds_come_from_the_layers():
    layers = pd.DataFrame({"model": ["net", "net"], "path": ["a", "a"], "layer_kind": ["linear", "linear"]})
    times = pd.DataFrame({"model": ["net", "net", "web"], "path": ["a", None, "a"]})
    assert kinds_of(times, layers) == ["linear", "", ""]


def test_the_rules_know_what_the_models_call():
    path = ROOT / "data" / "workload" / "operators.csv"
    rows = pd.DataFrame(map(vars, read(path, Operator)))
    groups = pd.Series(grouped(rows, rows.layer_kind))
    for weight in (rows.calls, rows.calls * rows.byte):
        assert weight[groups != OTHER].sum() >= LEAST_MATCHED * weight.sum(), set(rows.operator[groups == OTHER])


AT = "void at::native::"


@pytest.mark.parametrize(
    ("kernel", "group"),
    [
        # names as profilers print them, from public traces of PyTorch and TensorFlow
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_execute_kernel_cudnn",
         "convolution"),
        ("void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc_align4>(",
         "convolution"),
        ("void cudnn::detail::implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, true, false, false>(int",
         "convolution"),
        ("volta_scudnn_128x32_relu_medium_nn_v1", "convolution"),
        ("maxwell_scudnn_winograd_128x128_ldg1_ldg4_relu_tile418n_nt", "convolution"),
        ("sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16_stage4_warpsize2x2x1",
         "convolution, data gradient"),
        ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)", "convolution, data gradient"),
        ("void cudnn::cnn::wgrad_alg0_engine<float, 128, 5, 5, 3, 3, 3, false, 512>(int, int, int, float const*",
         "convolution, weight gradient"),
        (f"{AT}(anonymous namespace)::conv_depthwise2d_grad_weight_kernel<float, unsigned int>(at::Generic",
         "depthwise convolution"),
        ("void cudnn::cnn::conv2d_grouped_direct_kernel<false, true, false, false, 0, 0, int, float, float>(",
         "depthwise convolution"),
        ("cudnn::cnn::wgrad2d_grouped_direct_kernel", "depthwise convolution"),
        ("ampere_sgemm_128x64_nt", "matrix product"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt>(", "matrix product"),
        ("void splitKreduce_kernel<__half, __half, float, __half, true, false>(cublasSplitKParams<float>)",
         "matrix product"),
        ("ampere_fp16_s16816gemm_fp16_256x128_ldg8_f2f_stages_32x3_nn", "matrix product"),
        ("fmha_cutlassB_f32_aligned_64x64_k32_sm80(PyTorchMemEffAttention::AttentionBackwardKernel<float>::Params)",
         "attention"),
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >(",
         "attention"),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float, float, float, float, cudnn",
         "batch norm, backward"),
        ("void cudnn::batchnorm_bwtr_nhwc_semiPersist<__half, __half>(", "batch norm, backward"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<__half, float, 512, true, 1, true>(cudnnTensorStruct", "batch norm"),
        (f"{AT}batch_norm_transform_input_kernel<float, float, float, true, int>(", "batch norm"),
        (f"{AT}(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float", "layer norm"),
        (f"{AT}(anonymous namespace)::layer_norm_grad_input_kernel<float, float>(float const*)", "layer norm"),
        (f"{AT}vectorized_elementwise_kernel<4, {AT}BinaryFunctor<float, float, float>, std::array<char*, 3ul> >(",
         "elementwise"),
        (f"{AT}vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >(int",
         "memory copy and set"),
        (f"{AT}elementwise_kernel<128, 2, {AT}gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(",
         "memory copy and set"),
        ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>(",
         "memory copy and set"),
        ("Memcpy DtoD (Device -> Device)", "memory copy and set"),
        ("[CUDA memset]", "memory copy and set"),
        (f"{AT}(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const*", "pooling"),
        (f"{AT}reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float> > >(",
         "reduction"),
        ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*", "reduction"),
        (f"{AT}(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::TensorList",
         "optimiser"),
        ("q5_kernel", "other"),
    ],
)  # fmt: skip
def test_kernels_of_which_only_the_name_is_known(kernel, group):
    assert group_of_kernel(kernel) == group
