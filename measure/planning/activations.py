"""Bytes that a decoder's layer saves for its backward pass, in closed form, a part at a time.

The tensors are those that autograd keeps of the modelling files in ``transformers``, with attention in one kernel that
keeps no scores. Norms of queries, keys and streams compute at 32 bits. The form is that of Korthikanti et al. 2022,
arXiv:2205.05198, with sequence parallelism: ``tensor`` GPUs share every tensor, those between two products by tokens.
"""

from measure.errors import UserError
from measure.serving.decoder import Decoder, DecoderLayer, Experts, GroupedAttention, LatentAttention, Perceptron

SINGLE = 4  # bytes of a number at fp32
INDEX = 8  # bytes of an index
INDEXES = 5  # that routing keeps of an expert of a token: its number, and the orders of sorting there and back


def norm_byte(size: int, byte: int) -> float:
    """Return what a root-mean-square norm of ``size`` numbers saves: them at fp32, their scale, and the normalised."""
    return (SINGLE + byte) * size + SINGLE


def layer_norm_byte(size: int, byte: int) -> float:
    """Return what torch's layer norm saves: its input, its mean and its deviation."""
    return byte * size + 2 * SINGLE


def mixer_byte(mixer: GroupedAttention | LatentAttention, hidden: int, byte: int) -> float:
    """Return what attention saves of a token, with the input of its first product."""
    if isinstance(mixer, GroupedAttention):
        heads, kv_heads, size = mixer.heads, mixer.kv_heads, mixer.head_size
        saved: float = byte * (2 * heads + 2 * kv_heads) * size + SINGLE * heads  # queries, results, keys, values; sums
        if mixer.is_gated:
            saved += 3 * byte * heads * size  # the gate, its sigmoid, and the gated results
        if mixer.has_norms:
            saved += (heads + kv_heads) * norm_byte(size, byte)
        return byte * hidden + saved
    heads, rotary, plain, value = mixer.heads, mixer.rotary, mixer.plain, mixer.value
    latents = [rank for rank in (mixer.query_rank, mixer.rank) if rank is not None]
    norms = sum(norm_byte(rank, byte) + byte * rank for rank in latents)
    numbers = 2 * (plain + rotary) + plain + value + value  # queries and keys, what keys and values are of, results
    return byte * hidden + norms + heads * (byte * numbers + SINGLE)


def perceptron_byte(part: Perceptron, hidden: int, byte: int) -> float:
    """Return what a perceptron saves of a token, with its input.

    A gated one keeps gate, activation, the other side and their product; GPT-2's keeps its input, three parts of the
    tangent that it writes out (``NewGELUActivation``), and the result.
    """
    return byte * (hidden + (4 if part.is_gated else 5) * part.inner)


def experts_byte(part: Experts, hidden: int, byte: int) -> float:
    """Return what experts save of a token, with the router's input; tokens are spread evenly over the GPUs.

    Each active expert keeps its input, the gate and its other side, the activation, the product, and its result.
    """
    routed = part.active * (byte * (2 * hidden + 4 * part.inner) + INDEX * INDEXES)
    shared = byte * 4 * part.shared
    return byte * hidden + SINGLE * part.count + routed + shared


def layer_byte(decoder: Decoder, layer: DecoderLayer, byte: int) -> float:
    """Return the bytes that a layer saves of each token, with activations of ``byte`` each.

    Raises UserError for recurrent layers.
    """
    hidden = decoder.hidden
    stream = layer_norm_byte if decoder.kind == "gpt2" else norm_byte
    saved = stream(hidden, byte)
    for mixer in layer.mixers:
        if not isinstance(mixer, GroupedAttention | LatentAttention):
            why = "the activations of its recurrent layers have no closed form here"
            raise UserError(f"plan of {decoder.name}: {why}; use --inference, or plan another network")
        saved += mixer_byte(mixer, hidden, byte)
    if isinstance(layer.feed_forward, Perceptron):
        saved += stream(hidden, byte) + perceptron_byte(layer.feed_forward, hidden, byte)
    elif layer.feed_forward is not None:
        saved += stream(hidden, byte) + experts_byte(layer.feed_forward, hidden, byte)
    return saved


def head_byte(decoder: Decoder, byte: int) -> float:
    """Return what the last norm and the product with the vocabulary save of a token."""
    stream = layer_norm_byte if decoder.kind == "gpt2" else norm_byte
    return stream(decoder.hidden, byte) + byte * decoder.hidden


def loss_byte(vocabulary: int, byte: int) -> float:
    """Return what the loss holds of a token when the backward pass begins: scores, and at fp32 the logarithms of their
    probabilities and the gradient.
    """
    return vocabulary * (byte + 2 * SINGLE)
