"""The committed tables of published kernels and servers: their values, their size, and what no fit may see."""

import ast
from functools import cache

import pytest
from helpers.places import ROOT

from measure.cache import table
from measure.domain.chips import fold_name, rows_by_name
from measure.domain.schema import TABLES, file_of
from measure.published import aside
from measure.published.aside import KERNELS
from measure.published.records import Chip
from measure.published.servers import AGGREGATED, PublishedServer

DATA = ROOT / "data"
RECORDS = (*KERNELS.values(), PublishedServer)
MOST_ROWS, MOST_BYTE = 150_000, 12e6  # of all tables together


@cache
def rows(record):
    return table.read(file_of(record, DATA), record)


def one(name, **cells):
    (found,) = [row for row in rows(KERNELS[name]) if cells.items() <= vars(row).items()]
    return found


def test_times_are_those_of_the_package():
    """Transcribed by hand from its tables, whose times are in milliseconds."""
    # h200_sxm/gemm/vllm/0.24.0: fp8, 4096, 4096, 4096: 0.13576443990071616
    product = one("products", device="NVIDIA H200 SXM", engine="vllm", weights="fp8", m=4096, n=4096, k=4096)
    assert (product.latency_s, product.kernel) == (0.000135764, "CutlassFP8ScaledMMLinearKernel")
    # the same with bfloat16, 1 row: 0.01255733354224099
    product = one("products", device="NVIDIA H200 SXM", engine="vllm", weights="bf16", m=1, n=4096, k=4096)
    assert product.latency_s == 1.25573e-05
    # h100_sxm/comm/nccl/2.29.2: half, 8, 4194304 elements, all_gather: 0.04486
    message = {"gpus": 8, "message_byte": 2 * 4194304, "collective": "all_gather", "precision": "fp16"}
    assert one("collectives", device="NVIDIA H100 SXM", engine="nccl", **message).latency_s == 4.486e-05
    # l40s/comm/vllm/0.14.0: vLLM_custom_graph, 4, 4096 elements of bfloat16: 0.01432096004486084
    message = {"gpus": 4, "message_byte": 2 * 4096, "kernel": "vLLM_custom_graph"}
    assert one("collectives", device="NVIDIA L40S", **message).latency_s == 1.4321e-05
    # vidur, h100_pairwise_nvlink/all_reduce.csv: 4 workers, 67108864 bytes: median 2.063 ms
    message = {"gpus": 4, "message_byte": 67108864, "source": "vidur", "collective": "all_reduce"}
    assert one("collectives", device="NVIDIA H100 NVL", **message).latency_s == 2.063e-3
    # silicon_sample.csv: silicon_ttft_ms 232.3701173037989, silicon_tpot_ms 8.911417084332284
    name = "2026_04_06_llama_3_1_70b_b200_sxm_trtllm_fp4_agg_1024x1024_c8_tp2_ep1_257"
    (server,) = [row for row in rows(PublishedServer) if row.row == name]
    assert (server.ttft_s, server.tpot_s, server.gpus, server.batch) == (0.23237, 0.00891142, 2, 8)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_keys_are_unique_and_devices_have_datasheets(record):
    key = TABLES[record].key
    found = rows(record)
    assert len({tuple(getattr(row, name) for name in key) for row in found}) == len(found)
    chips = rows_by_name(table.read(file_of(Chip, DATA), Chip))
    assert {row.device for row in found if fold_name(row.device) not in chips} == set()


def test_all_tables_together_are_small():
    assert sum(len(rows(record)) for record in RECORDS) < MOST_ROWS
    assert sum(file_of(record, DATA).stat().st_size for record in RECORDS) < MOST_BYTE
    assert len(rows(PublishedServer)) == 5221  # all of the package


def test_ten_gpus_have_products_attention_experts_and_collectives():
    for name in ("products", "attention", "experts", "collectives"):
        assert len({row.device for row in rows(KERNELS[name]) if row.source == "aic"}) == 10, name
    assert {row.device for row in rows(KERNELS["attention"]) if row.power_w} == {"NVIDIA B200 SXM"}


def test_no_row_names_somebodys_folder():
    for row in rows(PublishedServer):
        assert not row.export.startswith("/")
        assert row.mode != AGGREGATED or row.gpus is not None


def test_what_may_be_fitted_holds_nothing_that_was_set_aside():
    for name, record in KERNELS.items():
        fitted, kept = aside.read_kernels(DATA, name), aside.read_set_aside(DATA, record)
        assert {row.device for row in kept} == {"NVIDIA B300 SXM"}
        assert "NVIDIA B300 SXM" not in {row.device for row in fitted}
        assert len(fitted) + len(kept) == len(rows(record))
    servers = aside.read_servers(DATA)
    assert not any("gpt-oss" in row.model or "GLM" in row.model for row in servers)
    assert "NVIDIA B300 SXM" not in {row.device for row in servers}
    hidden = aside.read_set_aside(DATA, PublishedServer)
    # 381 of B300 among all models; 485 of gpt-oss-120b and 108 of GLM-5 among all GPUs
    assert [sum(row.device == "NVIDIA B300 SXM" for row in hidden), sum("oss" in row.model for row in hidden)] == [
        381,
        485,
    ]
    assert sum("GLM" in row.model for row in hidden) == 108
    assert len(servers) + len(hidden) == 5221


READERS = {"read_kernels", "read_servers"}


def test_fitting_code_cannot_reach_what_was_set_aside():
    """It imports the two readers of what may be fitted, and for types alone the records; no table of them by itself."""
    files = sorted((ROOT / "measure" / "predicting").glob("*.py"))
    assert files
    for path in files:
        tree = ast.parse(path.read_text("utf-8"))
        typed = [
            each for each in ast.walk(tree) if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test)
        ]
        for_types = {id(inner) for each in typed for inner in ast.walk(each)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not any(name.name.startswith("measure.published") for name in node.names), path
            if isinstance(node, ast.ImportFrom) and id(node) not in for_types:
                names = {name.name for name in node.names}
                if node.module == "measure.published":
                    assert not names & {"aside", "kernels", "servers", "add"}, path
                if node.module in ("measure.published.aside", "measure.published.kernels", "measure.published.servers"):
                    assert names <= READERS, path
        text = path.read_text("utf-8")
        assert not any(word in text for word in ("kernels/", "servers.csv", "read_set_aside")), path
