"""Recordings of several ranks and of replayed graphs, published by others under the MIT licence (tests/data/README.md).

Expected numbers are sums over the recorded events, or products of the networks' published sizes.
"""

import json

import pytest
from helpers.places import ROOT, TESTS

from measure import __main__ as command
from measure.cache.traces import read_trace
from measure.domain.collectives import collective_times, matched_share
from measure.traces import paged

DATA = TESTS / "data"
DLRM = "nvidia-v100-sxm2-dlrm-training"
# The kernels of NCCL on ranks 0 to 7, in their order (µs): of four all-to-alls, an all-reduce, an all-to-all and two
# all-reduces
KERNELS = [
    (2146, 1032, 176, 131, 246, 514, 601, 952),
    (7635, 1025, 169, 132, 307, 545, 601, 922),
    (518, 517, 173, 131, 198, 468, 572, 915),
    (6132, 1021, 174, 133, 291, 542, 602, 879),
    (4882, 1108, 170, 132, 95, 61, 70, 69),
    (4679, 1060, 175, 132, 96, 10, 20, 79),
    (514, 520, 175, 131, 213, 483, 602, 920),
    (10, 8, 7, 7, 86, 357, 468, 803),
]


@pytest.fixture
def run(capsys, tmp_path):
    """Import files into an empty folder; return the answer to each."""

    def run(*words):
        assert command.main(["import-trace", *map(str, words), "--json", "--data", str(tmp_path)]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    (tmp_path / "chips.csv").write_bytes((ROOT / "data" / "chips.csv").read_bytes())
    return run


def test_eight_ranks_of_one_step_are_matched_whole():
    times = collective_times(read_trace(ROOT / "data", DLRM).collectives)
    transfer = sum(map(min, zip(*KERNELS, strict=True)))
    assert transfer == 217  # 10 + 8 + 7 + 7 + 86 + 10 + 20 + 69
    assert [each.rank for each in times] == list(range(8))
    assert [each.transfer_s for each in times] == pytest.approx([transfer * 1e-6] * 8)
    assert [each.wait_s for each in times] == pytest.approx([(sum(own) - transfer) * 1e-6 for own in KERNELS])
    assert matched_share(times) == 1.0
    # Rank 0, float and int of 4 bytes, long of 8: all-to-alls of 6144 floats (twice), 24 longs, 384 and 3392 ints; of
    # them the bus carries 7/8. All-reduces of 394241, 112 and 226960 floats: 2 x 7/8.
    exchanged, reduced = 2 * 6144 * 4 + 24 * 8 + (384 + 3392) * 4, (394241 + 112 + 226960) * 4
    assert times[0].byte == exchanged + reduced
    assert times[0].bus_byte_per_s == pytest.approx((exchanged * 7 / 8 + reduced * 7 / 4) / 217e-6)


def test_the_import_of_two_ranks_gives_their_committed_tables(run, tmp_path):
    run(DATA / "v100-dlrm-rank1of8.json.gz", DATA / "v100-dlrm-rank7of8.json.gz", "--name", "DLRM training")
    ours, committed = read_trace(tmp_path, DLRM), read_trace(ROOT / "data", DLRM)
    for table in ("operators", "steps", "collectives"):
        assert getattr(ours, table) == [row for row in getattr(committed, table) if row.rank in (1, 7)]
    first, last = collective_times(ours.collectives)
    # Rank 7 is the fastest of the two in all: it waits for nobody
    assert (first.transfer_s, last.wait_s) == (pytest.approx(1746e-6), pytest.approx(0, abs=1e-9))
    assert first.wait_s == pytest.approx((sum(KERNELS[1]) - 1746) * 1e-6)


def test_one_rank_alone_has_bytes_and_exposed_time(run, tmp_path, capsys):
    run(DATA / "a100-ddp-rank0of2.json.gz", "--name", "DDP")
    trace = read_trace(tmp_path, "nvidia-a100-pg509-200-ddp")
    assert {(row.group, row.group_size, row.ranks) for row in trace.collectives} == {("0", 2, "0 1")}
    (found,) = collective_times(trace.collectives)
    # The events: 7 kernels of 12300.029 µs in all, for 53120 floats, 53 longs and five times floats
    assert (found.calls, found.transfer_s, found.wait_s, found.bus_byte_per_s) == (7, None, None, None)
    assert found.unmatched_s == pytest.approx(12300.029e-6)
    assert found.byte == 4 * (53120 + 2049000 + 7875584 + 6563840 + 6637568 + 2431040) + 8 * 53
    # Of these 10539.63 µs have no other kernel beneath them, counted on a grid of 10 ns
    assert found.exposed_s == pytest.approx(10539.63e-6, rel=1e-4)
    assert command.main(["trace", trace.name, "--data", str(tmp_path)]) == 0
    assert "Of 2 ranks only 1 is imported: transfer and wait are not told apart." in capsys.readouterr().out


def test_a_decode_step_of_sglang_has_the_operators_of_its_graph(run, tmp_path):
    """Qwen3-8B, 32 requests: 36 layers of 4096 and 12288, 32 heads and 8 of keys of 128, 151936 words."""
    capture = DATA / "mi300x-sglang-qwen3-8b-capture.json.gz"
    (answer,) = run(DATA / "mi300x-sglang-qwen3-8b-decode.json.gz", "--name", "Qwen3-8B", "--captured-by", capture)
    assert answer["operator_share"] > 0.99
    layer = 4096 * (32 + 2 * 8) * 128 + 32 * 128 * 4096 + 4096 * 2 * 12288 + 12288 * 4096
    products = 2 * 32 * (36 * layer + 4096 * 151936)
    attention = 4 * 32 * 128 * 32785 * 36  # 32785 tokens in the cache, as the step's annotation says
    assert answer["flop"] == products + attention
    rows = [
        row for row in read_trace(tmp_path, "amd-instinct-mi300x-qwen3-8b").operators if row.layer_kind == "attention"
    ]
    (row,) = [row for row in rows if row.flop]
    # Queries and results of 32 tokens, keys and values of 32785, in bf16
    assert (row.calls, row.byte) == (36, 36 * 2 * 2 * 128 * (32 * 32 + 32785 * 8))


def test_a_decode_step_of_vllm_has_windows_in_every_second_layer(run, tmp_path):
    """The sizes of gpt-oss-20b: 24 layers of 2880, 64 heads and 8 of keys of 64, 32 experts, 201088 words."""
    files = [DATA / f"mi300x-vllm-gpt-oss-{part}.json.gz" for part in ("decode", "capture")]
    (answer,) = run(files[0], "--name", "gpt-oss", "--captured-by", files[1], "--chip", "AMD Instinct MI300X")
    layer = 2880 * (64 + 2 * 8) * 64 + 64 * 64 * 2880 + 2880 * 32
    products = 2 * 32 * (24 * layer + 2880 * 201088)
    attention = 4 * 64 * 64 * 55086 * 12  # without the experts, and the layers that attend to a window
    assert answer["flop"] == products + attention
    rows = read_trace(tmp_path, "amd-instinct-mi300x-gpt-oss").operators
    assert [row.calls for row in rows if row.reason == paged.WINDOW] == [12]
    assert "vllm.moe_forward" in answer["without_counts"]
