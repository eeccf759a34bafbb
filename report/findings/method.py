"""The constants of the method, as the chapters print them: each from where the code has it."""

from itertools import count

from measure.domain import statistics, words
from measure.domain.values import significant
from measure.domain.variants import VARIANTS
from report.analysis import saturation
from report.load import memory_levels, roofs
from report.published import agreement
from report.text.prose import Markup, Prose, percent, si

CONFIDENCE = Prose(percent(statistics.CONFIDENCE))
"""Of every interval but those of the effects that are tested, which are wider."""

FEWEST_SAMPLES = Prose(next(number for number in count(1) if statistics.order_statistic_ranks(number)))
"""So many samples have an interval of their median."""

TARGET = Prose(f"±{percent(words.TARGET, 1)}")
"""The width that an interval is measured to, by default."""

FEWEST_ROUNDS = Prose(words.ROUNDS)

CONFIDENCE_OF_ROUNDS = Prose(percent(statistics.CONFIDENCE_OF_ROUNDS))
"""Of the interval between rounds, as it is computed."""

CALL_LIMIT = Prose(si(words.CALL_LIMIT_S, "s", 2))
"""A call that takes longer is aborted, by default."""

BLOCK = Prose(si(words.SUSTAINED_BLOCK_S, "s", 2))
"""How long a block of calls lasts at least, where a roof is measured."""

HEAT = Prose(si(words.HEAT_S, "s", 1))
"""So long a chip has worked before a sustained rate is taken."""

BURST_BLOCK = Prose(si(words.BURST_BLOCK_S, "s", 1))

BURST_REST = Prose(si(words.REST_S, "s", 2))
"""Before each block of a burst."""

MEMORY_SET = Prose(si(words.MEMORY_BYTE, "B"))
"""No smaller is a working set that a roof's slope is read from."""

CACHE_MULTIPLE = Prose(words.CACHE_MULTIPLE)

SWEEP_STEP = Prose(significant(roofs.STEP))
"""From one working set of a sweep to the next."""

FEWEST_SETS = Prose(memory_levels.FEWEST)
"""So many working sets show a level of memory."""

LIKENESS = Prose(percent(memory_levels.LIKENESS - 1))
"""By so much the rates of one level differ at the most."""

SATURATED = Prose(percent(saturation.SHARE))
"""The share of its best throughput with which a model is saturated."""

AGREEMENT = Prose(percent(agreement.TOLERANCE, 1))
"""Up to this two figures agree, where that is more than the printed one's rounding."""

FLOP_PER_INSTRUCTION_ON_VOLTA = Prose(words.FLOP_PER_INSTRUCTION["7.0"])
"""Of the instructions of its tensor cores."""

WAYS = [f"`{variant.name}` {variant.words}" for variant in sorted(VARIANTS, key=lambda each: not each.tried_on)]
VARIANT_WAYS = Markup(f"{', '.join(WAYS[:-1])}, and {WAYS[-1]}")
"""What each variant does; those that are worth a trial come first."""
