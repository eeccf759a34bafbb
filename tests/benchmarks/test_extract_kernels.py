"""The extract of published kernels from a few rows of the package, which lie in ``tests/data/package`` as CSV."""

import sys

import extract_kernels
import pandas as pd
import pytest
from extracting import vidur
from extracting.choice import newest, on_lattice, version_order
from extracting.tables import attention, collectives, experts
from extracting.whole_servers import read_source, servers
from helpers.places import TESTS

from measure.cache import table
from measure.domain.schema import file_of
from measure.published.aside import KERNELS
from measure.published.servers import PublishedServer

ROWS = TESTS / "data" / "package"
FILES = {
    "gemm": "h200_sxm/gemm/vllm/0.24.0", "generation_attention": "l40s/attention/sglang/0.5.14",
    "moe": "b200_sxm/moe/vllm/0.22.0", "nccl": "h100_sxm/comm/nccl/2.29.2",
    "generation_mla": "h100_sxm/mla/trtllm/1.3.0rc20",
}  # fmt: skip


def rows_of(name: str, folder: str = "") -> pd.DataFrame:
    device, _, engine, version = (folder or FILES[name]).split("/")
    frame = pd.read_csv(ROWS / f"{name}.csv")
    return frame.assign(folder_device=device, folder_engine=engine, folder_version=version)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package with tables of a few rows each, and a reader that finds them as CSV."""
    data = tmp_path / "wheel" / extract_kernels.DATA_IN_PACKAGE
    for name, folder in FILES.items():
        (data / folder).mkdir(parents=True)
        (data / folder / f"{name}_perf.parquet").touch()
    servers_file = tmp_path / "wheel" / extract_kernels.SERVERS
    servers_file.write_bytes((ROWS / "servers.csv").read_bytes())
    stem = "_perf.parquet"
    monkeypatch.setattr(
        extract_kernels, "read_parquet", lambda path: pd.read_csv(ROWS / f"{path.name.removesuffix(stem)}.csv")
    )
    return tmp_path / "wheel"


HEAD = (
    "time_stats.{0}.min,time_stats.{0}.median,rank,num_workers,size,collective,devices_per_node,max_devices_per_node\n"
)


@pytest.fixture
def profiles(tmp_path):
    """A few rows of the collectives of Vidur's authors, as their tables have them."""
    tables = {
        "h100_pairwise_nvlink/all_reduce": [
            "0.014,0.028,0,4,165888,all_reduce,4,4",  # waits for the launches of the other ranks
            "2.056,2.063,0,4,67108864,all_reduce,4,4",
            "0.352,0.352,0,2,67108864,all_reduce,2,4",  # over the bridge
        ],
        "h100_dgx/send_recv": [
            "1.862,1.871,0,2,67108864,send_recv,1,8",  # to another machine
            "0.192,0.193,0,2,67108864,send_recv,2,8",
            "0.191,0.192,0,2,67000000,send_recv,2,8",  # nearly the same size
        ],
    }  # fmt: skip
    for name, lines in tables.items():
        path = tmp_path / "vidur" / vidur.FOLDER / f"{name}.csv"
        path.parent.mkdir(parents=True)
        path.write_text(HEAD.format(path.stem) + "\n".join(lines) + "\n")
    return tmp_path / "vidur"


def test_collectives_of_vidur_are_in_bytes_and_over_the_chips_own_link(profiles):
    rows = vidur.collectives(profiles)
    kept = rows[rows.refused == ""]
    # 2.063 ms and 0.193 ms; the size is in bytes as it stands
    assert {tuple(row) for row in kept[["device", "collective", "gpus", "message_byte", "latency_s"]].to_numpy()} == {
        ("NVIDIA H100 NVL", "all_reduce", 4, 67108864, 2.063e-3), ("NVIDIA H100 SXM", "send", 2, 67108864, 1.93e-4),
    }  # fmt: skip
    assert set(rows.refused) == {"", vidur.WAITING, vidur.BRIDGED, vidur.MACHINES, vidur.SPARED}
    # An all-reduce of the H100 SXM is the package's
    whole = profiles / vidur.FOLDER / "h100_dgx" / "all_reduce.csv"
    whole.write_text(HEAD.format("all_reduce") + "0.322,0.322,0,8,67108864,all_reduce,8,8\n")
    assert vidur.KNOWN in set(vidur.collectives(profiles).refused)


def extract(package, profiles, data):
    return extract_kernels.main([str(package), "--vidur", str(profiles), "--data", str(data)])


def test_a_small_package_becomes_tables(package, profiles, tmp_path, capsys):
    assert extract(package, profiles, tmp_path) == 0
    found = {name: table.read(file_of(record, tmp_path), record) for name, record in KERNELS.items()}
    # 4096 x 4096 is a kept curve with 1 and 4096 rows; 17 rows are the fastest of their kernel
    products = {(row.kernel[:10], row.weights, row.m): row.latency_s for row in found["products"]}
    assert products == {
        ("torch.nn.f", "bf16", 1): 1.25573e-05, ("torch.nn.f", "bf16", 4096): 0.000168069,
        ("FlashInfer", "fp8_block", 1): 6.1072e-05, ("FlashInfer", "fp8_block", 17): 6.2432e-05,
        ("DeepGemmFp", "fp8_block", 4096): 0.000143488,
    }  # fmt: skip
    assert {row.device for row in found["products"]} == {"NVIDIA H200 SXM"}
    # Two of a kept curve, and one of each other distribution
    assert sorted(row.tokens for row in found["experts"]) == [64, 64, 64, 4096]
    # 16,777,216 numbers of 2 bytes or of 1; two rows are of Vidur's authors
    assert {(row.source, row.precision, row.message_byte) for row in found["collectives"]} == {
        ("aic", "fp16", 33554432), ("aic", "int8", 16777216), ("vidur", "fp16", 67108864),
    }  # fmt: skip
    assert [len(table.read(file_of(PublishedServer, tmp_path), PublishedServer)), len(found["experts"])] == [3, 4]
    out = capsys.readouterr().out
    assert "published/kernels/products.csv: 6 rows read, 5 written\n  1 between the chosen sizes" in out
    assert "published/kernels/collectives.csv: 10 rows read, 4 written\n  2 repeats the key of a row" in out
    first = {path.name: path.read_bytes() for path in (tmp_path / "published/kernels").iterdir()}
    assert extract(package, profiles, tmp_path) == 0
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "published/kernels").iterdir()}


def test_what_is_missing_is_said_in_a_sentence(package, profiles, tmp_path, monkeypatch, capsys):
    assert extract(tmp_path / "none", profiles, tmp_path) == 2
    assert "name the folder of the unpacked wheel" in capsys.readouterr().err
    assert extract(package, tmp_path / "none", tmp_path) == 2
    assert "name the folder of a clone of microsoft/vidur" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert extract(package, profiles, tmp_path) == 2
    assert "install it with: pip install pyarrow" in capsys.readouterr().err


def test_attention_is_of_the_cache_before_and_values_may_be_narrower():
    found = attention(rows_of("generation_attention"), "generation_attention")
    assert set(found.phase) == {"decode"}
    assert set(found.cached_tokens) == {1023, 65535}
    assert set(zip(found.head_size, found.value_size, strict=True)) == {(64, 64), (192, 128)}
    assert set(found.window.dropna()) == {128}
    a100 = attention(rows_of("generation_attention", "a100_sxm/attention/trtllm/1.0.0"), "generation_attention")
    assert set(a100.assign(engine="trtllm").refused) == {""}  # the rows name their own engine
    mislabelled = rows_of("generation_attention", "a100_sxm/attention/trtllm/1.0.0").assign(framework="TRTLLM")
    assert attention(mislabelled, "generation_attention").refused.str.contains("smaller than the source says").all()


def test_experts_keep_power_and_some_have_no_gate():
    found = experts(rows_of("moe"), "moe")
    assert found.power_w.min() > 600
    assert set(found.matrices) == {3}
    nemotron = rows_of("moe").assign(hidden_size=2688, inter_size=1856)
    assert set(experts(nemotron, "moe").matrices) == {3}  # vLLM 0.22.0 was timed with a gate
    assert set(experts(nemotron.assign(version="0.24.0"), "moe").matrices) == {2}
    assert set(experts(rows_of("moe").assign(kernel_source="moe_torch_flow_nongated"), "moe").matrices) == {2}


def test_rows_of_nccl_in_the_folder_of_another_version_are_refused():
    assert set(collectives(rows_of("nccl"), "nccl").refused) == {""}
    wrong = collectives(rows_of("nccl", "h100_sxm/comm/nccl/2.27.3"), "nccl")
    assert wrong.refused.str.contains("another version").all()


def test_servers_have_their_export_and_all_their_gpus():
    found = servers(pd.read_csv(ROWS / "servers.csv", keep_default_na=False, na_values=[""])).set_index("model")
    # A prefill worker of 1 x 4 GPUs and four decode workers of 8 x 1
    assert found.gpus.to_dict() == {
        "moonshotai/Kimi-K2.5": 36, "meta-llama/Llama-3.1-70B": 2, "Qwen/Qwen3.5-397B-A17B": 8,
    }  # fmt: skip
    assert found.export.tolist() == ["2026-04-27", "2026-04-06", "qwen3.5-397b-gap-analysis.csv"]
    assert found.ttft_s["meta-llama/Llama-3.1-70B"] == pytest.approx(0.2323701)
    assert found.source.tolist() == ["aic;inferencex", "aic;inferencex", "aic"]
    named = read_source("source_file=/home/of/somebody/data/h100_sxm/vllm/0.12.0/model.csv; silicon_concurrency=4")
    assert (named["export"], named["concurrency"]) == ("h100_sxm/vllm/0.12.0/model.csv", "4")


def test_the_newest_version_is_kept():
    versions = ["0.5.10", "0.5.9", "0.5.6.post2", "1.3.0rc20", "1.3.0rc3", "1.3.0", "0.20.1.dev3+g20", "0.20.1"]
    assert sorted(versions, key=version_order) == [
        "0.5.6.post2", "0.5.9", "0.5.10", "0.20.1.dev3+g20", "0.20.1", "1.3.0rc3", "1.3.0rc20", "1.3.0",
    ]  # fmt: skip
    sizes = pd.DataFrame({"device": ["a", "a", "b"], "software": ["0.5.9", "0.5.10", "0.5.9"], "rows": [1, 2, 3]})
    assert newest(sizes, ["device"]).rows.tolist() == [3, 2]


def test_a_lattice_takes_each_size_equally_often():
    exponents = range(15)
    rows = pd.DataFrame([(2**m, 2**n, 2**k) for m in exponents for n in exponents for k in exponents], columns=[*"mnk"])
    kept = rows[on_lattice(rows, [], dict.fromkeys("mnk", 1), 5)]
    assert len(kept) == 15**3 / 5
    for name in "mnk":
        assert set(kept[name].value_counts()) == {15**2 / 5}
    # Of 3 and 4 in one cell around 4 the nearer stays
    close = pd.DataFrame({"m": [3, 4]})
    assert on_lattice(close, [], {"m": 1}, 1).tolist() == [False, True]
