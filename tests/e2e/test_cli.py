"""The `eagle3` command from end to end, in process, on a tiny random model with a tokenizer of bytes."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from builders import BYTE_VOCAB, CHATML_TEMPLATE, tiny_draft_checkpoint, tiny_draft_config, write_byte_model
from eagle3.cli.main import main
from eagle3.models.draft_formats import write_draft

KEYS = {
    "text", "token_ids", "num_cycles", "tau", "acceptance_by_depth", "draft_ms", "verify_ms", "tokens_per_s",
    "finish_reason",
}  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A random model of 260 tokens with a chat template."""
    return write_byte_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def draft(tmp_path_factory):
    """A random draft for it, in the original format."""
    config = tiny_draft_config(
        hidden_size=32, intermediate_size=48, head_dim=8, target_hidden_size=32, vocab_size=BYTE_VOCAB,
        draft_vocab_size=100,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("draft")
    write_draft(path, tiny_draft_checkpoint(config), "original")
    return path


@pytest.fixture
def run(capsys):
    """Runs one command; gives exit code and stdout, and wants stderr to be silent."""

    def run(*argv):
        code = main([str(word) for word in argv])
        captured = capsys.readouterr()
        assert captured.err == ""
        return code, captured.out

    return run


@pytest.fixture
def generate(run, model, draft):
    """`eagle3 generate` on the tiny model; the answers as JSON."""

    def generate(*argv):
        code, out = run(
            "generate", "--target", model, "--draft", draft, "--json", "--max-new-tokens", 12, "--tree-depth", 3, *argv
        )
        assert code == 0
        return [json.loads(line) for line in out.splitlines()]

    return generate


def test_json_answers_have_the_documented_keys(generate):
    """One object per answer: text, token ids, why it ended, and the counters, consistent with each other."""
    (answer,) = generate("--prompt", "Hello")
    assert set(answer) >= KEYS
    assert len(answer["token_ids"]) == answer["output_tokens"] <= 12
    assert answer["finish_reason"] in ("length", "stop")
    assert answer["num_cycles"] >= 1
    assert answer["tau"] == pytest.approx((answer["output_tokens"] - 1) / answer["num_cycles"], abs=1e-3)
    assert 1.0 <= answer["tau"] <= 4.0
    assert min(answer["draft_ms"], answer["verify_ms"], answer["tokens_per_s"]) > 0
    assert all(0 < share <= 1 for share in answer["acceptance_by_depth"])


@pytest.mark.parametrize("sampling", [(), ("--temperature", 0.9, "--seed", 3), ("--repetition-penalty", 1.3)])
def test_speculation_changes_no_token(generate, sampling):
    """With and without the draft: the same token ids, greedy, sampled with a seed, and penalised."""
    (speculative,) = generate("--prompt", "Hello", *sampling)
    (plain,) = generate("--prompt", "Hello", "--no-speculation", *sampling)
    assert speculative["token_ids"] == plain["token_ids"]
    assert speculative["text"] == plain["text"]
    assert (plain["drafted_nodes"], plain["acceptance_by_depth"], plain["tau"]) == (0, [], 1.0)
    assert speculative["drafted_nodes"] > 0


def test_text_goes_to_stdout(run, model, draft, generate):
    """Without --json, stdout is the text and a line end, and nothing else."""
    (answer,) = generate("--prompt", "Hello")
    code, out = run("generate", "--target", model, "--draft", draft, "--max-new-tokens", 12, "--prompt", "Hello")
    assert code == 0
    assert out == answer["text"] + "\n"


def test_several_answers(generate):
    """R17: -n 2 gives two answers, equal at temperature 0, different with a seed above it, and the same again."""
    first, second = generate("--prompt", "Hello", "-n", 2)
    assert first["token_ids"] == second["token_ids"]
    sampled = generate("--prompt", "Hello", "-n", 2, "--temperature", 1.5, "--seed", 1)
    assert sampled[0]["token_ids"] != sampled[1]["token_ids"]
    again = generate("--prompt", "Hello", "-n", 2, "--temperature", 1.5, "--seed", 1)
    assert [answer["token_ids"] for answer in again] == [answer["token_ids"] for answer in sampled]


def test_raw_prompts_skip_the_chat_template(generate):
    """--raw takes the prompt as it is: without the template, and its spelled-out control tokens are plain text."""
    (chat,) = generate("--prompt", "Hello")
    (raw,) = generate("--raw", "--prompt", "Hello")
    (spelled,) = generate("--raw", "--prompt", "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    assert raw["token_ids"] != chat["token_ids"] != spelled["token_ids"]


def test_a_system_message_is_part_of_the_prompt(generate, tmp_path):
    """--system goes in front of the user's turn, as if the template had written it there."""
    (answer,) = generate("--prompt", "Hello", "--system", "Be brief.")
    template = "<|im_start|>system\nBe brief.<|im_end|>\n" + CHATML_TEMPLATE
    brief = write_byte_model(tmp_path / "brief", chat_template=template)
    assert answer["token_ids"] == generate("--target", brief, "--prompt", "Hello")[0]["token_ids"]
    assert answer["token_ids"] != generate("--prompt", "Hello")[0]["token_ids"]


def test_a_model_without_a_chat_template_continues_the_prompt(run, tmp_path):
    """Where there is no template the prompt is taken as it is, with no draft for it either."""
    model = write_byte_model(tmp_path / "base", chat_template=None)
    outs = [
        run("generate", "--target", model, "--prompt", "Hello", "--max-new-tokens", 4, *raw) for raw in ((), ("--raw",))
    ]
    assert outs[0] == outs[1]
    assert outs[0][0] == 0


def test_logprobs_are_reported(generate):
    """One entry per token, the asked number of alternatives, best first; greedy takes the best."""
    (answer,) = generate("--prompt", "Hello", "--logprobs", 2)
    assert [entry["token_id"] for entry in answer["logprobs"]] == answer["token_ids"]
    for entry in answer["logprobs"]:
        (best_id, best), (_, second) = entry["top"]
        assert entry["token_id"] == best_id
        assert entry["logprob"] == best >= second


@pytest.fixture
def prompts_file(tmp_path):
    """Three prompts in three shapes."""
    path = tmp_path / "prompts.jsonl"
    rows = [
        {"prompt": "Hello"},
        {"turns": ["What is rain?", "And snow?"]},
        {"conversations": [{"from": "human", "value": "Say a"}, {"from": "gpt", "value": "a"}]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_file_of_prompts_is_answered_in_order(generate, prompts_file):
    """First user turns, one answer each, the same as asked one by one."""
    answers = generate("--prompts", prompts_file)
    alone = [generate("--prompt", text)[0] for text in ("Hello", "What is rain?", "Say a")]
    assert [answer["token_ids"] for answer in answers] == [answer["token_ids"] for answer in alone]


def test_a_config_file_replaces_flags(run, model, draft, generate, tmp_path):
    """Target, draft and tree from a YAML file give what the flags give."""
    path = tmp_path / "run.yaml"
    path.write_text(f"target: {model}\ndraft: {draft}\nspeculation:\n  depth: 3\n", encoding="utf-8")
    code, out = run("generate", "--config", path, "--json", "--max-new-tokens", 12, "--prompt", "Hello")
    assert code == 0
    (wanted,) = generate("--prompt", "Hello")
    got = json.loads(out)
    for key in ("token_ids", "num_cycles", "drafted_nodes", "tau"):
        assert got[key] == wanted[key]


def test_bench_tau_compares_with_plain_decoding(run, model, draft, prompts_file):
    """--plain --json: every prompt identical, counters of both, exit code 0; --limit takes the first."""
    common = ("bench", "tau", "--target", model, "--draft", draft, "--prompts", prompts_file, "--max-new-tokens", 8)
    code, out = run(*common, "--plain", "--json")
    report = json.loads(out)
    assert code == 0
    assert (report["prompts"], report["identical_prompts"]) == (3, 3)
    assert report["output_tokens"] == report["plain"]["output_tokens"]
    assert report["plain"]["tau"] == 1.0
    assert report["speedup"] > 0
    code, out = run(*common, "--limit", 1)
    assert code == 0
    assert "tau (tokens per cycle)" in out
    code, out = run(*common, "--plain", "--limit", 2)
    assert "identical texts         2 of 2" in out


def test_demo_shows_the_same_text_twice(capsys, model, draft):
    """The demo on a model of one's own: answer, table, and the statement that both texts are equal."""
    code = main(["demo", "--target", str(model), "--draft", str(draft), "--max-new-tokens", "8", "--prompt", "Hi"])
    captured = capsys.readouterr()
    assert code == 0
    assert "Both texts are identical" in captured.out
    assert "tau (tokens per cycle)" in captured.out
    assert captured.err.count("\n") == 1


def test_draft_inspect_describes_a_draft(run, draft):
    """Format, flags, tensors and vocabulary as JSON."""
    code, out = run("draft", "inspect", draft)
    report = json.loads(out)
    assert code == 0
    assert report["format"] == "original"
    assert report["config"]["tap_inputs"] == [2, 4, 5]
    assert report["mapping"]["draft_vocab_size"] == 100
    assert report["tensors"]["fc.weight"] == {"shape": [32, 96], "dtype": "float32"}


def test_draft_convert_there_and_back_changes_nothing(run, draft, tmp_path):
    """Original to speculators to NVIDIA and back: bit-equal tensors, the same taps and vocabulary."""
    path = draft
    for number, format in enumerate(("speculators", "nvidia", "original")):
        destination = tmp_path / f"{number}-{format}"
        code, out = run("draft", "convert", path, destination, "--format", format)
        assert (code, out) == (0, f"{destination}\n")
        assert json.loads(run("draft", "inspect", destination)[1])["format"] == format
        path = destination
    before, after = (load_file(place / "model.safetensors") for place in (draft, path))
    assert before.keys() == after.keys()
    assert all(bool((before[name] == after[name]).all()) for name in before)
    configs = [json.loads(run("draft", "inspect", place)[1])["config"] for place in (draft, path)]
    assert configs[0] == configs[1]


def test_draft_convert_overwrites_nothing(capsys, draft, tmp_path):
    """A destination that holds something is bad input, and stays as it is."""
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    assert main(["draft", "convert", str(draft), str(tmp_path), "--format", "nvidia"]) == 2
    assert "not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_draft_doctor_finds_a_random_draft_useless(run, model, draft):
    """Exit code 1, the finding in plain words, and as JSON; without the probe only the files are judged."""
    code, out = run("draft", "doctor", "--target", model, "--draft", draft)
    assert code == 1
    assert "useless" in out
    assert out.endswith("the draft is not usable as it is\n")
    code, out = run("draft", "doctor", "--target", model, "--draft", draft, "--json")
    report = json.loads(out)
    assert (code, report["ok"]) == (1, False)
    assert any("useless" in finding["what"] for finding in report["findings"])
    code, out = run("draft", "doctor", "--target", model, "--draft", draft, "--no-probe")
    assert code == 0
    assert "acceptance was not measured" in out


@pytest.mark.parametrize("taps", [(), (1, 3, 6)], ids=["default taps", "taps of one's own"])
def test_data_build_then_train_then_generate(run, model, tmp_path, taps):
    """From nothing but a model to a draft that serves it: each command prints its folder, each may be run again.

    The draft names the layers that its data came from (R6), and changes no token of the text.
    """
    data, output = tmp_path / "data", tmp_path / "run"
    flags = [word for tap in taps for word in ("--tap", tap)]
    build = ("data", "build", "--target", model, "--output", data, "--invent", 10, "--from-target", 0,
             "--max-new-tokens", 10, "--batch-size", 8, "--sampled-share", 0, *flags)  # fmt: skip
    train = ("train", "--target", model, "--data", data, "--output", output, "--stages", "6x1,6x2",
             "--draft-vocab-size", 64, "--held-out", 2, "--positions-per-batch", 600, "--warmup-steps", 2,
             "--learning-rate", "5e-3", "--no-bf16")  # fmt: skip
    for _ in range(2):
        assert run(*build) == (0, f"{data}\n")
        assert run(*train) == (0, f"{output / 'draft'}\n")
    assert (output / "loss.png").is_file()
    code, out = run("draft", "inspect", output / "draft")
    report = json.loads(out)
    assert code == 0
    assert report["config"]["tap_inputs"] == list(taps or (2, 4, 5))
    assert report["config"]["draft_vocab_size"] == 64
    assert "embed_tokens.weight" not in report["tensors"]

    prompt = json.loads((data / "prompts.jsonl").read_text(encoding="utf-8").splitlines()[0])["messages"][0]["content"]
    common = ("generate", "--target", model, "--json", "--max-new-tokens", 10, "--prompt", prompt)
    code, out = run(*common, "--draft", output / "draft")
    answer = json.loads(out)
    assert code == 0
    assert answer["drafted_nodes"] > 0
    assert answer["token_ids"] == json.loads(run(*common, "--no-speculation")[1])["token_ids"]


def test_training_on_a_folder_without_data_is_bad_input(capsys, model, tmp_path):
    """Exit code 2, one line that names the command that makes data, no output folder."""
    argv = [
        "train",
        "--target",
        str(model),
        "--data",
        str(tmp_path),
        "--output",
        str(tmp_path / "o"),
        "--stages",
        "1x1",
    ]
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "eagle3 data build" in captured.err
    assert not (tmp_path / "o").exists()


def test_a_prompt_longer_than_the_context_is_bad_input(capsys, model):
    """Exit code 2 and one line with both numbers."""
    assert main(["generate", "--target", str(model), "--raw", "--prompt", "a" * 1024]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("eagle3: the prompt has 1024 tokens; the model's context of 1024")


def test_a_draft_of_another_target_exits_with_3(capsys, model, tmp_path):
    """Widths or vocabularies that disagree are named before anything is generated."""
    write_draft(tmp_path, tiny_draft_checkpoint(), "original")
    assert main(["generate", "--target", str(model), "--draft", str(tmp_path), "--prompt", "a"]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert str(tmp_path) in captured.err


def test_tune_writes_settings_that_generate_reads(run, model, draft, prompts_file, tmp_path):
    """Table and settings on stdout, the same settings in the file; a config made so gives the same text."""
    path = tmp_path / "tuned.yaml"
    common = ("tune", "--target", model, "--draft", draft, "--prompts", prompts_file, "--max-new-tokens", 8)
    code, out = run(*common, "--limit", 2, "--output", path)
    assert code == 0
    assert "none (plain)" in out
    assert out.endswith(path.read_text(encoding="utf-8"))
    generate = ("generate", "--target", model, "--json", "--max-new-tokens", 12, "--prompt", "Hello")
    code, tuned = run(*generate, "--config", path)
    assert code == 0
    assert json.loads(tuned)["token_ids"] == json.loads(run(*generate, "--no-speculation")[1])["token_ids"]
    code, out = run(*common, "--limit", 1, "--json")
    report = json.loads(out)
    assert (code, report["prompts"], len(report["shapes"])) == (0, 1, 3)
    assert set(report["settings"]) <= {"draft", "speculation"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--tree-nodes", "4"), "tune chooses --tree-nodes by itself"),
        (("--min-probability", "0.1"), "tune chooses --min-probability by itself"),
        (("--max-new-tokens", "1"), "--max-new-tokens must be at least 2"),
        (("--limit", "0"), "--limit must be at least 1"),
        (("--output", "/nowhere/at/all.yaml"), "cannot write /nowhere/at/all.yaml"),
        (("--prompts", "/nowhere.jsonl"), "cannot read /nowhere.jsonl"),
    ],
)
def test_tune_refuses_what_cannot_be_meant(capsys, model, flags, said):
    """Exit code 2 and one line, before anything is measured."""
    assert main(["tune", "--target", str(model), *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_a_threshold_changes_no_token(generate):
    """--min-probability: fewer nodes, down to none, and the same text."""
    (full,) = generate("--prompt", "Hello")
    (none,) = generate("--prompt", "Hello", "--min-probability", 0.9999)
    assert none["token_ids"] == full["token_ids"]
    assert (none["drafted_nodes"], none["tau"]) == (0, 1.0)
    assert full["drafted_nodes"] > 0


@pytest.mark.skipif(not torch.cpu._is_vnni_supported(), reason="int8 needs a CPU with VNNI")
def test_bench_quality_compares_int8_with_float32(run, model, prompts_file):
    """Perplexities near each other, a share of equal choices, a divergence: as JSON and as a table."""
    common = ("bench", "quality", "--target", model, "--prompts", prompts_file)
    code, out = run(*common, "--json")
    report = json.loads(out)
    assert (code, report["quantize"], report["texts"]) == (0, "int8", 3)
    # "Hello", "What is rain?" and "Say a" with what ends a turn and opens the answer; the opening is not counted.
    assert report["positions"] > 5 + 13 + 5
    assert report["quantized_perplexity"] == pytest.approx(report["perplexity"], rel=0.2)
    assert 0.5 < report["agreement"] <= 1
    code, out = run(*common, "--limit", 1)
    assert code == 0
    assert "same most probable token" in out


@pytest.mark.parametrize("flags", [("--dtype", "bfloat16"), ("--limit", "0"), ("--prompts", "/nowhere.jsonl")])
def test_bench_quality_refuses_what_cannot_be_meant(capsys, model, prompts_file, flags):
    """Exit code 2 and one line."""
    assert main(["bench", "quality", "--target", str(model), "--prompts", str(prompts_file), *flags]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
