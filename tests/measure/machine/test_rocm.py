import platform
from dataclasses import replace

import pytest
from helpers.rocm import MI250X_DIE, MI300X, MIB, RX_7900_XTX, pretend

from measure.machine import rocm
from measure.machine.rocm import all_gpus, driver_version, hip_version, listed_name, rocm_gpus

XTX, X300, DIE = (board.bus for board in (RX_7900_XTX, MI300X, MI250X_DIE))


def test_a_gpu_is_read_from_the_kernels_topology_and_a_processor_is_none(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, RX_7900_XTX)
    (gpu,) = rocm_gpus()
    assert (gpu.bus, gpu.pci_id) == ("0000:86:00.0", "744c1002")  # 34304 is 0x8600, 29772 0x744c
    assert gpu.unique_id == "a1ffc9d1799c317f"  # 11673270660693242239
    assert gpu.memory_byte == 24560 * MIB
    assert not gpu.is_one_of_two_dies


@pytest.mark.parametrize(
    ("version", "name"), [(90010, "gfx90a"), (90402, "gfx942"), (100306, "gfx1036"), (110501, "gfx1151")]
)
def test_an_architecture_has_its_compilers_name(monkeypatch, tmp_path, version, name):
    properties = {**RX_7900_XTX.properties, "gfx_target_version": version}
    pretend(monkeypatch, tmp_path, replace(RX_7900_XTX, properties=properties))
    assert rocm_gpus()[0].architecture == name


def test_a_gpus_last_cache_is_all_of_its_highest_level(monkeypatch, tmp_path):
    last_alone = replace(MI300X, caches=((1, 32), *[(2, 4096)] * 8))
    pretend(monkeypatch, tmp_path, MI300X, last_alone.moved(7), replace(MI300X.moved(8), caches=()))
    # 262144 KiB of the third level; eight dies of 4 MiB where the kernel tells of no third
    assert [gpu.cache_byte for gpu in rocm_gpus()] == [256 * MIB, 32 * MIB, 0]


def test_the_systems_memory_is_not_a_gpus_own(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, replace(RX_7900_XTX, memory_byte=0))
    assert rocm_gpus()[0].memory_byte is None


def test_gpus_are_in_the_order_of_their_nodes(monkeypatch, tmp_path):
    boards = [MI300X.moved(bus) for bus in range(11, 0, -1)]
    pretend(monkeypatch, tmp_path, *boards)
    assert [gpu.bus for gpu in rocm_gpus()] == [board.bus for board in boards]  # node 10 is after node 2


def test_a_gpu_of_another_container_is_not_shown(monkeypatch, tmp_path):
    system = pretend(monkeypatch, tmp_path, RX_7900_XTX, MI300X)
    hidden = system / rocm.NODES / "1/properties"
    hidden.unlink()
    hidden.mkdir()  # reading it fails, for root too
    assert [gpu.bus for gpu in rocm_gpus()] == [X300]


def test_without_the_driver_there_is_no_gpu(monkeypatch, tmp_path):
    monkeypatch.setattr(rocm, "SYSTEM", tmp_path / "none")
    monkeypatch.setattr(rocm, "hip_version", lambda: "6.2")
    assert rocm_gpus() == []


@pytest.mark.parametrize(
    ("variables", "seen"),
    [
        ({}, [XTX, X300, DIE]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [DIE, XTX]),
        ({"ROCR_VISIBLE_DEVICES": "2,0", "HIP_VISIBLE_DEVICES": "1"}, [XTX]),  # of those that are left
        ({"HIP_VISIBLE_DEVICES": "1"}, [X300]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [X300]),
        ({"CUDA_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, [XTX]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-F330DC4D00DEE22B,GPU-a1ff"}, [X300, XTX]),
        ({"ROCR_VISIBLE_DEVICES": "0,GPU-XX,1"}, [XTX]),  # nothing from the first invalid name on
        ({"ROCR_VISIBLE_DEVICES": "-1"}, []),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
        ({"HIP_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_gpus_are_those_that_rocm_shows(monkeypatch, tmp_path, variables, seen):
    pretend(monkeypatch, tmp_path, RX_7900_XTX, MI300X, MI250X_DIE, **variables)
    assert [gpu.bus for gpu in rocm_gpus()] == seen


def test_a_torch_that_is_not_built_for_rocm_sees_none_of_them(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, RX_7900_XTX)
    monkeypatch.setattr(rocm, "hip_version", lambda: None)
    assert rocm_gpus() == []
    assert [gpu.bus for gpu in all_gpus()] == [XTX]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("hip: Optional[str] = '6.2.41133-dd7f95766'", "6.2.41133-dd7f95766"),
        ("hip = '5.7.31921'", "5.7.31921"),
        ("hip: Optional[str] = None", None),
        ("rocm: Optional[str] = '7.0'", None),
    ],
)
def test_what_torch_is_built_for_is_read_without_importing_it(monkeypatch, tmp_path, line, version):
    monkeypatch.setattr(rocm, "_torch_folder", lambda: tmp_path)
    assert hip_version() is None
    (tmp_path / "version.py").write_text(f"__version__ = '2.9.0'\ncuda: Optional[str] = '13.0'\n{line}\n")
    assert hip_version() == version
    monkeypatch.setattr(rocm, "_torch_folder", lambda: None)
    assert hip_version() is None


def test_this_torch_is_built_for_what_it_says():
    torch = pytest.importorskip("torch", reason="torch says what it is built for")
    assert hip_version() == torch.version.hip


def test_a_name_is_that_of_device_and_revision(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, RX_7900_XTX, replace(RX_7900_XTX.moved(1), revision="cc"), MI300X)
    assert list(map(listed_name, rocm_gpus())) == [
        "AMD Radeon RX 7900 XTX", "AMD Radeon RX 7900 XT", "AMD Instinct MI300X",
    ]  # fmt: skip


def test_where_the_table_has_no_name_the_board_may_have_one(monkeypatch, tmp_path):
    unlisted = replace(RX_7900_XTX, revision="ff")
    pretend(monkeypatch, tmp_path, unlisted, replace(unlisted.moved(1), product_name="AMD Example"))
    assert list(map(listed_name, rocm_gpus())) == [None, "AMD Example"]


def test_torchs_own_table_of_names_comes_first(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, RX_7900_XTX)
    table = tmp_path / "torch/share/libdrm/amdgpu.ids"
    table.parent.mkdir(parents=True)
    table.write_text("744C,\tC8,\tAMD Example\n")
    monkeypatch.setattr(rocm, "_torch_folder", lambda: tmp_path / "torch")
    assert listed_name(rocm_gpus()[0]) == "AMD Example"


def test_the_driver_is_amds_own_or_the_kernels(monkeypatch, tmp_path):
    system = pretend(monkeypatch, tmp_path, RX_7900_XTX)
    assert driver_version() == platform.release()
    file = system / rocm.DRIVER_VERSION
    file.parent.mkdir(parents=True)
    file.write_text("6.10.5\n")
    assert driver_version() == "6.10.5"
