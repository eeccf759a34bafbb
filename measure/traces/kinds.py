"""The kind of an operator's call: of layer where it shows, else of work."""

import re

from measure.counting.memory import COPIES, FILLS, REARRANGEMENTS
from measure.domain.trace_records import COMMUNICATION, COPY, OPTIMISER, POINTWISE, REDUCTION
from measure.domain.words import COSTS, ELEMENTARY, LAYER_KINDS, TANH_GELU, UPDATE
from measure.traces.counts import COLLECTIVES, GLOO, NCCL, CallCounts

CONVOLUTION, DEPTHWISE, OTHER = "convolution", "depthwise convolution", LAYER_KINDS[-1]

# Kinds of layers, as in counting.layers, by whole words of an operator's name, the most special first. A backward
# operator has its forward one's name in it. upsample_bilinear2d is not linear: its word is bilinear2d.
PATTERNS = (
    (COMMUNICATION, r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast_$|barrier|nccl\w*"),
    ("activation", r"log_softmax"),
    ("attention", r"attention|attn|softmax|(b?add)?bmm"),  # a batch of products: a linear layer has one product
    (CONVOLUTION, r"conv(olution|\d?d?)"),
    ("recurrent", r"lstm|gru|rnn"),
    ("normalisation", r"(batch|layer|group|instance|rms)_?norm|local_response_norm"),
    ("pooling", r"(?<!memory_)(max|avg)?pool(ing)?\d?d?"),
    ("embedding", r"(?<!rotary_)embedding"),
    ("linear", r"(bi|tri)?linear|(add)?mm|(add)?mv|int[48]pack_mm"),
    (
        "activation",
        r"(p|r|leaky_?)?relu6?|gelu|silu|[cs]?elu|mish|(swi|ge)?glu|sigmoid|tanh|softplus|threshold|clamp_min|"
        r"hard(tanh|sigmoid|swish)|(hard|soft)shrink",
    ),
)
LAYERS = [(kind, re.compile(rf"(?:^|_)(?:{pattern})(?:_|$)")) for kind, pattern in PATTERNS]
LOSS = re.compile(r"_loss(\d?d?|_\w+)$")
UPDATES = re.compile(r"_fused_(adam|sgd|adagrad)|_foreach_|_amp_")
REDUCTIONS = re.compile(
    r"(sum|mean|max|min|amax|amin|argmax|argmin|prod|norm|linalg_vector_norm|var|std|all|any|topk|sort|cum\w+)(_mean)?"
)
POINTWISE_NAMES = {*ELEMENTARY, *COSTS, *TANH_GELU, "clamp", "clamp_min", "clamp_max", "bitwise_and", "bitwise_or"}
COPY_NAMES = {*COPIES, *FILLS, *REARRANGEMENTS, "index", "index_select", "gather", "index_put", "_index_put_impl"}
TRITON_KINDS = {"triton_poi": POINTWISE, "triton_red": REDUCTION, "triton_per": REDUCTION}


def kind_of(names: list[str], counts: CallCounts, stage: str) -> str:
    """Return one of ``TRACE_KINDS`` by the names from the call that carries the counts to its outermost caller.

    The names of the forward operator that made a backward node may follow.
    """
    carrier = names[0].partition("::")[2] or names[0]
    base = carrier.removesuffix("_")
    if names[0] in COLLECTIVES or names[0].startswith((GLOO, NCCL)):
        return COMMUNICATION
    if stage == UPDATE or UPDATES.match(carrier):
        return OPTIMISER
    if counts.groups > 1:
        return DEPTHWISE if counts.groups == counts.channels else CONVOLUTION
    if carrier[:10] in TRITON_KINDS:  # their names may hold a convolution's, which another kernel runs
        return TRITON_KINDS[carrier[:10]]
    if any(map(LOSS.search, names)):  # the softmax in a loss is no layer
        return OTHER
    for name in names:
        plain = name.partition("::")[2] or name
        for kind, pattern in LAYERS:
            if pattern.search(plain):
                is_of_classes = "softmax" in plain and counts.shape and counts.shape.partition(" ")[0].count("x") < 2
                return "activation" if is_of_classes else kind
    if base in COPY_NAMES:
        return COPY
    if base in POINTWISE_NAMES:
        return POINTWISE
    return REDUCTION if REDUCTIONS.fullmatch(base) else OTHER
