"""What operators and kernels are grouped by: two tables of rules, each from specific ones to general ones.

An operator is known by torch's name of it and by the layer that calls it. The names are those of ``aten``, as counts on
the meta device and profiles have them. A forward pass shows a convolution as ``convolution`` in the one and as
``conv2d`` in the other, hence rules by parts of names.

A kernel on a GPU belongs to the group of the operator that launched it. Where that is not known, as in what hardware
counters say, its own name decides, which is less sure: whether an elementwise kernel is an activation's or the
optimiser's, it does not say.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import pandas as pd

from measure.domain.words import UPDATE

OTHER = "other"
"""What no rule matches."""


@dataclass(frozen=True)
class Rule:
    """Operators in whose names ``name`` (a regular expression) is found, in these layers and stages; empty: in any."""

    group: str
    name: str = ""
    kinds: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()

    def fits(self, operator: str, kind: str, stage: str) -> bool:
        return (
            (not self.kinds or kind in self.kinds)
            and (not self.stages or stage in self.stages)
            and bool(re.search(self.name, operator, re.IGNORECASE))
        )


def _whole(names: str) -> str:
    """Return the pattern of these names, in place or not, of any dimension, forward or backward, and no longer ones."""
    return rf"^_*({'|'.join(names.split())})(_?\dd)?_?(_?backward\d*)?$"


RULES = (
    Rule("optimiser", stages=(UPDATE,)),
    Rule("attention", kinds=("attention",)),
    Rule("attention", "attention|transformer_encoder_layer"),
    Rule("batch norm, backward", r"batch_?norm\w*backward"),
    Rule("batch norm", "batch_?norm"),
    Rule("layer norm", "(layer|group|instance)_?norm"),
    Rule("depthwise convolution", r"conv(olution|_|\d)", kinds=("depthwise convolution",)),
    Rule("convolution, data gradient", r"conv\w*backward_(input|data)|dgrad"),
    Rule("convolution, weight gradient", r"conv\w*backward_weight|wgrad"),
    Rule("convolution, both gradients", r"conv(olution|_|\d)\w*backward"),
    Rule("convolution", r"conv(olution|_|\d)"),
    Rule("pooling", kinds=("pooling",)),
    Rule("pooling", "pool"),
    Rule("matrix product", "(^|_)linear"),
    Rule("matrix product", _whole("mm addmm bmm baddbmm matmul mv addmv dot vdot inner einsum scaled_mm bilinear")),
    Rule("memory copy and set", r"copy|memcpy|memset|contiguous|embedding|(^|_)pad(_|$|\d)|shuffle"),
    Rule(
        "memory copy and set",
        _whole(
            "clone to cat concat stack split split_with_sizes chunk unbind roll flip repeat repeat_interleave "
            "index index_select index_put gather scatter scatter_add take zero zeros zeros_like ones ones_like full "
            "full_like fill empty empty_like empty_strided new_zeros new_ones new_empty new_full arange resize view "
            "reshape flatten unflatten permute transpose t expand expand_as slice select narrow squeeze unsqueeze "
            "unfold as_strided movedim detach alias type_as"
        ),
    ),
    Rule(
        "reduction",
        _whole(
            "sum mean var std var_mean std_mean prod max min amax amin argmax argmin any all norm linalg_vector_norm "
            "weight_norm weight_norm_interface softmax log_softmax softmax_backward_data log_softmax_backward_data "
            "logsumexp cumsum nll_loss nll_loss_nd nll_loss_forward cross_entropy_loss mse_loss topk sort"
        ),
    ),
    Rule("elementwise", kinds=("activation",)),
    Rule("elementwise", "upsample|interpolate|dropout"),
    Rule(
        "elementwise",
        _whole(
            "add sub rsub mul div neg abs pow sqrt rsqrt reciprocal square exp log sin cos tan tanh sigmoid relu relu6 "
            "leaky_relu prelu elu celu selu gelu silu mish glu hardtanh hardswish hardsigmoid hardshrink softshrink "
            "softplus softsign log_sigmoid threshold clamp clamp_min clamp_max maximum minimum where masked_fill lerp "
            "addcmul addcdiv erf floor ceil round sign remainder fmod eq ne lt le gt ge logical_and logical_or "
            "logical_not bitwise_and bitwise_or bitwise_not isnan isinf bernoulli uniform normal rand rand_like randn"
        ),
    ),
)
"""The first rule that fits decides: specific ones stand before general ones."""

KERNEL_RULES = (
    Rule("optimiser", "multi_tensor_apply|fused_adam|FusedAdam|FusedSgd|foreach"),
    Rule("attention", "fmha|flash_?(fwd|bwd|attn)|attention|cudnn_generated_fort_native_sdpa"),
    Rule("batch norm, backward", "bn_bw|batch_?norm_?(bw|back)"),
    Rule("batch norm", "bn_fw|bn_pointwise|batch_?norm"),
    Rule("layer norm", "(layer|group|instance)_?norm|GammaBeta|RowwiseMoments"),
    Rule("depthwise convolution", "depthwise|grouped_direct"),
    Rule("convolution, data gradient", "dgrad"),
    Rule("convolution, weight gradient", "wgrad"),
    Rule("pooling", "pool"),
    Rule("memory copy and set", r"memcpy|memset|copy|(nchw|nhwc)to(nchw|nhwc)|convertTensor|CatArray|FillFunctor"),
    Rule("memory copy and set", "transpose|gather|scatter|indexSelect|index_elementwise|embedding"),
    Rule("convolution", r"fprop|implicit_(gemm|con)|scudnn|winograd|convol|conv\dd|im2col|cudnn::cnn|cutlass_cudnn"),
    Rule("matrix product", "gemm|gemv|splitK|cutlass|cublas|dot_kernel|matmul"),
    Rule("reduction", "reduce|softmax|nll_loss|norm_kernel|welford|cunn_"),
    Rule("elementwise", "elementwise|pointwise|dropout|upsample|op_tensor|add_tensor"),
)
"""The same for the names of kernels, as the compilers of CUDA, cuDNN, cuBLAS and CUTLASS give them."""

GROUPS = (*dict.fromkeys(rule.group for rule in RULES), OTHER)
"""All groups, each once."""


@cache
def group_of(operator: str, kind: str, stage: str) -> str:
    """Return the group of an operator that a layer of a kind (empty where it is not known) calls in a stage."""
    return next((rule.group for rule in RULES if rule.fits(operator, kind, stage)), OTHER)


@cache
def group_of_kernel(kernel: str) -> str:
    """Return the group of a kernel of which nothing but its name is known."""
    return next((rule.group for rule in KERNEL_RULES if rule.fits(kernel, "", "")), OTHER)


def grouped(rows: pd.DataFrame, kinds: Iterable[str]) -> list[str]:
    """Return the group of each row of ``Operator`` or ``OperatorTime``, given the kinds of its layers."""
    return [group_of(*row) for row in zip(rows.operator, kinds, rows.stage, strict=True)]


def kinds_of(times: pd.DataFrame, layers: pd.DataFrame) -> list[str]:
    """Return the kind of the layer behind each row of ``OperatorTime``; empty where its path is not known."""
    known = layers.drop_duplicates(["model", "path"])
    kinds = dict(zip(zip(known.model, known.path, strict=True), known.layer_kind, strict=True))
    return [kinds.get(key, "") for key in zip(times.model, times.path, strict=True)]
