"""Feature shards: what is stored equals one row alone through the target, and a file is whole or absent."""

from __future__ import annotations

import functools

import pytest
import torch

from builders import tiny_target
from eagle3.errors import InvalidInputError
from eagle3.models.attention import causal_attend
from eagle3.train import features
from eagle3.train.features import TokenRow, compute_shard, load_shards, save_shard

VOCAB, TOP_K = 40, 5


@functools.cache
def target():
    target = tiny_target(vocab=VOCAB)
    target.set_taps((2, 4, 5))
    return target


def token_rows(lengths=(9, 3, 14, 6), prompt=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        TokenRow(
            torch.randint(VOCAB, (length,), generator=generator).tolist(), [place >= prompt for place in range(length)]
        )
        for length in lengths
    ]


def stored(tmp_path, rows, name="00000.safetensors"):
    save_shard(tmp_path / name, compute_shard(target(), rows, TOP_K))
    return load_shards(tmp_path)


def alone(row):
    """Taps and probabilities of one row, unpadded."""
    ids = torch.tensor([row.input_ids])
    with torch.inference_mode():
        output = target()(ids, torch.arange(ids.shape[1])[None], causal_attend)
        return output.taps_BSF[0], target().logits(output.hidden_BSH[0]).softmax(dim=-1)


@pytest.mark.parametrize("positions_per_pass", [4096, 20, 1])
def test_what_is_stored_equals_one_row_alone(tmp_path, monkeypatch, positions_per_pass):
    """Rows padded side by side, in passes of any size, keep their order, tokens, taps and top probabilities."""
    monkeypatch.setattr(features, "_POSITIONS_PER_PASS", positions_per_pass)
    rows = token_rows()
    loaded = stored(tmp_path, rows)
    assert len(loaded) == len(rows)
    for row, got in zip(rows, loaded, strict=True):
        assert got.input_ids_S.tolist() == row.input_ids
        assert got.answer_mask_S.bool().tolist() == row.answer_mask
        taps, probs = alone(row)
        torch.testing.assert_close(got.taps_SF.float(), taps, atol=1e-3, rtol=2**-7)  # bfloat16
        first = row.answer_mask.index(True) - 1
        wanted, ids = probs[first:].topk(TOP_K)
        torch.testing.assert_close(got.top_probs_SK[first:].float(), wanted, atol=1e-4, rtol=2**-10)  # float16
        picked = probs[first:].gather(1, got.top_ids_SK[first:].long())
        torch.testing.assert_close(picked, wanted, atol=1e-5, rtol=1e-4)  # equal ids, near ties aside
        assert torch.equal(got.top_ids_SK[first:, 0].long(), ids[:, 0])


def test_taps_are_those_that_were_set(tmp_path):
    """Features stand side by side in the order of the target's taps: T times the hidden width."""
    (got,) = stored(tmp_path, token_rows(lengths=(6,)))
    width = target().arch.hidden_size
    assert got.taps_SF.shape == (6, 3 * width)
    assert got.taps_SF.dtype == torch.bfloat16
    assert not torch.allclose(got.taps_SF[:, :width].float(), got.taps_SF[:, width : 2 * width].float(), atol=0.1)


def test_before_the_first_answer_probabilities_are_zero(tmp_path):
    """Only the position that gives the first answer token, and those after it, have a distribution."""
    row = TokenRow(list(range(10)), [False] * 6 + [True] * 4)
    (got,) = stored(tmp_path, [row])
    assert not got.top_probs_SK[:5].any()
    assert not got.top_ids_SK[:5].any()
    assert bool((got.top_probs_SK[5:, 0] > 0).all())


@pytest.mark.parametrize("mask", [[True] * 4, [False] * 4, [True, False, False, True]])
def test_rows_without_a_prompt_or_an_answer_are_no_error(tmp_path, mask):
    """An answer from the first token on has every distribution; a row without one has at most its last."""
    (got,) = stored(tmp_path, [TokenRow([1, 2, 3, 4], mask)])
    assert (got.top_probs_SK[:, 0] > 0).tolist() == ([True] * 4 if mask[0] else [False] * 3 + [True])


def test_probabilities_are_of_the_whole_vocabulary(tmp_path):
    """Cut to the top ones, they keep the mass that they had: less than one together, falling."""
    for got in stored(tmp_path, token_rows()):
        probs = got.top_probs_SK[2:].float()
        assert bool((probs.sum(dim=-1) < 1.0).all())
        assert bool((probs[:, 1:] <= probs[:, :-1]).all())


def test_shards_are_read_in_order_of_their_names(tmp_path):
    """Rows of shard 0 come before rows of shard 1, whichever was written first."""
    early, late = token_rows(lengths=(4, 5)), token_rows(lengths=(6,), seed=1)
    stored(tmp_path, late, "00001.safetensors")
    loaded = stored(tmp_path, early, "00000.safetensors")
    assert [row.input_ids_S.tolist() for row in loaded] == [row.input_ids for row in (*early, *late)]


def test_a_shard_being_written_is_not_visible(tmp_path, monkeypatch):
    """A kill inside the write leaves no shard, and what it left is not read."""
    shard = compute_shard(target(), token_rows(), TOP_K)

    def broken(_tensors, path):
        path.write_bytes(b"half a shard")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(features, "save_file", broken)
        with pytest.raises(KeyboardInterrupt):
            save_shard(tmp_path / "00000.safetensors", shard)
    with pytest.raises(InvalidInputError, match=r"no feature shards.*data build"):
        load_shards(tmp_path)
    save_shard(tmp_path / "00000.safetensors", shard)
    assert [path.name for path in tmp_path.iterdir()] == ["00000.safetensors"]


def test_a_folder_without_shards_is_refused(tmp_path):
    """An empty or missing folder is bad input; the message names the command that fills it."""
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InvalidInputError, match="eagle3 data build"):
            load_shards(folder)
