"""The chapter on utilisation, from the rules of the world (tests/data/world/README.md); k counts its six networks."""

from dataclasses import replace
from statistics import median

import pandas as pd
import pytest
from helpers.world import CPU, GPU, cells_of, numbers, rows_of, world, wrong

from measure.cache.project import MACHINES
from report import display, facts
from report.chapters.utilisation import figures, tables
from report.chapters.utilisation.gap import batch_sizes, gap_terms, is_reference, shown_batches

PARAMETERS = (8, 1, 7, 2, 6, 3)
SIX = range(6)
SHARE = [0.3 + 0.05 * k for k in SIX]
"""The operating system's share at 64, ten times the share at 1."""
GAIN = [2 + k / 10 for k in SIX]
LOWER = [3 + k / 10 for k in SIX]


def latency_s(k):
    """Of 64 inputs: twice 10 ms * 2^k each, twice that for k = 2 and 5."""
    return 64 * 0.02 * 2**k * (2 if k % 3 == 2 else 1)


def norm_mb(k):
    return PARAMETERS[k] / 2 + 64 * (2 * (k + 2) + k * k)


def layers_s(k):
    """Least time at 100 GFLOP/s and 10 GB/s: stem, features and head are compute-bound, the others have bytes alone."""
    return 0.64 * 2**k + (norm_mb(k) + 64 * (k + 2)) / 1e4


def test_facts_by_hand():
    layers = [layers_s(k) / latency_s(k) for k in SIX]
    shares = [0.03 + 0.005 * k for k in SIX]
    fault = median(SHARE[k] * latency_s(k) * 2 / (64_000 * (k + 1)) for k in SIX[1:])  # of the others, on two threads
    expected = {
        "roofs.peak": 1e11, "roofs.bandwidth": 1e10, "roofs.ridge": 10, "roofs.cache_gain": 500 / 10,
        "gap.batch": 64, "gap.networks": 6,
        "gap.between": median(layers_s(k) / (0.64 * 2**k) for k in SIX),
        "gap.system": 0.425,
        "gap.rest": median(1 - each - share for each, share in zip(layers, SHARE, strict=True)),
        "gap.first_batch": 1,
        "gap.first_system": median([*shares, 0.1, 0.1]),  # with lean and deep
        "gap.drift": 1.02,
        # An input takes 0.8 of the time at 8, and twice the time at 64
        "batching.eager": 0.4, "batching.losing": 6, "batching.of": 6,
        "batching.kept": median(0.4 * gain / 1.25 for gain in GAIN),
        "gains.kept": 2.25, "gains.kept_surely": 6, "gains.kept_of": 6, "gains.kept_most": 2.5,
        "gains.kept_most.name": "ResNet-50",
        "gains.kept_high": 2.25,  # shares of 0.3 to 0.55
        "gains.excess": median(gain * (1 - share) for gain, share in zip(GAIN, SHARE, strict=True)),
        # Ranks 1 to 12 of the shares; of the gains 6 to 1, for 1.1 - k / 100 at batch size 1, and 7 to 12
        "gains.agreement": 1 - 6 * 2 * (25 + 9 + 1) / (12 * 143),
        # The smaller shares are those of k = 0 to 2; each gain is more than 1 / (1 - share), at most 2.5 over 2.22
        "gains.checked": 6, "gains.met": 6, "gains.excess_low": 2.1 * 0.65, "gains.excess_high": 2.4 * 0.5,
        "gains.lower": 3.25, "gains.both": 3.25 * 1.5,
        "gains.lower_kept": median(1.5 * lower / gain for lower, gain in zip(LOWER, GAIN, strict=True)),
        # 64 inputs of 1 GFLOP and 0.501 MB each, 32 MB of parameters; bytes between layers 10.1 * 2 MB each
        "example.network": "MobileNet-v2", "example.peak": 1e11, "example.bandwidth": 1e10, "example.flop": 64e9,
        "example.arithmetic": 0.64, "example.byte": 64.064e6, "example.transfer": 6.4064e-3,
        "example.traffic": 32e6 + 64 * 20.2e6, "example.layers": layers_s(0), "example.latency": 1.28,
        "example.batch": 64, "example.system": 0.3 * 1.28, "example.faults": 64_000, "example.threads": 2,
        "example.others": 5, "example.fault": fault, "example.predicted": 64_000 * fault / 2,
        "example.rest": 0.7 * 1.28 - layers_s(0),
        # The profiler makes 1.02 of 1.2; depthwise layers take 0.4 of the time for 16 MB of parameters and 64 * 10 MB
        "reference.depthwise": 656e6 / (0.4 * 1.28 * 1.02 / 1.2), "reference.depthwise.name": "MobileNet-v2",
        "reference.normalisation": median(
            norm_mb(k) * 1e6 / ((0.15 + k / 100) * latency_s(k) * 1.02 / 1.2) for k in SIX
        ),
        "reference.half": 1, "reference.half.name": "ResNet-50", "reference.faulted": 6000 * 64 * 4096,
        "reference.faulted.name": "ResNet-50",
        "reference.read": 8e9, "reference.copy": 8e9,
        "reference.read_cache": 200e9,
    }  # fmt: skip
    assert wrong("utilisation", world(), expected) == {}


def with_bounds(factor, chosen=(CPU, GPU)):
    """Return the world with other roofs: a layer-by-layer bound of the first machine is so many times as long."""
    first, *others = world(chosen=chosen).machines
    cells = first.cells.assign(operator_bound_s=factor * first.cells.operator_bound_s)
    return replace(world(chosen=chosen), machines=(replace(first, cells=cells), *others))


def test_networks_that_beat_their_bound_show_that_a_roof_is_too_low():
    # At batch size 1, MobileNet-v2, ResNet-18, DenseNet-121 and AlexNet run at the peak, and some layers wait for bytes
    at_one = {"processor.beaten": 4, "processor.first": None, "processor.first_nearest": None}
    last = [layers_s(k) / latency_s(k) for k in SIX]
    assert wrong("utilisation", world(), at_one | {"processor.last": median(last)}) == {}
    # At half the roofs these four do so at 64 as well; all others but lean, which meets its bound, at 1
    low = {"beaten": 8, "layers": None, "nearest": None, "farthest": None, "last": None, "networks": 6}
    low = {f"processor.{key}": value for key, value in low.items()} | {"gap.rest": None}
    assert wrong("utilisation", with_bounds(2), low) == {}
    assert wrong("utilisation", with_bounds(0.5), {"processor.beaten": None}) == {}
    assert facts.of_chapter("utilisation", with_bounds(2)).too_low
    lines = tables.achieved.__wrapped__(with_bounds(2)).splitlines()
    row = next(line for line in lines if line.startswith("| Example CPU") and "| 64 |" in line)
    assert row.split("|")[6].strip() == "–"
    bars = {network for network, *_ in rows_of(figures.gap.__wrapped__(with_bounds(2)), "network", "term")}
    assert bars == {"GoogLeNet", "ResNet-50", "MobileNet-v2", "ResNet-18"}  # the last two on the GPU


def single_s(k):
    """Least time of one input at 100 GFLOP/s and 10 GB/s: ``norm`` and ``pool`` move bytes, the others compute."""
    return 0.01 * 2**k + (PARAMETERS[k] / 2 + 3 * (k + 2) + k * k) / 1e4


def test_the_share_of_the_bound_on_the_processor_by_hand():
    # An input takes 10 ms * 2^k, k = 2 and 5 twice that; the peak allows 10 ms
    first = [single_s(k) / 2 / (0.01 * 2**k * (2 if k % 3 == 2 else 1)) for k in SIX]
    last = [layers_s(k) / 2 / latency_s(k) for k in SIX]
    expected = {
        "device": "Example CPU, Example core, 2 cores", "precision": "fp32", "batch": 64, "networks": 6,
        "layers": median(last), "nearest": last[0], "nearest.name": "MobileNet-v2",
        "farthest": last[5], "farthest.name": "ResNet-50", "common": 6, "first_batch": 1, "middle_batch": None,
        "last_batch": 64, "first": median(first), "last": median(last), "stretch": None,
    }  # fmt: skip
    assert wrong("utilisation", with_bounds(0.5), {f"processor.{key}": value for key, value in expected.items()}) == {}


def bead_s(k):
    """Least time of 64 inputs at 8 TFLOP/s and 500 GB/s."""
    return 0.008 * 2**k + (norm_mb(k) + 64 * (k + 2)) / 5e5


def test_facts_of_a_gpu_by_hand():
    # Kernels are busy for 0.9 - 0.05 k of a latency, a plain call takes 1.02 of it; 32 TFLOP/s at bf16 over 8 at fp32
    idle = [1 - (0.9 - 0.05 * k) / 1.02 for k in SIX]
    shares = [bead_s(k) / 4 / (0.02 * 2 ** (k / 2)) for k in SIX]
    rest = [1 - share - each for share, each in zip(shares, idle, strict=True)]
    expected = {
        "roofs.cache_gain": None, "roofs.lower": "bf16", "roofs.lower_gain": 4,
        "gap.system": None, "example.system": 0.02 * idle[0], "example.faults": None,
        "example.fault": None, "gains.kept": None,
        "batching.first": 8, "batching.last": 64,
        "batching.eager": (64 / 20) / (8 / 4),  # 4 times the time of one input at 8, 20 times at 64
        "gpu.layers": median(shares), "gpu.nearest": shares[5], "gpu.nearest.name": "ResNet-50", "gpu.networks": 6,
        "gpu_lower.layers": None, "gpu_gain.peak": 4, "gpu_gain.least": None,
        "kernels.networks": 6, "kernels.most_idle": idle[5],
        "kernels.most_idle.name": "ResNet-50", "kernels.most_rest": max(rest),
        "kernels_lower.networks": None,
        # Kernels of lean run for 0.1 of 1.0 ms
        "profiled.least_busy": 0.1, "profiled.least_busy.name": "lean, inference at fp32 on the Bead 2",
    }  # fmt: skip
    assert wrong("utilisation", with_bounds(0.25, (GPU, CPU)), expected) == {}
    # At its own roofs DenseNet-121, AlexNet and ResNet-50 beat their bounds at 64
    beaten = {"gpu.beaten": 3, "gpu.layers": None, "kernels.most_rest": None, "kernels.most_idle": idle[5]}
    assert wrong("utilisation", world(chosen=(GPU, CPU)), beaten) == {}


def with_lower_precision(times):
    """Return the world with a GPU that also ran at bf16 and at 256 inputs, ``times`` as long as one by batch size."""
    cpu, gpu = (world().machine(kind) for kind in ("cpu", "gpu"))
    six = gpu.cells[gpu.cells.model.isin(gpu.cells.model[gpu.cells.batch == 64])]
    one = six[six.batch == 1].set_index("model").latency_s
    base = pd.concat([six, six[six.batch == 64].assign(batch=256)])
    lower = base[base.batch.isin(times)].assign(
        precision="bf16", operator_bound_s=lambda rows: rows.operator_bound_s / 4,
        latency_s=lambda rows: rows.model.map(one) * rows.batch.map(times),
    )  # fmt: skip
    return replace(world(), machines=(cpu, replace(gpu, cells=pd.concat([base, lower]))))


def test_a_batch_that_hardly_takes_longer_waits_for_the_host():
    # 64 inputs may take 64 / 4 = 16 times as long as one
    for most, waits in ((15, True), (17, False)):
        paper = with_lower_precision({1: 1, 64: most, 256: 2 * most})
        # At fp32, 64 inputs take 20 times as long as one; 256 were given the times and bounds of 64
        shares = [bead_s(k) / 4 / (2 * most * 0.001 * 2 ** (k / 2)) for k in SIX]
        expected = {
            "gpu.stretch": 20, "gpu_lower.stretch": most, "gpu_lower.middle_batch": 64, "gpu_lower.last_batch": 256,
            "gpu_lower.last": median(shares), "gpu_lower.common": 6, "gpu_gain.networks": 6,
            "gpu_gain.least": 20 / most, "gpu_gain.most": 20 / most,
        }  # fmt: skip
        assert wrong("utilisation", paper, expected) == {}
        assert facts.of_chapter("utilisation", paper).waits_for_host == waits


def test_what_the_chapter_shows_depends_on_the_evidence():
    def conditions(**changes):
        machine = replace(world().at_hand, **changes)
        found = facts.of_chapter("utilisation", replace(world(), machines=(machine,)))
        return found.gap_drawn, found.is_checked

    machine = world().at_hand
    assert conditions() == (True, True)
    assert conditions(variants=machine.variants[:0]) == (True, False)
    assert conditions(profiles=machine.profiles[:0]) == (False, False)


def test_only_a_reader_with_a_machine_of_their_own_sees_references():
    cpu, gpu = world().machines
    ours = replace(gpu, folder=MACHINES[1])
    paper = replace(world(), machines=(cpu, ours))
    assert [is_reference(paper, each) for each in (cpu, ours, None)] == [False, True, False]
    assert not is_reference(replace(paper, machines=(ours,)), ours)


@pytest.mark.parametrize(
    ("batches", "shown"),
    [((1, 8, 64), [1, 64]), ((1, 8, 64, 256), [1, 64, 256]), ((1, 8), [1, 8]), ((2, 4, 8, 16), [4, 8, 16])],
)
def test_the_batch_sizes_of_the_assignment_are_shown_if_they_were_measured(batches, shown):
    machine = world().at_hand
    at_64 = machine.cells[machine.cells.batch == 64]
    changed = replace(machine, cells=pd.concat([at_64.assign(batch=batch) for batch in batches]))
    assert shown_batches(changed) == shown


def test_the_terms_of_a_gap_sum_to_the_latency():
    terms = gap_terms(world().machine("cpu"))
    sums = terms.whole_s + terms.between_s + terms.outside_s + terms.rest_s
    assert sums.tolist() == pytest.approx(terms.latency_s.tolist())
    gpu = world().machine("gpu")
    busy = replace(gpu, profiles=gpu.profiles.assign(busy_s=2 * gpu.profiles.plain_s))
    assert set(gap_terms(busy).outside) == {0}  # never below none, though kernels overlap


@pytest.mark.parametrize(("profiled", "networks"), [(True, 5), (False, 1)])
def test_a_larger_batch_with_too_few_networks_does_not_count(profiled, networks):
    """Profiles of six are needed; without any, the batch sizes count that most networks have."""
    cpu = world().machine("cpu")
    models = set(list(cpu.profiles.model[cpu.profiles.batch == 64])[:networks])

    def larger(rows):
        return pd.concat([rows, rows[(rows.batch == 64) & rows.model.isin(models)].assign(batch=256)])

    profiles = larger(cpu.profiles) if profiled else cpu.profiles[:0]
    changed = replace(cpu, cells=larger(cpu.cells), profiles=profiles)
    assert batch_sizes(changed) == (1, 8, 64)
    found = numbers("utilisation", replace(world(), machines=(changed,)))
    assert (found["gap.batch"], found["batching.eager"]) == (64 if profiled else None, pytest.approx(0.4))


def test_figures_and_tables_show_the_facts():
    bars = rows_of(figures.gap.__wrapped__(world()), "network", "term", "share")
    assert bars[0][0] == "ResNet-50"  # the largest share of the system
    six = {network for network, *_ in bars}
    on_both = {"MobileNet-v2", "ResNet-18", "GoogLeNet"}  # the others beat their bound on the GPU
    assert (len(six), len(bars)) == (6, (6 + 3) * 4)
    for bar in six:
        shares = [share for network, _, share in bars if network == bar]
        assert sum(shares) == pytest.approx(1 + (bar in on_both), abs=1e-4)
    assert [share for *name, share in bars if name == ["ResNet-50", "operating system"]] == pytest.approx([0.55])
    idle = [share for *name, share in bars if name == ["MobileNet-v2", "no kernel runs"]]
    assert idle == pytest.approx([1 - 0.9 / 1.02], rel=1e-5)
    points = rows_of(figures.kept.__wrapped__(world()), "network", "size", "outside", "speed_up")
    assert {row[:2]: row[2:] for row in points}["ResNet-50", "64"] == pytest.approx((0.55, 2.5))
    rates = [rate for (rate,) in rows_of(figures.streams.__wrapped__(world()), "rate")]
    assert pytest.approx(numbers("utilisation", world())["reference.normalisation"], rel=1e-5) in rates
    machine = world().at_hand
    capped = replace(machine, roofs=machine.roofs.assign(peak_note=" (power cap)"))
    roofs = cells_of(tables.roofs.__wrapped__(replace(world(), machines=(capped, *world().machines[1:]))))
    assert (roofs["fp32"][0], roofs["memory"][0]) == ("multiply-add (power cap)", "triad")
    both = next(line for line in tables.gains.__wrapped__(world()).splitlines() if "memory kept and bf16" in line)
    assert "`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1`, `model.bfloat16()`" in both
    assert both.rstrip(" |").split("| ")[-1].startswith("4\\.9")


def test_without_a_cell_no_operator_moves_bytes():
    machine = world().machine("cpu")
    with pytest.raises(display.Missing):
        figures.streams.__wrapped__(replace(world(), machines=(replace(machine, cells=machine.cells[:0]),)))


def test_figures_and_tables_of_roofs_and_throughput():
    roofs = cells_of(tables.roofs.__wrapped__(world()))
    assert roofs["fp32"] == ["multiply-add", "100 (80–125) GFLOP/s"]
    assert (roofs["L1"], roofs["memory"]) == (["triad", "500 GB/s"], ["triad", "10.0 (8.0–12.0) GB/s"])
    points = rows_of(figures.roofs.__wrapped__(world()), "network", "flop_per_s", "traffic_intensity")
    # 64 inputs of 2 GFLOP in 2.56 s; between layers 4 MB of parameters, and 3 * 10.1 + 1 MB an input
    assert ("ResNet-18", 50e9, pytest.approx(64 * 2000 / (4 + 64 * 31.3), rel=1e-5)) in points
    rates = rows_of(figures.throughput.__wrapped__(world()), "network", "memory", "ratio")
    # Over batch size 8; with memory kept the gain is 2.1 at 64 and 1.25 at 8
    assert {row[1]: row[2] for row in rates if row[0] == "ResNet-18"} == pytest.approx(
        {"default": 0.4, "freed memory kept": 0.4 * 2.1 / 1.25}
    )
    lines = tables.achieved.__wrapped__(world()).replace("\\", "").splitlines()
    row = next(line for line in lines if line.startswith("| Example CPU") and "| 64 |" in line)
    # Half of the peak in four of the six, a quarter in two
    assert [cell.strip() for cell in row.split("|")[2:6]] == [
        "64", "6", "50.0\N{NO-BREAK SPACE}GFLOP/s", "50\N{NO-BREAK SPACE}%",
    ]  # fmt: skip
    listed = next(line for line in tables.networks.__wrapped__(world()).splitlines() if line.startswith("| ResNet"))
    # 2 GFLOP in 20 ms at the peak, or at half of it; the bounds are 1.0525 and 0.525 of the latencies
    assert [cell.strip().replace("\N{NO-BREAK SPACE}", " ") for cell in listed.split("|")[2:6]] == [
        "Example CPU", "fp32", "100 GFLOP/s (100 %, 105 %)", "50.0 GFLOP/s (50 %, 53 %)",
    ]  # fmt: skip
    levels = rows_of(figures.sweep.__wrapped__(world()), "name", "last")
    assert levels == [("L1", 60e3), ("L2", 1.92e6), ("memory", 24e6)]
    bf16, kept = (cells_of(tables.gains.__wrapped__(world()))[name] for name in ("bf16", "memory kept"))
    assert bf16[:3] == ["`model.bfloat16()`", "–", "–"]
    assert bf16[3].startswith("3.25")
    assert [value.split()[0] for value in kept[1:]] == ["1.075", "1.25", "2.25"]
