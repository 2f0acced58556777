"""Headers of GGUF files: what the `gguf` package's own reader finds, and one clear error for anything broken."""

from __future__ import annotations

import struct

import gguf
import numpy as np
import pytest

from eagle3.errors import WeightsError
from eagle3.models.gguf_header import read_header


@pytest.fixture
def path(tmp_path):
    """A file with every kind of value, a vocabulary, and tensors in plain and block types."""
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_uint8("a.u8", 200)
    writer.add_int8("a.i8", -7)
    writer.add_uint16("a.u16", 60_000)
    writer.add_int16("a.i16", -300)
    writer.add_uint32("a.u32", 4_000_000_000)
    writer.add_int32("a.i32", -70_000)
    writer.add_uint64("a.u64", 2**63)
    writer.add_int64("a.i64", -(2**40))
    writer.add_float32("a.f32", 0.5)
    writer.add_float64("a.f64", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.text", "naïve 東京")
    writer.add_array("a.numbers", [1, 2, 3])
    writer.add_array("a.texts", ["x", "", "東"])
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<s>", "a", "b"])
    writer.add_token_types([3, 1, 1])
    writer.add_tensor("one.weight", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("two.weight", np.ones((3, 64), dtype=np.float16))
    q8 = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("three.weight", gguf.quants.quantize(np.ones((2, 32), np.float32), q8), raw_dtype=q8)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "m.gguf"


def test_it_says_what_the_reference_reader_says(path):
    """Values, names, shapes, types and places are those of GGUFReader; the vocabulary's arrays alone are left out."""
    header, reference = read_header(path), gguf.GGUFReader(path)
    expected = {name: field.contents() for name, field in reference.fields.items() if not name.startswith("GGUF.")}
    left_out = {"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"}
    assert header.metadata == {name: value for name, value in expected.items() if name not in left_out}
    assert left_out < set(expected)
    assert list(header.tensors) == [tensor.name for tensor in reference.tensors]
    for tensor in reference.tensors:
        mine = header.tensors[tensor.name]
        assert mine.shape == tuple(reversed(tensor.shape.tolist()))
        assert (mine.kind, mine.offset, mine.nbytes) == (tensor.tensor_type, tensor.data_offset, tensor.n_bytes)


def test_a_file_cut_anywhere_is_refused(path, tmp_path):
    """Wherever a download stopped, in the metadata, the table or the values, it is one error that names the file."""
    whole = path.read_bytes()
    last = max(place.offset + place.nbytes for place in read_header(path).tensors.values())
    cut = tmp_path / "cut.gguf"
    for length in [*range(0, last, 7), last - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(WeightsError, match=r"cut\.gguf is truncated or not a GGUF file"):
            read_header(cut)
    cut.write_bytes(whole[:last])  # padding alone is missing
    assert read_header(cut) == read_header(path)


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (0, b"GGML", "does not begin with GGUF"),
        (4, struct.pack("<I", 1), "got version 1; versions 2 and 3"),
        (4, struct.pack(">I", 3), "got a big-endian file"),
        (8, struct.pack("<Q", 2**62), ""),
        (16, struct.pack("<Q", 2**62), ""),
        (24, struct.pack("<Q", 2**63), "ends in the middle"),
    ],
)
def test_a_damaged_file_is_refused(path, place, value, complaint):
    """Another kind of file, another version, and counts that cannot be: an error, neither memory nor time is spent."""
    data = bytearray(path.read_bytes())
    data[place : place + len(value)] = value
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=f"is truncated or not a GGUF file: .*{complaint}"):
        read_header(path)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (b"a.i8", b"a.u8", "metadata names a.u8 twice"),
        (b"one.weight", b"two.weight", "two tensors are called two.weight"),
    ],
)
def test_names_are_unique(path, old, new, complaint):
    """A key or a tensor that is there twice leaves open which one counts."""
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(WeightsError, match=complaint):
        read_header(path)


@pytest.mark.parametrize(("alignment", "fits"), [(16, True), (64, True), (0, False), (24, False)])
def test_alignment_is_a_power_of_two(tmp_path, alignment, fits):
    """Values begin where the file's own alignment says; one that is none is refused."""
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_custom_alignment(alignment if fits else 32)
    writer.add_tensor("one.weight", np.arange(6, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path = tmp_path / "m.gguf"
    if not fits:
        key = b"general.alignment" + struct.pack("<I", gguf.GGUFValueType.UINT32)
        path.write_bytes(path.read_bytes().replace(key + struct.pack("<I", 32), key + struct.pack("<I", alignment)))
    if fits:
        place = read_header(path).tensors["one.weight"]
        assert place.offset % alignment == 0
        assert np.fromfile(path, np.float32, 6, offset=place.offset).tolist() == [0, 1, 2, 3, 4, 5]
    else:
        with pytest.raises(WeightsError, match="must be a power of two"):
            read_header(path)


def test_a_missing_file_is_named(tmp_path):
    """No file, a folder and an empty file are the same one error."""
    (tmp_path / "empty.gguf").touch()
    for name in ("none.gguf", "empty.gguf", "."):
        with pytest.raises(WeightsError, match="is truncated or not a GGUF file"):
            read_header(tmp_path / name)
