"""What a datasheet excludes of published kernels, with the exceptions that the README of the tables names."""

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.places import ROOT

from measure import __main__ as command
from measure.cache import table
from measure.domain.schema import TABLES, file_of
from measure.published.add import Limits
from measure.published.aside import KERNELS
from measure.published.kernels import TimedAttention, TimedCollective, TimedExperts, TimedLatentAttention, TimedProduct
from measure.published.records import Chip

DATA = ROOT / "data"
OF = ("src", "NVIDIA H100 SXM", "engine", "1.0", "kernel")  # 989.4 TFLOP/s at bf16, 3.35 TB/s, a cache of 52.4 MB
PRODUCT = TimedProduct(*OF, "bf16", "bf16", 8192, 8192, 8192, 1.4e-3)
DECODE = TimedAttention(*OF, "decode", "bf16", "bf16", 64, 1, 8191, 32, 8, 128, 128, None, 0.8e-3)
LATENT = TimedLatentAttention(*OF, "attention", "decode", "bf16", "bf16", None, 64, 1, 8192, 16, 0.3e-3)
EXPERTS = TimedExperts(*OF, "bf16", "bf16", 16384, 4096, 1536, 128, 8, 3, 1, 1, "balanced", 6e-3)
COLLECTIVE = TimedCollective(*OF, "all_reduce", "bf16", 8, 2**29, 2e-3)


@pytest.fixture(scope="module")
def limits():
    return Limits(DATA, table.read(file_of(Chip, DATA), Chip))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        # 2 x 8192^3 = 1.0995e12 FLOP take 1.111 ms at 989.4 TFLOP/s; at 1.1 times that 1.010 ms
        (PRODUCT, ""),
        (replace(PRODUCT, latency_s=1.02e-3), ""),
        (replace(PRODUCT, latency_s=1.0e-3), "1.10 PFLOP/s is more than the 989 TFLOP/s of NVIDIA H100 SXM at bf16"),
        (replace(PRODUCT, latency_s=1.0e-3), "or give the precision that was multiplied"),
        (replace(PRODUCT, latency_s=1.0e-3, precision="fp8", weights="fp8"), ""),
        (replace(PRODUCT, latency_s=1.0e-3, precision="int4"), ""),  # no rate in the datasheet
        # 134.2 MB of weights less 52.4 MB in the cache take 24.4 us; at 1.02 times the bandwidth 23.9 us
        (replace(PRODUCT, m=1, latency_s=24.2e-6), ""),
        (
            replace(PRODUCT, m=1, latency_s=23.5e-6),
            "134 MB in 23.5 µs, of which a cache may hold 52.4 MB, is more than",
        ),
        (replace(PRODUCT, m=1, n=4096, k=4096, latency_s=2e-6), ""),  # 33.6 MB fit the cache
        # The slowest plausible: 1000 x 1.111 ms and 5 ms
        (replace(PRODUCT, latency_s=1.11), ""),
        (replace(PRODUCT, latency_s=1.4), "is more than the 1.12 s that is plausible; name the column by its unit"),
        # 64 x 8192 tokens x 8 heads x 256 numbers x 2 B = 2.147 GB, less 52.4 MB: 0.625 ms; at 1.02 times 0.613 ms
        (DECODE, ""),
        (replace(DECODE, latency_s=0.62e-3), ""),
        (replace(DECODE, latency_s=0.60e-3), "2.15 GB in 600 µs"),
        (replace(DECODE, latency_s=0.60e-3, cache="fp8"), ""),
        (replace(DECODE, latency_s=0.60e-3, window=128), ""),  # of 33.6 MB
        # L40S: a cache of unknown size may hold as much as any chip's
        (replace(DECODE, device="NVIDIA L40S", batch=8, latency_s=50e-6), "268 MB in 50.0 µs" * 0),
        # 64 x 8192 x 576 x 2 B = 604 MB, less 52.4 MB: 0.1647 ms; at 1.02 times 0.1614 ms
        (LATENT, ""),
        (replace(LATENT, latency_s=0.16e-3), "604 MB in 160 µs"),
        # 16384 x 8 x 3 x 2 x 4096 x 1536 = 4.948e12 FLOP take 5.00 ms; at 1.1 times the rate 4.55 ms
        (EXPERTS, ""),
        (replace(EXPERTS, latency_s=4.5e-3), "1.10 PFLOP/s is more than the 989 TFLOP/s"),
        (replace(EXPERTS, latency_s=4.5e-3, expert_parallel=2), ""),  # this GPU may have few of the tokens
        # 536.9 MB less 52.4 MB take 0.1446 ms
        (COLLECTIVE, ""),
        (replace(COLLECTIVE, latency_s=0.14e-3), "537 MB in 140 µs"),
        (replace(COLLECTIVE, latency_s=10.0), ""),  # over slow links
        (replace(COLLECTIVE, power_w=500.0, power_limit_w=700.0), ""),
        (replace(COLLECTIVE, power_w=800.0, power_limit_w=700.0), "800 W is more than the limit of 700 W"),
    ],
)
def test_the_roof_bounds_a_kernel(limits, row, words):
    column, problem = limits.problem(row)
    assert words in problem
    assert bool(problem) == bool(words)
    assert not words or getattr(row, column)


@pytest.mark.parametrize("name", KERNELS)
def test_every_committed_kernel_is_below_its_roof(limits, name):
    rows = table.read(file_of(KERNELS[name], DATA), KERNELS[name])
    assert [problem for _, problem in map(limits.problem, rows) if problem] == []


def test_a_table_of_kernels_is_added_with_milliseconds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cache = Path("cache")
    cache.mkdir()
    (cache / "chips.csv").write_bytes((DATA / "chips.csv").read_bytes())
    header = (
        ",".join(TABLES[TimedProduct].columns).replace("latency_s", "latency_ms").removesuffix(",power_w,power_limit_w")
    )
    line = "src,nvidia h100 80gb hbm3,mine,1.0,mine,bf16,bf16,8192,8192,8192,{}"
    Path("kernels.csv").write_text(f"{header}\n{line.format('1.4')}\n")
    add = ["add-published", "kernels.csv", "--data", "cache"]
    assert command.main(add) == 0
    assert "Added 1 of 1 rows to cache/published/kernels/products.csv" in capsys.readouterr().out
    assert table.read(file_of(TimedProduct, cache), TimedProduct)[0].latency_s == pytest.approx(1.4e-3)
    Path("kernels.csv").write_text(f"{header}\n{line.format('0.9')}\n")
    assert command.main(add) == 2
    assert "kernels.csv, line 2, column latency_s: 1.22 PFLOP/s is more than" in capsys.readouterr().err
