"""A served token taken apart: what its least time explains, what more GPUs divide, and what prompts of others add."""

from report.chapters.tokens.timed import decoder, example, of_lengths, prompt_pairs, single
from report.facts import Facts, missing
from report.paper.frames import each, matching
from report.paper.served import Served, explained, of_groups, taken_apart
from report.stats.value import Value, count_of, exact, median_of

PRODUCTS = 4  # of a layer of the example: queries, keys and values; output; two of its perceptron


class DividedToken(Facts):
    """The example's token on one GPU and on the largest group, with the fewest requests and long answers."""

    batch: Value  #: The requests.
    gpus: Value  #: GPUs of the group.
    bound_alone: Value  #: The least time on one GPU.
    bound: Value  #: The least time on the group.
    rest_alone: Value  #: The measured time beyond the least on one GPU.
    rest: Value  #: The measured time beyond the least on the group.
    pairs: Value  #: Settings of any model on one GPU and on such a group.
    first: Value  #: The least time over the measured one of these on one GPU: the median.
    last: Value  #: The same share on the group.
    left: Value  #: The time beyond the least on the group over that on one GPU, of the median pair.
    low: Value  #: That of the pair that a tenth of them are below.
    high: Value  #: That of the pair that a tenth of them are above.
    left_alone: Value  #: The same without collectives, of the median pair.
    communication: Value  #: The share of collectives in the measured time of the example on the group.
    explained: Value  #: Its least time, collectives, and the least time of kernels beyond it.
    weights: Value  #: Least time of the weights on the group.
    product: Value  #: The shortest product that is published for its GPU and format.
    attention: Value  #: The shortest attention of decode that is published for its GPU.
    floor: Value  #: Its layers, with four products and attention each, at these times.
    measured: Value  #: The measured time of a token on the group.


class OthersPrompts(Facts):
    """The example's token on one GPU where prompts are longest, and where answers are, with as many requests."""

    tokens: Value  #: Tokens of prompts that are read for each token of an answer, to a whole number.
    batch: Value  #: The requests: the most that both have.
    added: Value  #: The measured time of a token with long prompts less that with long answers.
    cache: Value  #: The part of it that the longer caches take at least.
    few: Value  #: The fewest requests.
    ttft: Value  #: TTFT of a long prompt with these.
    output: Value  #: Tokens of its answer.
    alone: Value  #: Time of a token that the prompts take, if each takes this TTFT.
    pairs: Value  #: Pairs of servers that differ in lengths alone.
    share: Value  #: Time that long prompts add to a token beyond its cache, over this time: the median pair.
    low: Value  #: That of the pair that a tenth of them are below.
    high: Value  #: That of the pair that a tenth of them are above.


class TokenParts(Facts):
    """The token of an aggregated server, taken apart by least times of bytes and FLOP."""

    servers: Value  #: Servers with a stated format and a plan that the model takes.
    models: Value  #: Their models: of several names for one number of parameters one.
    left_out: Value  #: Servers without a bound: format, plan or requests are not stated or contradict themselves.
    faster: Value  #: Servers that are faster than the bound.
    over: Value  #: Other servers that are faster than the bound and collectives together.
    share: Value  #: The bound over the measured time, of the median server.
    divided: DividedToken
    prompts: OthersPrompts


def of(served: Served) -> TokenParts:
    rows, every = explained(served), taken_apart(served)
    networks = {decoder(row).parameters for row in each(rows.drop_duplicates(["model", "weights"]))}
    return TokenParts(
        servers=count_of(len(rows), "servers"), models=count_of(len(networks), "kinds"),
        left_out=count_of((every.left_out != "").sum(), "servers"), faster=count_of(every.is_beaten.sum(), "servers"),
        over=count_of((rows.bound_s + rows.communication_s > rows.tpot_s).sum(), "servers"),
        share=median_of(rows.share, "%", "servers"),
        divided=_divided(served), prompts=_prompts(served),
    )  # fmt: skip


def _divided(served: Served) -> DividedToken:
    answers = of_lengths(example(served), has_long_answers=True)
    answers = answers[answers.batch == answers.batch.min()]
    if answers.plan_gpus.nunique() < 2:
        return missing(DividedToken)
    alone, shared = answers.iloc[0], answers.iloc[-1]
    pairs = of_groups(served, int(alone.plan_gpus), int(shared.plan_gpus))
    layers = len(decoder(alone).layers)
    product_s = matching(served.products, device=alone.device, weights=alone.weights).latency_s.min()
    attention_s = matching(served.attention, device=alone.device, phase="decode").latency_s.min()
    beyond, beyond_alone = pairs.tpot_s - pairs.bound_s, pairs.tpot_s_few - pairs.bound_s_few
    left = beyond / beyond_alone
    low, high = (exact(left.quantile(at), "%") for at in (0.1, 0.9))
    floor_s = layers * (PRODUCTS * product_s + attention_s)
    explained_s = max(shared.bound_s, floor_s) + shared.communication_s
    return DividedToken(
        exact(int(alone.batch)), exact(int(shared.plan_gpus)), exact(alone.bound_s, "s"), exact(shared.bound_s, "s"),
        exact(alone.tpot_s - alone.bound_s, "s"), exact(shared.tpot_s - shared.bound_s, "s"),
        count_of(len(pairs), "settings"), median_of(pairs.bound_s_few / pairs.tpot_s_few, "%", "settings"),
        median_of(pairs.bound_s / pairs.tpot_s, "%", "settings"), median_of(left, "%", "settings"),
        low, high, median_of((beyond - pairs.communication_s) / beyond_alone, "%", "settings"),
        exact(shared.communication_s / shared.tpot_s, "%"), exact(explained_s, "s"), exact(shared.weights_s, "s"),
        exact(product_s, "s"), exact(attention_s, "s"), exact(floor_s, "s"), exact(shared.tpot_s, "s"),
    )  # fmt: skip


def _prompts(served: Served) -> OthersPrompts:
    prompts, answers = (single(served, has_long_answers).set_index("batch") for has_long_answers in (False, True))
    common = prompts.index.intersection(answers.index)
    if common.empty or prompts.equals(answers):
        return missing(OthersPrompts)
    read, answered = (rows.loc[[common.max()]].iloc[0] for rows in (prompts, answers))
    alone_s = prompts.ttft_s.iloc[0]  # with the fewest requests
    pairs = prompt_pairs(served)
    shares = pairs.added_s / pairs.prompts_s
    low, high = (exact(shares.quantile(at), "%") for at in (0.1, 0.9))
    return OthersPrompts(
        exact(round(read.input_tokens / read.output_tokens)), exact(int(common.max())),
        exact(read.tpot_s - answered.tpot_s, "s"), exact(read.cache_s - answered.cache_s, "s"),
        exact(int(prompts.index[0])), exact(alone_s, "s"), exact(int(read.output_tokens)),
        exact(common.max() * alone_s / read.output_tokens, "s"), count_of(len(pairs), "pairs"),
        median_of(shares, "%", "pairs"), low, high,
    )  # fmt: skip
