import json
from pathlib import Path

import pytest

from report.engine.blocks import with_thin_spaces
from report.engine.pandoc import plain_text, run_pandoc


def read(text):
    document = json.loads(run_pandoc(["--from=markdown", "--to=json"], text, Path()))
    return plain_text(with_thin_spaces(document["blocks"]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the 95 % interval", "the 95|% interval"),
        ("a peak of 989 TFLOP/s, dense", "a peak of 989|TFLOP/s, dense"),
        ("(8.12\u00a0ms)", "(8.12|ms)"),
        ("8.05 to 8.20\u00a0ms", "8.05 to 8.20|ms"),
        ("±2 % and −8.5 %", "±2|% and −8.5|%"),
        ("1,024\u00a0B and 61.1\u00a0M", "1,024|B and 61.1|M"),
        ("*in 3 s*", "in 3|s"),
        ("295 FLOP/B", "295|FLOP/B"),
        ("3\nGB", "3|GB"),
        ("24\u00a0models, 2 sources", "24\u00a0models, 2 sources"),  # words, no units
        ("an H100 W", "an H100 W"),  # a name, no number
        ("vgg16 M", "vgg16 M"),
        ("`3 s`", "3 s"),  # code is left alone
    ],
)
def test_numbers_and_units(text, expected):
    assert read(text) == expected.replace("|", "\u202f")
