"""The constants that the chapters print, against what they should be by the method's description."""

from helpers.sentences import plain

from report.findings import method
from report.text.prose import Prose


def test_the_constants_are_what_the_code_measures_by():
    told = {name: plain(value) for name, value in vars(method).items() if isinstance(value, Prose)}
    assert told == {
        "CONFIDENCE": "95 %",
        # of five samples even the extremes miss the median with 2 / 2 ** 5 = 6.25 %, of six with 3.1 %
        "FEWEST_SAMPLES": "6",
        "TARGET": "±5 %",
        "FEWEST_ROUNDS": "3",
        "CONFIDENCE_OF_ROUNDS": "96 %",
        "CALL_LIMIT": "60 s",
        "BLOCK": "20 ms",
        "HEAT": "3 s",
        "BURST_BLOCK": "5 ms",
        "BURST_REST": "50 ms",
        "MEMORY_SET": "537 MB",  # 2 ** 29
        "CACHE_MULTIPLE": "8",
        "SWEEP_STEP": "1.41",  # the root of 2
        "FEWEST_SETS": "3",
        "LIKENESS": "10 %",
        "SATURATED": "95 %",
        "AGREEMENT": "1 %",
        "FLOP_PER_INSTRUCTION_ON_VOLTA": "512",
    }
