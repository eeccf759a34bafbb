import json
import shutil

import pytest
from helpers.places import ROOT

from measure import __main__ as command
from measure.verbs.predict_tokens import ASKED

LLAMA = "hf:meta-llama/Meta-Llama-3.1-70B"
CHIP = "NVIDIA H100 SXM"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache: counts, chips and fits are the project's."""
    monkeypatch.chdir(tmp_path)


def predict(capsys, *words, model=LLAMA):
    code = command.main(["predict", model, *words, "--data", "cache"])
    return code, capsys.readouterr()


def predicted(capsys, *words):
    code, printed = predict(capsys, *words, "--json")
    assert code == 0, printed.err
    return json.loads(printed.out)


def test_eight_gpus_serve_a_model(capsys):
    words = "--chip", CHIP, "--gpus", "8", "--tp", "8", "--batch-sizes", "1", "64", "--context", "4096"
    found = predicted(capsys, *words, "--output", "512", "--weights", "fp8", "--cache", "fp8", "--price", "2.5")
    assert (found["gpus"], found["context_tokens"], found["output_tokens"]) == (8, 4096, 512)
    one, many = found["predictions"]
    assert (one["requests"], many["requests"]) == (1, 64)
    for row in (one, many):
        for part in ("first", "further"):
            assert row[part]["low_s"] < row[part]["likely_s"] < row[part]["high_s"]
        rate = row["requests"] / row["further"]["likely_s"]
        assert row["tokens_per_s"] == pytest.approx(rate)
        assert row["tokens_per_s_per_user"] == pytest.approx(rate / row["requests"])
        # 8 GPUs at 2.50 an hour, 3,600 seconds, a million tokens; 700 W each
        assert row["cost_per_million_tokens"] == pytest.approx(8 * 2.5 / 3600 / rate * 1e6)
        assert row["tokens_per_j"] == pytest.approx(rate / (8 * 700))
        assert row["fits"] is True
    assert one["further"]["likely_s"] < many["further"]["likely_s"]
    assert one["most_requests"] == int((80e9 - one["weight_byte"]) // one["request_byte"])


def test_chips_stand_by_the_time_of_a_token_and_text_says_the_same(capsys):
    words = "--chip", CHIP, "NVIDIA B200 SXM", "--gpus", "4", "--weights", "fp8", "--batch-sizes", "8"
    rows = predicted(capsys, *words)["predictions"]
    assert [row["chip"] for row in rows] == ["NVIDIA B200 SXM", CHIP]
    code, printed = predict(capsys, *words, "--markdown")
    lines = printed.out.splitlines()
    assert code == 0
    assert "4 GPUs (tensor=4)" in lines[0]
    # 70.55e9 parameters at 1 B, and embedding and head (2 x 128,256 x 8,192) at 2
    assert "72.7 GB of weights in fp8, cache in bf16, " in lines[0]
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| NVIDIA")] == ["NVIDIA B200 SXM", CHIP]


def test_the_heading_names_what_is_stored(capsys):
    words = "--chip", CHIP, "--gpus", "8", "--context", "4096"
    for model, flags, formats, cache in (
        (LLAMA, ("--weights", "fp8", "--cache", "fp8"), ["fp8"], "fp8"),
        ("hf:openai/gpt-oss-120b", (), ["mxfp4", "bf16"], "bf16"),  # experts, and attention
    ):
        code, printed = predict(capsys, *words, *flags, model=model)
        assert code == 0, printed.err
        assert f" GB of weights in {' and '.join(formats)}, cache in {cache}, 8 GPUs" in printed.out.splitlines()[0]
        code, printed = predict(capsys, *words, *flags, "--json", model=model)
        found = json.loads(printed.out)
        assert (found["weight_formats"], found["cache_format"]) == (formats, cache)


def test_a_chip_without_timed_servers_is_extrapolated(capsys):
    (row,) = predicted(capsys, "--chip", "NVIDIA L40S", "--gpus", "8", "--weights", "fp8", "--batch-sizes", "8")[
        "predictions"
    ]
    assert row["further"]["low_s"] is None
    _, printed = predict(capsys, "--chip", "NVIDIA L40S", "--gpus", "8", "--weights", "fp8", "--batch-sizes", "8")
    assert "extrapolated" in printed.out


def test_a_configuration_of_ones_own(capsys, tmp_path):
    own = {"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32}
    own |= {"num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 8192}
    (tmp_path / "config.json").write_text(json.dumps(own), "utf-8")
    words = "--chip", CHIP, "--gpus", "1", "--json"
    code, printed = predict(capsys, *words, model="hf:config.json")
    assert code == 0, printed.err
    assert json.loads(printed.out)["model"].endswith("config.json")


def test_a_chip_without_bf16_serves_fp16(capsys):
    words, model = ("--chip", "NVIDIA T4", CHIP, "--gpus", "2"), "hf:Meta-Llama-3.1-8B"
    code, printed = predict(capsys, *words, "--json", model=model)
    assert code == 0
    assert [row["chip"] for row in json.loads(printed.out)["predictions"]] == [CHIP]
    assert "Left out: NVIDIA T4 has no units for bf16" in printed.err
    assert "--weights fp16" in printed.err
    code, printed = predict(capsys, *words, "--weights", "fp16", "--json", model=model)
    found = json.loads(printed.out)
    assert code == 0
    assert {row["chip"] for row in found["predictions"]} == {"NVIDIA T4", CHIP}
    assert (found["weight_formats"], found["cache_format"]) == (["fp16"], "fp16")
    plan = ["plan", model, "--chip", "NVIDIA T4", "--gpus", "8", "--batch", "8", "--data", "cache"]
    for more, remedy in (([], "use fp32, fp16"), (["--inference"], "--weights fp16")):
        assert command.main([*plan, *more]) == 2
        assert remedy in capsys.readouterr().err
    for more in (["--precision", "fp16"], ["--inference", "--weights", "fp16"]):
        assert command.main([*plan, *more]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--gpus", "7"], "--tp 7 does not divide the heads and matrices of a layer; use --gpus 4 or --gpus 8"),
        (["--gpus", "6", "--dp", "2"], "use --gpus 4 or --gpus 8"),  # 2 x 2 or 2 x 4
        (["--gpus", "3", "--tp", "3"], "use --gpus 2 --tp 2 or --gpus 4 --tp 4"),
        (["--tp", "3"], "use --tp 2 or --tp 4"),
        (["--gpus", "8", "--tp", "8", "--ep", "3"], "use --ep 1"),
        (["--gpus", "8", "--tp", "4"], "the plan has 4 GPUs (tp 4 x dp 1 x pp 1), not 8; use --gpus 4 or"),
        (["--gpus", "81", "--pp", "81"], "80 layers cannot make --pp 81 stages; use --gpus 80 --pp 80"),
        (["--gpus", "8", "--context", "131072"], "use a --context of 130048 or less"),  # 131,072 - 1,024
        (["--gpus", "8", "--output", "1000000"], "use an --output of 126976 or less"),  # 131,072 - 4,096
        (["--gpus", "8", "--chip", "Google TPU v4"], "Google TPU v4 is not predicted: tokens need a chip of kind gpu"),
        (["--gpus", "8", "--chip", "Google*"], "is not predicted: tokens need a chip of kind gpu"),
        (["--gpus", "1", "--chip", CHIP], "more than it has"),
        (["--gpus", "8", "--chip", CHIP, "--weights", "nvfp4"], "has no units for fp4"),
        (["--gpus", "8", "--weights", "fp7"], "fp7"),
        (["--gpus", "8", "--price", "0"], "is not a price above 0"),
        (["--gpus", "8", "--chip", "NVIDIA H1000"], "NVIDIA H1000"),
    ],
)
def test_bad_input_gets_one_sentence(capsys, words, says):
    try:
        code, printed = predict(capsys, *words)
    except SystemExit as end:
        code, printed = end.code, capsys.readouterr()
    assert code == 2
    assert says in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda rows: [row for row in rows if ",pool,,edges," not in row], "products, pool differ in 'edges' from"),
        (
            lambda rows: [row.replace(",inner size ramp,", ",edge ramp,") for row in rows],
            "products, pool differ in 'edge ramp', 'inner size ramp' from",
        ),
        (lambda rows: [rows[0], rows[2], rows[1], *rows[3:]], "products, pool stand in another order from"),
    ],
)
def test_a_fit_with_other_terms_gets_one_sentence(capsys, tmp_path, change, says):
    text = (ROOT / "data" / "prediction" / "kernels.csv").read_text("utf-8")
    assert says.partition(",")[0] in text
    path = tmp_path / "cache" / "prediction" / "kernels.csv"
    path.parent.mkdir(parents=True)
    path.write_text("".join(change(text.splitlines(keepends=True))), "utf-8")
    for words in (("predict", LLAMA, "--gpus", "8"), ("plan", LLAMA, "--chip", CHIP, "--gpus", "8", "--batch", "8")):
        code = command.main([*words, "--data", "cache"])
        printed = capsys.readouterr()
        assert code == 2
        assert f"kernels.csv: the terms of {says} those of this program; fit again with " in printed.err
        assert printed.err.rstrip().endswith("measure fit")
        assert len(printed.err.splitlines()) == 1
        assert printed.out == ""


@pytest.mark.parametrize(
    ("table", "lost", "says"),
    [
        ("kernels", "collectives,", "the terms of collectives, pool differ in "),
        ("served", "first token,pool,,products,", "the terms of first token, pool differ in 'products' from"),
    ],
)
def test_a_fit_without_some_terms_gets_one_sentence(capsys, tmp_path, table, lost, says):
    shutil.copytree(ROOT / "data" / "prediction", tmp_path / "cache" / "prediction")
    path = tmp_path / "cache" / "prediction" / f"{table}.csv"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(lost)), "utf-8")
    assert command.main(["predict", LLAMA, "--gpus", "8", "--data", "cache"]) == 2
    printed = capsys.readouterr()
    assert f"{table}.csv: {says}" in printed.err
    assert len(printed.err.splitlines()) == 1


def test_chips_without_a_prediction_are_named_and_left_out(capsys):
    words = "--gpus", "8", "--weights", "fp8", "--json", "--chip"
    code, printed = predict(capsys, *words, "google tpu v4", CHIP)
    assert code == 0
    assert [row["chip"] for row in json.loads(printed.out)["predictions"]] == [CHIP]
    assert printed.err.startswith("Left out: Google TPU v4 is not predicted")
    code, printed = predict(capsys, *words, "*TPU*", CHIP)  # a glob names nobody
    assert (code, printed.err) == (0, "")


def test_flags_and_models_that_do_not_belong_together(capsys, tmp_path):
    (tmp_path / "config.json").write_text("{}", "utf-8")
    for model in (LLAMA, "hf:Meta-Llama-3.1-8B", "hf:config.json"):
        code, printed = predict(capsys, "--chip", CHIP, model=model)
        assert code == 2
        assert "add --gpus 1 to predict its tokens" in printed.err
    code, printed = predict(capsys, "--gpus", "2", "--context", "4096", model="resnet50")
    assert code == 2
    assert printed.err.count("--gpus and --context: ") == 1
    assert "leave out such flags" in printed.err


def test_an_unknown_type_and_an_unknown_name(capsys, tmp_path):
    code, printed = predict(capsys, "--gpus", "8", model="hf:nobody/nothing")
    assert code == 2
    assert "nobody/nothing" in printed.err
    (tmp_path / "config.json").write_text('{"model_type": "unheard"}', "utf-8")
    code, printed = predict(capsys, "--gpus", "8", model="hf:config.json")
    assert code == 2
    assert "unheard" in printed.err


def test_help_names_the_flags(capsys):
    with pytest.raises(SystemExit):
        command.main(["predict", "--help"])
    printed = capsys.readouterr().out
    assert all(f"--{name}" in printed for name in ASKED)
