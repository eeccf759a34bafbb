"""Findings on the tiny cache, against arithmetic by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import many, tiny, wide, with_cells
from helpers.sentences import plain

from measure.domain.words import FLAGS
from report import findings
from report.analysis.available import Missing
from report.load.paper import Clock


def test_workload():
    text = plain(findings.workload.spans(tiny()))
    assert "4 models of 4 families" in text
    assert "100 MFLOP (lean) to 5.00 GFLOP (deep) for one input." in text
    assert "1.00 M parameters (lean) to 25.0 M parameters (broad)." in text
    assert "10.0 MB (lean) to 102 MB (broad)." in text
    # broad 510e6 / 25e6 = 20.4; deep 5e9 / 10e6 = 500
    assert "20.4 FLOP in broad and in 500 in deep" in findings.workload.unlike(tiny())
    # growth from 1 to 8: lean 15.38/10, broad 35.17/5, deep 333.3/100, tokens 133.3/40: median of 1.54 3.33 3.33 7.03
    text = plain(findings.workload.intensities(tiny()))
    assert "from 5.00 FLOP/B (broad) to 100 FLOP/B (deep)" in text
    assert "grows 3.33 times in the median, most in broad (7.03 times) and least in lean (1.54 times)" in text
    assert "4 models" in plain(findings.workload.inputs(tiny()))
    assert "3×224×224" in findings.workload.inputs(tiny())
    # shares at batch 1: .4 .9804 .8 .8 -> median .8; at 8: 4/52 100/116 40/120 80/240 -> .333
    assert plain(findings.workload.parameter_share(tiny())) == (
        "In the median of 4 models, parameters are 80 % of the footprint at batch size 1 and 33 % at 8."
    )


def test_how_long_a_sound_is():
    counted = tiny().workloads
    sound = counted[counted.model == "lean"].assign(model="wav2vec2_base", family="audio", input_shape="160000")
    text = plain(findings.workload.inputs(replace(tiny(), workloads=pd.concat([counted, sound]))))
    assert text.endswith("and 160000 for wav2vec2_base. Of sound, 160000 samples are 10 s at 16 kHz.")
    assert "Of sound" not in findings.workload.inputs(tiny())


def language(model, rows):
    """A row of these, as that of a language model."""
    return rows[rows.precision == "fp32"].iloc[:1].assign(model=model, family="language", input_shape="512")


def test_language_models_read_tokens():
    rows = tiny().workloads[tiny().workloads.batch == 1]
    models = [language(name, rows) for name in ("gpt2_prefill_512", "gpt2_decode_128", "bert_base_encode_128")]
    text = plain(findings.workload.inputs(replace(tiny(), workloads=pd.concat([rows, *models]))))
    assert text.endswith("Language models read 128 to 512 tokens and generate one token after 128 tokens.")
    assert "512 for" not in text
    alone = replace(tiny(), workloads=models[0])
    assert plain(findings.workload.inputs(alone)) == "Language models read 512 tokens."


def test_what_decodes_lacks_no_backward_pass():
    rows = tiny().workloads
    decoding = language("gpt2_decode_128", rows).assign(backward_gap="a token is decoded in inference alone")
    text = findings.workload.gaps(replace(tiny(), workloads=pd.concat([rows, decoding])))
    assert "gpt2_decode_128" not in text
    assert "the backward pass of broad" in text


def test_why_intensity_grows():
    # 100 of broad's 102 MB are parameters: at most 51 times; 4 of lean's 10 MB: at most 10 / 6
    text = plain(findings.workload.growth_limits(tiny()))
    assert "In broad 98.0 % of one input's footprint does not grow with the batch" in text
    assert "by a factor of 51.0. In lean that part is 40.0 %, and the factor is at most 1.67." in text


def test_flop_and_footprint():
    # In rising order, FLOP: lean, broad, tokens, deep; footprints: lean, deep, tokens, broad. The ranks differ by
    # 0, 2, 0 and 2: 1 - 6 (4 + 4) / (4 (16 - 1)) = 0.2; parameters have the order of footprints.
    text = plain(findings.workload.flop_and_footprint(tiny()))
    assert "rank correlation of 0.20, and the number of parameters with 0.20 (Spearman's, of 4 models)" in text
    two = replace(tiny(), workloads=tiny().workloads[tiny().workloads.model.isin(["lean", "deep"])])
    assert "fewer than three models" in findings.workload.flop_and_footprint(two)


def test_what_was_not_counted():
    text = plain(findings.workload.gaps(tiny()))
    assert "Not counted: opaque (unsupported: its shapes depend on its values)." in text
    assert (
        "At batch size 1 the backward pass of broad was not counted (ValueError: Expected more than 1 value per "
        "channel when training)." in text
    )
    assert "no formula, so their FLOP are missing: special_zeta in tokens (at most 1.0 % of its traffic)." in text
    whole = tiny().workloads.assign(uncounted=None, backward_gap=None)
    all_of_them = replace(tiny(), workloads=whole, not_counted=tiny().not_counted.iloc[:0])
    assert findings.workload.gaps(all_of_them) == (
        "Every model that was tried was counted. Every operator that does arithmetic has a formula."
    )


def test_models_that_failed_are_named_though_none_was_counted():
    none = replace(tiny(), workloads=tiny().workloads.iloc[:0])
    assert "Not counted: opaque" in findings.workload.gaps(none)


def test_layers():
    # FLOP in products: 100 / 110, 510 / 515, 5000 / 5050, 4080 / 4100 (deep's normalisation does 50, attention's
    # softmax counts to attention): the median of 0.990 and 0.990. Bytes: lean 15 of 20 MB, broad 115 of 120,
    # deep 51.5 of 62.5 (its norm has 2 MB of parameters), tokens 122 of 160: the median of 0.763 and 0.824.
    text = plain(findings.layers.kinds(tiny()))
    assert "do 99.0 % of the FLOP, and move 79 % of the bytes" in text
    assert "up to 25 % (lean)" in text
    # activation: (5 / 20 + 5 / 120) / 4; normalisation: (11 / 62.5 + 38 / 160) / 4
    assert "On average most of it is moved by normalisation (10 % of the traffic), then activation (7.3 %)." in text
    # 24 of 25 M parameters and 102 of 515 MFLOP
    assert "in broad, linear layers hold 96 % of the parameters and do 20 % of the FLOP" in plain(
        findings.layers.parameters_apart(tiny())
    )


def test_depthwise_convolutions():
    layers = tiny().layers
    assert "none has depthwise" in findings.layers.depthwise(tiny())
    # lean 90 MFLOP and 10 MB, deep 4.9 GFLOP and, say, 980 MB; as a whole 10 and 100 FLOP/B, the ridge points 10 and 16
    which = (layers.layer_kind == "convolution") & layers.model.isin(["lean", "deep"]) & (layers.batch == 1)
    changed = layers.assign(
        layer_kind=layers.layer_kind.where(~which, "depthwise convolution"),
        traffic_byte=layers.traffic_byte.where(~which | (layers.model == "lean"), 980e6),
    )
    text = plain(findings.layers.depthwise(replace(tiny(), layers=changed)))
    assert "In the 2 models that have them, depthwise convolutions do 5.00 (deep) to 9.00 (lean) FLOP for" in text
    for machine in ("Example CPU (4 cores) is 10.0", "Example GPU is 16.0"):
        assert (
            f"The ridge point of the {machine} FLOP/B: by footprint 1 of these models as a whole lies above it, and in "
            "1 of those the depthwise convolutions lie below." in text
        )
    text = findings.layers.depthwise(replace(tiny(), layers=changed, machines=()))
    assert text.endswith("No machine has been measured yet; `python -m measure` measures this one.")


def test_definitions_of_intensity():
    # Traffic over footprint at batch 1: 20 / 10, 120 / 102, 62.5 / 50, 160 / 100: the median of 1.25 and 1.6
    # compulsory: 4.504 / 10, 100.504 / 102, 40.504 / 50, 80.504 / 100: the median of 0.805 and 0.810
    text = plain(findings.bounds.definitions(tiny()))
    assert "at batch size 1 traffic is 1.43 times the footprint, and compulsory bytes are 81 % of it" in text
    assert "at batch size 8 traffic is 2.39 times" in text  # 132/52 260/116 220/120 720/240
    assert "the largest in lean (4.44)" in text  # 20 / 4.504
    assert "lowest intensity by traffic, 4.25 FLOP/B, is that of broad" in text  # 510 / 120


def test_models_on_the_roofs():
    # Below 10 FLOP/B by footprint broad at batch size 1, at 8 none; by traffic lean, 5 and 800 / 132 = 6.06, and broad,
    # 4.25 and 15.7
    assert plain(findings.bounds.on_roofs(tiny())).startswith(
        "Under the measured fp32 roof of the Example CPU (4 cores), of 4 models, 1 (by footprint) to 2 (by traffic) at "
        "batch size 1, and none (by footprint) to 1 (by traffic) at batch size 8 wait for memory."
    )
    ours = {f"{definition}_intensity": 1e6 for definition in ("footprint", "compulsory", "traffic")}
    high = replace(tiny(), workloads=tiny().workloads.assign(**ours))
    assert "none by any definition at batch size 1, and none by any" in plain(findings.bounds.on_roofs(high))


def test_batch_sizes_at_which_few_models_were_counted_are_left_out():
    rows = tiny().workloads
    few = rows[rows.model == "lean"].assign(batch=16)
    text = plain(findings.bounds.on_roofs(tiny()))
    assert plain(findings.bounds.on_roofs(replace(tiny(), workloads=pd.concat([rows, few])))) == text
    many_at_16 = pd.concat([rows, rows[rows.batch == 8].assign(batch=16)])
    assert "at batch size 16 wait" in plain(findings.bounds.on_roofs(replace(tiny(), workloads=many_at_16)))


def test_crossings():
    # Of the four on Abacus 9 at fp32, ridge 10 FLOP/B, broad begins below: b 510 / (100 + 2 b) is 10 at b = 2.04
    text = plain(findings.bounds.crossings(wide()))
    assert (
        "On the Abacus 9 at fp32 (ridge point 10.0 FLOP/B) 1 of 4 models is memory-bound by footprint at batch size 1, "
        "none of them at every batch size; the other crosses the ridge point at batch size 3 (broad)." in text
    )
    # Of the chips most are on D4 at bf16, ridge 800: the limits are 33.3, 510, 1000 and 400; the A1 GPU, with 2, is
    # between both and not told of
    assert "4 of 4 models are memory-bound by footprint at batch size 1, 3 of them at every batch size; the" in text
    assert "crosses the ridge point at batch size 16 (deep)." in text
    assert text.count("ridge point ") == 2 + 2


def test_crossings_at_a_precision_that_was_not_counted():
    full = replace(wide(), workloads=wide().workloads[wide().workloads.precision == "fp32"])
    text = findings.bounds.crossings(full)
    assert "at bf16 (" not in text
    assert text.endswith("`python -m measure --sections workload --precisions bf16` counts them.")


def test_backward():
    # lean 1.9, broad 8032 / 4080 = 1.969, deep 1.98, tokens 2
    text = plain(findings.training.flop_ratios(tiny()))
    assert "takes 1.974 times" in text
    assert "in the median of 4 models. The ends are 1.900 (lean) and 2.000 (tokens)." in text
    # lacking to two: 80, 128, 800 and 0 MFLOP; the first layers do 720, 3264, 39200, 24000
    assert "In none of 4 models" in text
    first = tiny().layers.assign(forward_flop=tiny().layers.forward_flop.where(tiny().layers.model != "lean", 80e6))
    text = plain(findings.training.flop_ratios(replace(tiny(), layers=first)))
    assert "In 1 of 4 models what it lacks to two is, to the last FLOP, the work of the first layer" in text
    # 3.2 of 32 GFLOP
    assert "1 model computes parts" in plain(findings.training.recomputation(tiny()))
    assert "at most 10 % of the forward FLOP (tokens)" in plain(findings.training.recomputation(tiny()))
    without = replace(tiny(), workloads=tiny().workloads.assign(recompute_flop=0.0))
    assert findings.training.recomputation(without) == "No model computes a part of the forward pass again."


def test_backward_without_layers():
    text = findings.training.flop_ratios(replace(tiny(), layers=tiny().layers.iloc[:0]))
    assert "1.974" in text
    assert "layers.csv holds no layer" in text


def test_training_memory():
    # 60 / 20, 306 / 110, 200 / 70, 420 / 150: 3, 2.78, 2.86, 2.8
    text = plain(findings.training.memory(tiny()))
    assert "At batch size 8 a training step's peak is 2.83 times that of inference in the median" in text
    assert "at most 3.00 times (lean). The highest is 420 MB (tokens)" in text
    # saved 40 / 60, 12 / 306, 72 / 200, 160 / 420: the median of 36 and 38.1 %
    assert "37 % of the peak in the median, least in broad (3.9 %)" in text
    # sums 52 / 60, 312 / 306, 192 / 200, 400 / 420
    assert "is between 86.7 % and 102 % of the peak" in text
    assert "SGD with momentum is 1.00 times the parameters in the median, that of Adam 2.00 times" in plain(
        findings.training.optimisers(tiny())
    )


def test_machines():
    text = findings.machines.shown(tiny())
    assert "2 machines: the Example CPU (4 cores) and the Example GPU." in plain(text)
    only_cpu = replace(tiny(), machines=tiny().machines[:1])
    assert "GPU" not in findings.machines.shown(only_cpu)  # what a reader may not have goes unsaid
    text = plain(findings.machines.outcome(tiny()))
    assert "On the Example CPU (4 cores), 8 of 9 cells were measured; 1 ran out of memory." in text
    assert "1 cell has one round of fewer than 6 samples" in text
    assert "7 cells have an interval of one round, so of one process" in text
    assert "On the Example GPU, all 2 cells that were tried were measured." in text
    assert "torch 2.14.1 on Python 3.12.1 with 2 threads (environment cpu-new" in plain(
        findings.machines.environments(tiny())
    )
    first = tiny().machines[0]
    tuned = replace(first.environment, tuning="LD_PRELOAD=libx.so;OMP_PROC_BIND=close")
    assert "with 2 threads, LD_PRELOAD=libx.so and OMP_PROC_BIND=close (environment" in plain(
        findings.machines.environments(replace(tiny(), machines=(replace(first, environment=tuned),)))
    )


@pytest.mark.parametrize("flag", FLAGS)
def test_each_flag_has_words(flag):
    cpu = tiny().machine("cpu")
    flagged = replace(tiny(), machines=(replace(cpu, cells=cpu.cells.assign(flags=flag)),))
    assert "Hollow as well: 8 cells " in plain(findings.machines.outcome(flagged))


def test_latency():
    text = plain(findings.benchmarks.latency(tiny()))
    assert "4 models were measured at fp32" in text
    assert "A batch of 1 takes 4.00 ms (lean) to 100 ms (deep). One of 8 takes 16.0 ms (lean) to 320 ms (deep)." in text
    # lean's half width: (5.0 - 3.8) / 2 / 4.0 = 15 %; the others' samples are equal
    assert "at most 15 %" in text


def test_throughput():
    text = plain(findings.benchmarks.throughput(tiny()))
    assert "The highest throughput of the Example CPU (4 cores) is 500 inputs/s, by lean at batch size 8." in text
    # lean 500/250 = 2, broad 166.7/50 = 3.33, deep 25/10 = 2.5; tokens has one batch size only
    assert "Of batch sizes 1 and 8, 8 gives the highest throughput for 3 of 3 models." in text
    assert "2.50 times the throughput of the smallest in the median, and 3.33 times for broad" in text
    # lean at bf16 8 ms against 4 ms
    assert "1 model, each in the median of its batch sizes, runs 0.500 times as fast as at fp32 in the median" in text
    assert "Too few models were measured at several batch sizes" in findings.benchmarks.throughput(tiny())


def test_tails():
    # Half of the models' calls take 1.5 times the median or longer in the slowest twentieth, of b at 4 three times.
    cpu = many().machine("cpu")
    factor = 1.5 + 1.5 * ((cpu.cells.model == "b") & (cpu.cells.batch == 4))
    slow = replace(cpu, cells=cpu.cells.assign(tail_s=cpu.cells.latency_s * factor))
    text = plain(findings.benchmarks.tails(replace(many(), machines=(slow, many().machine("gpu")))))
    assert "takes 1.50 times the median or longer, in the median of 8 models; the longest tail has b at batch " in text
    assert "size 4, 3.00 times its median. On the Example GPU too few single calls were timed" in text


def test_a_model_that_was_not_measured_at_all_batch_sizes_is_in_no_row_of_medians():
    # h and g are the slowest on the CPU, and g was not measured at 16.
    text = plain(findings.benchmarks.latency(many()))
    assert "A batch of 1 takes 10.0 ms (a) to 1.28 s (h). One of 16 takes " in text
    cpu = many().machine("cpu")
    without_h = replace(many(), machines=(replace(cpu, cells=cpu.cells[cpu.cells.model != "h"]),))
    assert "A batch of 1 takes 10.0 ms (a) to 320 ms (f)" in plain(findings.benchmarks.latency(without_h))


def test_repeatability():
    def text(scatter, count):
        cpu = many().machine("cpu")
        cells = cpu.cells.assign(scatter=[scatter] * count + [float("nan")] * (len(cpu.cells) - count))
        return plain(findings.machines.repeatability(replace(many(), machines=(replace(cpu, cells=cells),))))

    # Student's t at 96 % is 4.849 of 2 degrees of freedom and 2.449 of 8: exp(4.849 * 0.1 / 3**0.5) is 1.32,
    # exp(2.449 * 0.1 / 3) 1.085. Of 19 it is 2.205, and exp(2.205 * 0.1 / 20**0.5) 1.0505; of 20 2.197 and 1.0491.
    assert text(0.1, 20) == (
        "On the Example CPU (4 cores) rounds of one cell, between which nothing is changed, scatter by 10 % (standard "
        "deviation, in the median of 20 cells). 3 of them leave an interval of ±32 %, 9 one of ±8.5 %. ±5 % would "
        "take 21 rounds of half of its cells, and more of the others."
    )
    # exp(2.449 * 0.05 / 3) is 1.042
    assert text(0.05, 20).endswith("9 one of ±4.2 %.")
    assert text(0.1, 0).endswith("no cell was measured twice, so its repeatability is not known.")


def test_energy():
    cpu = many().machine("cpu")
    # a to h have 1, 2, 4 … 128 GFLOP an input: at 1 GFLOP/J as many joules, and h was not measured at every size
    cells = cpu.cells.assign(energy_j=cpu.cells.forward_flop / 1e9)
    text = plain(findings.benchmarks.energy(replace(many(), machines=(replace(cpu, cells=cells),))))
    assert text.startswith(
        "An input on the Example CPU (4 cores) takes at batch size 1 from 1.00 J (a) to 128 J (h), 1.00 GFLOP/J in the "
        "median of 7 models; at batch size 4 from 1.00 J (a)"
    )
    assert plain(findings.benchmarks.energy(replace(many(), machines=(cpu,)))) == (
        "The Example CPU (4 cores) has no counter of energy that could be read, so none was measured."
    )


def test_saturated():
    text = plain(findings.benchmarks.saturated(many()))
    # On the CPU a to f are saturated at 4 of 1, 4 and 16; g did not fit at 16, and h gains there.
    assert "8 models were measured at batch sizes from 1 to 16." in text
    assert "with 95 % of the best throughput is below the largest for 6 models of 8. It is 4 in the median." in text
    # 100 GFLOP/s is the peak, and throughput twice that of batch size 1, which has it.
    assert "arithmetic limits 6 models from there on, at 200 % of the attainable rate in the median." in text
    assert "At the largest size 1 model keeps less than 95 % of the best throughput, a 50 %" in text
    assert "1 model ran out of memory before: g." in text
    assert "1 model may gain by batches larger than were measured (h)." in text
    # On the GPU all still gain at 16.
    assert "is below the largest for no model of 8. 8 models may gain by batches larger than were measured." in text
    assert "Example GPU over a full sweep of batch sizes" in plain(findings.benchmarks.saturated(tiny()))


def test_saturated_in_each_variant():
    # With memory kept throughput is twice that of eager mode at every batch size
    cpu = many().machine("cpu")
    kept = cpu.cells.assign(variant="kept_memory", throughput_per_s=2 * cpu.cells.throughput_per_s)
    text = plain(findings.benchmarks.saturated(replace(many(), machines=(replace(cpu, variants=kept),))))
    assert text.startswith(
        "On the Example CPU (4 cores) in eager mode, 8 models were measured at batch sizes from 1 to"
    )
    assert "With kept_memory, 8 models were measured at batch sizes from 1 to 16." in text
    assert text.endswith(
        "The best throughput with kept_memory is 2.00 times the best in eager mode, whatever the batch sizes of both, "
        "in the median of 8 models, and higher for 8."
    )


def test_roofs():
    text = plain(findings.utilisation.roofs(replace(tiny(), machines=(tiny().machine("cpu"),))))
    assert "100 GFLOP/s for arithmetic and 10.0 GB/s for memory; they meet at the ridge point of 10.0 FLOP/B" in text
    # 100 of 128 GFLOP/s
    assert (
        "is derived: 2 cores × 32 FLOP/cycle (Example core, avx2) × 2.00 GHz = 128 GFLOP/s, of which 78 % was "
        "measured" in text
    )
    assert "what it says (ExampleVendor family 1 model 5)" in text
    assert "a floating-point addition took 3.00 cycles" in text
    assert "At no precision was more measured than derived" in text
    # 8 of 10 TFLOP/s; 500 of 1000 GB/s
    text = plain(findings.utilisation.roofs(replace(tiny(), machines=(tiny().machine("gpu"),))))
    assert "80 % of that peak and 50 % of that bandwidth were measured" in text


def test_roofs_without_a_datasheet():
    cpu = tiny().machine("cpu")
    text = findings.utilisation.roofs(replace(tiny(), machines=(replace(cpu, clock=None),)))
    assert "of the Example CPU stands alone: no datasheet roof can be derived, since its clock was not measured" in text
    slow = replace(cpu, clock=Clock(1e9, None))
    # 100 GFLOP/s measured, 2 * 32 * 1 GHz = 64 GFLOP/s derived
    text = plain(findings.utilisation.roofs(replace(tiny(), machines=(slow,))))
    assert "Of the derived peak 160 % at fp32 was measured, so one of these assumptions does not hold" in text
    assert "floating-point addition" not in text


def test_one_cell():
    one = with_cells(lambda cells: (cells.model == "lean") & (cells.batch == 1) & (cells.precision == "fp32"))
    assert "A batch of 1 takes 4.00 ms (lean, the only one measured)." in plain(findings.benchmarks.latency(one))
    assert "The one cell measured (lean) achieves 25 %" in plain(findings.utilisation.attained(one))
    assert "1 model was measured" in plain(findings.benchmarks.latency(one))


def test_only_failed_cells():
    failed = with_cells(lambda cells: cells.status != "ok")
    for text in (findings.benchmarks.latency(failed), findings.utilisation.attained(failed)):
        assert isinstance(text, Missing)
        assert "`python -m measure --device cpu" in text
    assert "none of 1 cell was measured; 1 ran out of memory" in plain(findings.machines.outcome(failed))
    untried = findings.machines.outcome(with_cells(lambda cells: cells.status == "never"))
    assert "no cell of inference was tried; `python -m measure --device cpu --sections workload" in untried
    assert "`python -m measure" in findings.machines.measured(failed)


def test_abstract():
    text = plain(findings.workload.scope(tiny()))
    assert "4 models of 4 families" in text
    text = plain(findings.machines.measured(tiny()))
    assert (
        "On the Example CPU (4 cores) 8 of 9 cells were measured; 1 ran out of memory. Of the measured ones 6 have a "
        "95 % interval within ±5 %, and none carry a flag." in text
    )
    # By footprint lean attains 25 and 50 %, broad 51 and 85, deep 50 and 125, tokens 80: by model 37.5, 68, 88 and 80
    assert "Of what it allows 4 models, each in the median of its batch sizes, achieve 74 % in the median." in text
    assert "On the Example GPU all 2 cells" in text
    shared = replace(tiny().machine("cpu").environment, hypervisor="KVM")
    virtual = replace(tiny(), machines=(replace(tiny().machine("cpu"), environment=shared),))
    assert "On the Example CPU (4 cores), a virtual machine under KVM, 8 of 9 cells" in plain(
        findings.machines.measured(virtual)
    )


def test_what_one_machine_lacks_is_said_beside_what_the_other_has():
    cpu, gpu = tiny().machine("cpu"), tiny().machine("gpu")
    bare = replace(gpu, roofs=gpu.roofs.iloc[:0])
    text = plain(findings.utilisation.roofs(replace(tiny(), machines=(cpu, bare))))
    assert "The measured roof of the Example CPU" in text
    assert "The fp32 roof of the Example GPU has not been measured; `python -m measure --device cuda" in text
