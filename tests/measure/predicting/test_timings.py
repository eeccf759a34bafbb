"""Made published and measured timings. Bead 2 of the world has 100 TFLOP/s at bf16 and 10 at fp32, 1 TB/s.

One input of ``timm:oak1`` needs 10 convolutions with 2 GFLOP and 9 MB, 5 MB for each further input, in two rows, and 20
activations with 8 MB for each input. Its backward pass needs 15 convolutions with 4 GFLOP and 12 MB, 10 MB for each
further input.
"""

import shutil
from dataclasses import replace

import pytest
from helpers.calls import BEAD, COSTS, additive, call, work
from helpers.rows import ENVIRONMENT, machine_in, operator, roof_measurement, run, samples, workload
from helpers.world import WORLD

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.table import read, write
from measure.domain.models import DECODE, PREFILL, Size
from measure.domain.records import Environment
from measure.domain.schema import file_of
from measure.domain.words import BACKWARD, INFERENCE, STEP
from measure.domain.workload_records import Operator, Workload
from measure.predicting import study, timings
from measure.predicting.prediction_terms import PLACE, LayerRoof
from measure.predicting.records import HERE, LAUNCHES, Setting
from measure.predicting.study import rows_of
from measure.published.count import intensity_class
from measure.published.records import Chip, PublishedCount, PublishedKind, PublishedTiming, PublishedTokens

OAK = "timm:oak1"
CONVOLUTION, ACTIVATION, LINEAR = PLACE["convolution"], PLACE["activation"], PLACE["linear"]
TIMED, *_ = read(file_of(PublishedTiming, WORLD), PublishedTiming)
COUNT = replace(read(file_of(PublishedCount, WORLD), PublishedCount)[1], activation_byte=3_000_000)
"""4 MB of parameters, 1 MB of inputs, 3 MB of activations."""


def kind(layer_kind, calls, flop, byte, further_byte, stage=INFERENCE):
    intensity = intensity_class(flop, byte), intensity_class(flop, further_byte)
    return PublishedKind(OAK, 224, stage, layer_kind, *intensity, calls, flop, 0, byte, further_byte)


KINDS = [
    kind("convolution", 9, 2 * 10**9, 4 * 10**6, 2 * 10**6), kind("convolution", 1, 0, 5 * 10**6, 3 * 10**6),
    kind("activation", 20, 0, 8 * 10**6, 8 * 10**6),
]  # fmt: skip
BACK = kind("convolution", 15, 4 * 10**9, 12 * 10**6, 10**7, BACKWARD)


def bf16(**changed):
    """A published timing on Bead 2: a batch of 8 in eager mode, stored at fp32 and computed at bf16."""
    return replace(TIMED, **{"model": OAK, "latency_s": 0.01, "autocast": "bf16", **changed})


@pytest.fixture
def data(tmp_path):
    shutil.copy(WORLD / "chips.csv", tmp_path)
    return tmp_path


def published(data, *rows, counts=(COUNT,), kinds=(*KINDS, BACK)):
    for record, made in ((PublishedTiming, rows), (PublishedCount, counts), (PublishedKind, kinds)):
        path = file_of(record, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, record, made)
    return list(timings.published(data))


@pytest.mark.parametrize(
    ("model", "network"),
    [
        ("timm:vit_base_patch16_224.augreg_in21k", "vit_base_patch16_224"),  # the tag of its weights
        ("resnet50", "resnet50"), ("torchvision:resnet101", "resnet101"), ("torchaudio:hubert_base", "hubert_base"),
        # Half a billion parameters and seven are two networks, and so are two functions of one name
        ("hf:Qwen/Qwen2.5-0.5B", "hf:Qwen/Qwen2.5-0.5B"), ("hf:Qwen/Qwen2.5-7B", "hf:Qwen/Qwen2.5-7B"),
        ("hf:/models/a.b/config.json_decode_512", "hf:/models/a.b/config.json_decode_512"),
        ("mine.nets:resnet50", "mine.nets:resnet50"),
    ],
)  # fmt: skip
def test_a_network_has_one_name_in_all_libraries(model, network):
    assert timings.network_of(model) == network


def test_a_published_row_is_a_timed_call(data):
    (found,) = published(data, bf16())
    assert found.setting == Setting("Bead 2", "epoch_hw", "2.4", "bf16", "eager", INFERENCE, "autocast;benchmark")
    assert (found.model, found.work.family, found.latency_s, found.chip_kind) == (OAK, "oak", 0.01, "gpu")
    assert found.roof == LayerRoof(1e14, 1e12, 1e14)
    assert not found.copied
    of_call = found.work
    # 8 inputs of 2 GFLOP; at two bytes an element half of 9 + 7 * 5 MB and of 8 * 8 MB
    assert (of_call.batch, of_call.calls) == (8, 30)
    assert of_call.flop[CONVOLUTION] == of_call.flop.sum() == 16e9
    assert (of_call.byte[CONVOLUTION], of_call.byte[ACTIVATION], of_call.byte.sum()) == (22e6, 32e6, 54e6)
    # The input is copied as it is, at four bytes; the parameters are held at two; 4 + 8 * (1 + 3) MB at two
    assert (of_call.input_byte, of_call.parameter_byte, of_call.footprint_byte) == (8e6, 2e6, 18e6)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"throughput_per_s": 1000.0}, {"latency_s": 0.008}),  # 8 inputs, whatever the mean of single calls
        ({"compiler": "torch.compile"}, {"variant": "torch.compile"}),
        ({"layout": None, "torch": None}, {"variant": "eager", "software": ""}),
        ({"layout": "channels_last"}, {"options": "autocast;benchmark;channels_last"}),
        ({"tuned": None}, {"options": "autocast"}),
        ({"input_copied": "yes"}, {"copied": True}),
        ({"device": "example gpu"}, {"device": "Bead 2"}),  # an alias
        # Without autocast elements have the width of their precision
        ({"autocast": None}, {"precision": "fp32", "roof": LayerRoof(1e13, 1e12, 1e13)}),
        ({"autocast": None, "precision": "bf16"}, {"precision": "bf16", "roof": LayerRoof(1e14, 1e12, 1e14)}),
    ],
)  # fmt: skip
def test_columns_of_a_row_are_conditions_of_the_call(data, changed, expected):
    (found,) = published(data, bf16(**changed))
    assert {name: getattr(found.setting, name, getattr(found, name, None)) for name in expected} == expected
    if changed == {"autocast": None}:
        of_call = found.work
        assert (of_call.byte.sum(), of_call.parameter_byte, of_call.footprint_byte) == (108e6, 4e6, 36e6)


def test_the_least_time_of_a_call_is_without_the_inputs_copy_if_it_can_be(data):
    step = {"phase": STEP, "batch": 2, "input_copied": "yes"}
    rows = [
        bf16(), bf16(latency_s=0.009), bf16(latency_s=0.001, input_copied="yes"), bf16(**step),
        bf16(**step, latency_s=0.02), bf16(compiler="torch.compile", tuned=None), bf16(compiler="TensorRT"),
    ]  # fmt: skip
    published(data, *rows)
    usual, of_call = ("autocast", "benchmark"), ("oak1", "3x224x224")
    expected = {
        ("Bead 2", "bf16", usual, INFERENCE, *of_call, 8): (False, 0.009),
        ("Bead 2", "bf16", usual, STEP, *of_call, 2): (True, 0.01),
        ("Bead 2", "bf16", ("torch.compile", "autocast"), INFERENCE, *of_call, 8): (False, 0.01),
    }
    for network, found in (("oak1", expected), ("elm1", {})):
        counts = {timings.Key(network, "", 1, "fp32", False): work(1.0, network=network)}
        assert timings.least_times(data, data, counts) == found


def test_a_published_training_step_has_both_passes(data):
    (found,) = published(data, bf16(phase=STEP, batch=2))
    assert found.setting.phase == STEP
    # 2 * (2 + 4) GFLOP; at two bytes half of 9 + 5 and 12 + 10 MB; twice 4 + 2 * (1 + 3) MB
    assert (found.work.flop.sum(), found.work.calls) == (12e9, 45)
    assert (found.work.byte[CONVOLUTION], found.work.byte[ACTIVATION]) == (18e6, 8e6)
    assert found.work.footprint_byte == 12e6


def test_a_row_without_a_roof_or_a_count_is_passed_over(data):
    fp64 = bf16(autocast=None, precision="fp64")
    # Of 16 bits the datasheet has bf16 alone
    assert published(data, bf16(device="Nobody 9"), bf16(autocast="fp16"), fp64, bf16(input_size=256)) == []
    assert published(data, bf16(phase=STEP), kinds=KINDS) == []  # its backward pass was not counted
    assert published(data, bf16(compiler="TensorRT")) == []  # not predicted
    failed = PublishedCount(OAK, 224, "unsupported", "an operator without a formula")
    assert published(data, bf16(), counts=[failed]) == []


COUNTED = workload(parameter_byte=100, input_byte=10, activation_byte=30, backward_flop=40)
OPERATORS = [
    operator(flop=10, calls=2),
    operator(name="relu", flop=0, calls=3, layer_kind="activation", byte=7),
    operator(flop=20, calls=4, stage=BACKWARD, byte=5),
]


def counted(data, workloads, operators):
    (data / "workload").mkdir()
    write(data / "workload" / "models.csv", Workload, workloads)
    write(data / "workload" / "operators.csv", Operator, operators)
    return timings.counted(Workloads(data))


def test_a_workload_needs_its_operators_as_often_as_called(data):
    changes = (
        {"autocast": "cuda"}, {"model": "wrong", "status": "error"}, {"model": "bare"}, {},
        {"model": "tied", "backward_flop": None},
    )  # fmt: skip
    operators = [operator(autocast="cuda"), *OPERATORS, operator("tied")]
    found = counted(data, [replace(COUNTED, **change) for change in changes], operators)
    key = ("3x2x2", 1, "fp32")
    assert set(found) == {("net", *key, False), ("net", *key, True), ("tied", *key, False)}
    forward, step = (found["net", *key, trains] for trains in (False, True))
    # 2 * 10 FLOP; 2 * 96 and 3 * 7 B; 100 + 10 + 30 B
    assert (forward.batch, forward.calls, forward.flop[LINEAR], forward.flop.sum()) == (1, 5, 20, 20)
    assert (forward.byte[LINEAR], forward.byte[ACTIVATION], forward.byte.sum()) == (192, 21, 213)
    assert (forward.input_byte, forward.parameter_byte, forward.footprint_byte) == (10, 100, 140)
    # Besides, 4 * 20 FLOP and 4 * 5 B backward; the footprint counts once per pass
    assert (step.calls, step.flop[LINEAR], step.byte[LINEAR], step.footprint_byte) == (9, 100, 212, 280)


@pytest.fixture
def machine(data):
    """A machine that did 1024 FLOP in 0.5 s and moves 600 B in 2 s, and timed ``net`` in 0.1, 1.1 and 2.1 s."""
    counted(data, [COUNTED], OPERATORS)
    machine = machine_in(data / "machines" / "bench")
    stream = {"roof_kernel": "stream_copy", "precision": "fp64", "flop": 0, "byte": 600, "latency_s": 2.0, "round": 0}
    machine.put_roof_measurements([replace(roof_measurement(), **stream)])
    return data


def test_a_cell_on_a_machine_with_a_roof_is_a_timed_call(machine):
    found = {each.setting.phase: each for each in timings.measured(machine, timings.counted(Workloads(machine)))}
    # The cell of 64 inputs failed, and was counted at 1 alone
    assert set(found) == {INFERENCE}
    forward = found[INFERENCE]
    assert forward.setting == Setting("bench", "measured", ENVIRONMENT.torch, "fp32", "eager", INFERENCE)
    assert (forward.model, forward.work.family, forward.work.batch, forward.chip_kind) == ("net", "plain", 1, "cpu")
    assert forward.latency_s == pytest.approx(1.1)
    assert forward.roof == LayerRoof(2048, 300, 2048)
    assert forward.work.flop.sum() == 20


@pytest.mark.parametrize(("byte", "fresh_byte"), [(2 * 2**25, 0), (2 * 2**25 + 2, 2 * (2**25 + 1))])
def test_outputs_above_32_mib_get_fresh_pages(data, byte, fresh_byte):
    """Half of an operator's bytes are its output; glibc returns blocks of more than 32 MiB to the system."""
    in_place = operator(name="add_", layer_kind="other", byte=10**9)
    operators = [operator(byte=byte, calls=2), operator(name="other"), in_place]
    (found,) = counted(data, [replace(COUNTED, backward_flop=None)], operators).values()
    assert (found.fresh_byte, found.network) == (fresh_byte, "net")


@pytest.mark.parametrize(
    ("name", "shape", "flop", "other_flop", "byte", "fresh_byte"),
    [
        # VGG-16's first linear layer: 25,088 by 4,096 parameters at 4 bytes, 411 MB; an input makes 4,096 numbers
        ("addmm", "3x2x2", 2 * 25088 * 4096, 4096, 4 * (25088 * 4096 + 25088 + 2 * 4096), 0),
        # A convolution's 64 channels of 448 by 448 outputs with a bias each
        ("convolution", "3x2x2", 10**9, 64 * 448 * 448, 10**9, 4 * 64 * 448 * 448),
        # 4,096 by 50,000 parameters and no bias, on 512 tokens: 512 * 50,000 outputs, half with the inputs
        ("mm", "512", 2 * 512 * 4096 * 50000, 0, 4 * (4096 * 50000 + 512 * (4096 + 50000)), 2 * 512 * (4096 + 50000)),
        # The same on the last token alone: no large output
        ("mm", "512", 2 * 4096 * 50000, 0, 4 * (4096 * 50000 + 4096 + 50000), 0),
    ],
)
def test_parameters_are_no_output(data, name, shape, flop, other_flop, byte, fresh_byte):
    made = operator(name=name, flop=flop, other_flop=other_flop, byte=byte)
    cells = {"input_shape": shape}
    (found,) = counted(data, [replace(COUNTED, backward_flop=None, **cells)], [replace(made, **cells)]).values()
    assert found.fresh_byte == fresh_byte


def put_gpu(data, name):
    as_gpu = replace(ENVIRONMENT, device="cuda", name=name)
    write(data / "machines" / "bench" / "machine.csv", Environment, [as_gpu])


def test_a_measured_gpu_is_a_machine_and_its_datasheets_chip(machine, data):
    put_gpu(data, "Example GPU")
    found = {each.setting.device: each for each in timings.measured(data, timings.counted(Workloads(data)))}
    assert {each.machine for each in found.values()} == {"bench"}
    assert found["bench"].roof == LayerRoof(2048, 300, 2048)
    assert found["Bead 2"].roof == LayerRoof(1e13, 1e12, 1e13)


def test_times_without_tf32_are_of_the_chips_own_fp32_peak(machine, data):
    chips = read(file_of(Chip, data), Chip)
    bead = next(row for row in chips if (row.chip, row.precision) == ("Bead 2", "fp32"))
    write(file_of(Chip, data), Chip, [*chips, replace(bead, precision="tf32", peak_flop_per_s=5e13)])
    put_gpu(data, "Bead 2")
    found = timings.measured(data, timings.counted(Workloads(data)))
    # This program turns TF32 off, others leave it on
    assert {each.setting.device: each.roof.convolution_flop_per_s for each in found} == {"bench": 2048, "Bead 2": 1e13}
    (others,) = published(data, bf16(autocast=None))
    assert (others.setting.options, others.roof) == ("benchmark;tf32", LayerRoof(1e13, 1e12, 5e13))


def test_a_measured_step_has_both_passes_and_needs_a_roof(machine):
    MachineFolder(machine, "bench").put_run(run(phase=STEP), samples(3, phase=STEP))
    (step,) = (each for each in timings.read(machine) if each.setting.phase == STEP)
    assert step.work.calls == 9
    (machine / "machines" / "bench" / "roofs.csv").unlink()
    assert timings.read(machine) == []


def test_the_weight_of_a_setting_is_the_root_of_its_rows():
    timed = rows_of([*additive(models=16), call("timm:lone.a1", 1.0, work(1.0), BEAD._replace(device="Cog 3"))], COSTS)
    assert timed.network[-2:].tolist() == ["net15", "lone"]  # without the library and the weights
    weights = study.weights(timed)
    # 16 rows count as the root of 16: a quarter as much each as the lone one, and 1 in the mean
    assert weights[-1] / weights[0] == pytest.approx(4)
    assert weights.mean() == pytest.approx(1)


def measured_on(device, batch, latency_s, software="2.14.0", **changed):
    setting = Setting(device, HERE, software, "bf16", "eager", INFERENCE)
    return call(f"net{batch}", latency_s, work(1.0, batch=batch), setting, machine=device, **changed)


def test_a_hosts_launches_come_from_its_smallest_batch():
    calls = [
        *(measured_on("new", 1, 1e-6 * 100 * each) for each in (20, 30, 70)),  # 100 operators in 2, 3 and 7 ms
        measured_on("new", 64, 1.0),
        measured_on("old", 1, 1e-3, "2.9.1"),
        measured_on("slow", 1, 4e-3),
        measured_on("chip", 1, 1.0, chip_kind="cpu"),  # its own host
        call("net", 1.0, work(1.0), BEAD._replace(variant="torch.compile")),  # its host is unknown
    ]
    costs = timings.launch_costs(calls)
    hosts = timings.hosts_of(timings.host_costs(costs))
    assert hosts["new", INFERENCE] == hosts["", INFERENCE] == pytest.approx(30)
    assert (hosts["old", INFERENCE], hosts["slow", INFERENCE]) == pytest.approx((10, 40))
    assert hosts["", STEP] == timings.HOST_US
    rows = rows_of([calls[0], calls[4], *calls[-2:]], costs)
    # 100 operators on the own and the older host, 30 on the reference; a processor keeps its launches as a term
    assert rows.launch_s.tolist() == pytest.approx([3e-3, 1e-3, 0.0, 2.1e-3])
    assert rows[LAUNCHES].tolist() == pytest.approx([0.0, 0.0, 1e-4, 0.0])


def test_the_host_of_published_timings_takes_the_least_time():
    step = BEAD._replace(phase=STEP)
    calls = [
        call("slow", 9e-3, work(1.0), BEAD),  # 90 us for each of 100 operators
        call("quick", 4e-3, work(1.0), BEAD._replace(precision="fp32")),  # 40 us
        call("fused", 1e-3, work(1.0), BEAD._replace(variant="torch.compile")),
        call("slow", 20e-3, work(1.0), step),
        call("slow", 9e-3, work(1.0), BEAD._replace(device="Cog 3")),  # another host
    ]
    costs = timings.launch_costs(calls)
    assert timings.hosts_of(timings.host_costs(costs))["", INFERENCE] == timings.HOST_US == 25
    rows = rows_of(calls, costs)
    # 100 operators at 40 us, and as compiled 0.7 of them; in a step 1.8 * 40 us; on the other host 90 us
    assert rows.launch_s.tolist() == pytest.approx([4e-3, 4e-3, 2.8e-3, 7.2e-3, 9e-3])
    assert rows.host.tolist() == pytest.approx([1.6, 1.6, 1.6, 72 / 25, 3.6])


SMALL = Size((PREFILL, DECODE), 8, 3, 4, 2, 16, 100, 64)
"""Three layers of width 8 with keys of width 4: 8 * (2 * 8 + 2 * 4 + 3 * 16) = 576 parameters each, 800 of the head."""


def test_a_token_reads_the_parameters_and_half_of_the_cache():
    found = timings.work_of_tokens(SMALL, DECODE, 10)
    assert found.parameter_byte == 2 * (3 * 576 + 800)
    assert found.flop[PLACE["linear"]] == 2 * (3 * 576 + 800)
    # Keys and values of 5 tokens, 4 wide, in three layers; a score and a sum for each of 8
    assert found.footprint_byte - found.parameter_byte == 2 * 2 * 4 * 5 * 3
    assert found.flop[PLACE["attention"]] == 4 * 5 * 8 * 3
    assert found.sort == "decoding"


def test_a_prompt_reads_the_parameters_once_and_scores_one_token():
    found = timings.work_of_tokens(SMALL, PREFILL, 10)
    assert found.flop[PLACE["linear"]] == 2 * (10 * 3 * 576 + 800)
    assert found.flop[PLACE["attention"]] == 4 * 10 * 10 * 8 * 3
    assert found.byte[PLACE["other"]] == 4 * 2 * 4 * 10 * 10 * 3  # four heads' scores, written and read


def test_the_sizes_are_as_published():
    # 16.06 GB at 16 bits with the embedding of 128,256 by 4,096, which a token reads one row of
    size = timings.LLAMAS["LLaMA 3 8B"]
    embedding = 2 * size.vocabulary * size.width
    assert timings.work_of_tokens(size, DECODE, 1).parameter_byte + embedding == pytest.approx(16.06e9, rel=1e-3)


def test_a_published_rate_is_a_timed_call(data):
    rows = [
        PublishedTokens("made", "NVIDIA T4", gpus, "LLaMA 3 8B", weights, phase, 512, 20.0)
        for gpus, weights, phase in ((1, "F16", DECODE), (1, "F16", PREFILL), (2, "F16", DECODE), (1, "Q4_K_M", DECODE))
    ]
    path = file_of(PublishedTokens, data)
    path.parent.mkdir(parents=True)
    write(path, PublishedTokens, rows)
    # A token at 20 a second; 512 tokens of a prompt
    calls = list(timings.served(data))
    found = [(call.chip_kind, call.setting.ran_with, call.latency_s) for call in calls]
    assert found == [("tokens", (), 0.05), ("prompts", (), 25.6), ("tokens", ("Q4_K_M",), 0.05)]
    # A file of 4.58 GiB without its embedding of 128,256 by 4,096 numbers of 4.5 bits; as many FLOP as at 16 bits
    wide, _, narrow = (call.work for call in calls)
    assert narrow.parameter_byte == pytest.approx(4.58 * 2**30 - 128256 * 4096 * 4.5 / 8)
    assert wide.byte.sum() - narrow.byte.sum() == pytest.approx(wide.parameter_byte - narrow.parameter_byte)
    assert narrow.unpacked_flop == wide.flop[PLACE["linear"]]
