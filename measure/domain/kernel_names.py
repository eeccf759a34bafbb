"""What a GPU kernel's name says beyond its operator: a conversion between layouts, or a convolution's algorithm.

Libraries choose both inside an operator, so that no operator's name shows them.
"""

import re

# Kernels that rewrite a tensor in another order of its axes, or with more channels, and compute nothing.
# cuDNN's convertTensor_kernel is none: it changes the type. Nor is cuBLAS' scal_kernel of cublasTransposeParams.
CONVERSIONS = (
    "nchwToNhwc", "nhwcToNchw",  # cuDNN: tensor cores read the channels of a pixel together, torch's default does not
    "nhwcToFoldedNhwc", "foldedNhwcToNhwc",  # cuDNN: for convolutions of few channels
    "nhwcAddPadding",  # cuDNN: adds channels of zeros, for tensor cores read several at once
    "batched_transpose_",  # MIOpen: between NCHW and NHWC
    "transpose_NCHW2CNHW", "transpose_CNHW2NCHW",  # MIOpen: before and after a product of matrices
)  # fmt: skip

FFT, WINOGRAD = ALGORITHMS = ("FFT", "Winograd")
# Both need fewer FLOP than direct convolution, which is what counts (Lavin and Gray 2016, Mathieu et al. 2014).
ALGORITHM_NAMES = {
    FFT: (
        "fft2d_",  # cuDNN: into the frequency domain and back
        "cf32cf32", "cgemm",  # a product of complex matrices, the convolution there
        "flip_filter",  # cuDNN: turns the filter round before its FFT
    ),
    WINOGRAD: ("winograd", "Winograd", "Sp3AsmConv"),  # the last: MIOpen's, of the files Conv_Winograd_*
}  # fmt: skip

IS_CONVERSION = re.compile("|".join(CONVERSIONS))
OF_ALGORITHM = {name: re.compile("|".join(parts)) for name, parts in ALGORITHM_NAMES.items()}


def is_conversion(kernel: str | None) -> bool:
    """Return whether a kernel only converts between layouts of a tensor."""
    return bool(kernel and IS_CONVERSION.search(kernel))


def algorithm_of(kernel: str | None) -> str | None:
    """Return the algorithm by which a convolution's kernel saves FLOP; None for direct ones and implicit products."""
    return next((name for name, pattern in OF_ALGORITHM.items() if kernel and pattern.search(kernel)), None)
