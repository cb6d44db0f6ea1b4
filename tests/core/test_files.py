"""Files: atomic writing, digests, and errors that say what happened to the old version."""

import errno
import os

import pytest
import safetensors.torch
import torch

from recombine.core import files
from recombine.core.errors import StoreError

TENSORS = {
    "float": torch.arange(6.0).reshape(2, 3),
    "double": torch.tensor([1 / 3, float("nan"), float("inf")], dtype=torch.double),
    "half": torch.tensor([0.1, 0.2], dtype=torch.bfloat16),
    "whole": torch.tensor(7),
    "truth": torch.tensor([True, False]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "empty": torch.zeros(0, 3),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "channels last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
}


def test_tensors_come_back_bit_by_bit(tmp_path):
    path = tmp_path / "deep" / "er" / "t.safetensors"
    files.write_tensors(path, TENSORS, {"step": "3", "note": "σ"})
    tensors, metadata = files.read_tensors(path)
    assert metadata == {"step": "3", "note": "σ"}
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert tensors[name].shape == tensor.shape
        assert torch.equal(tensors[name].contiguous().view(-1).view(torch.uint8),
                           tensor.contiguous().view(-1).view(torch.uint8))  # fmt: skip
    assert {k: v for k, v in files.read_metadata(path).items() if k != "sha256"} == metadata


def test_digest_sees_names_types_shapes_bytes_and_metadata():
    a = {"w": torch.arange(4.0)}
    digests = {
        files.digest(tensors, metadata)
        for tensors, metadata in [
            (a, {}),
            ({"v": a["w"]}, {}),
            ({"w": a["w"].view(2, 2)}, {}),
            ({"w": a["w"].view(torch.int32)}, {}),
            ({"w": a["w"] + 1e-6}, {}),
            ({"w": a["w"], "v": torch.zeros(0)}, {}),
            (a, {"step": "1"}),
        ]
    }
    assert len(digests) == 7
    assert files.digest({"b": a["w"], "a": a["w"]}, {}) == files.digest({"a": a["w"], "b": a["w"]}, {})


def test_equal_content_gives_equal_files(tmp_path):
    metadata = {name: name for name in "abcdefgh"}
    for name in ("one", "two"):
        files.write_tensors(tmp_path / name, TENSORS, metadata)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_any_changed_byte_of_the_data_is_noticed(tmp_path):
    path = tmp_path / "t.safetensors"
    files.write_tensors(path, {"w": torch.arange(8.0)})
    whole = path.read_bytes()
    for place in range(len(whole) - 32, len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StoreError, match="digest does not match"):
            files.read_tensors(path)


@pytest.mark.parametrize("keep", [0, 4, 40, -1])
def test_a_truncated_file_is_noticed(tmp_path, keep):
    path = tmp_path / "t.safetensors"
    files.write_tensors(path, {"w": torch.arange(8.0)})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(StoreError, match="truncated or not a safetensors file"):
        files.read_tensors(path)
    with pytest.raises(StoreError, match="truncated or not a safetensors file"):
        files.read_metadata(path)


def test_foreign_and_missing_files(tmp_path):
    path = tmp_path / "t.safetensors"
    with pytest.raises(StoreError, match=r"t\.safetensors is missing\."):
        files.read_tensors(path)
    safetensors.torch.save_file({"w": torch.zeros(2)}, path)
    with pytest.raises(StoreError, match="was not written by recombine"):
        files.read_tensors(path)
    path.write_bytes(b"\x80\x04 a pickle, perhaps")
    with pytest.raises(StoreError, match="not a safetensors file"):
        files.read_tensors(path)


def test_json_round_trip(tmp_path):
    content = {"a": [1, 2.5, None, True], "σ": {"x": 1 / 3}}
    files.write_json(tmp_path / "c.json", content)
    assert files.read_json(tmp_path / "c.json") == content
    text = (tmp_path / "c.json").read_text(encoding="utf-8")
    assert "σ" in text
    assert text.endswith("}\n")


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        files.write_json(tmp_path / "c.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b'{"a": ', b"\xff\xfe", b"not json"])
def test_damaged_json_is_explained(tmp_path, content):
    path = tmp_path / "c.json"
    with pytest.raises(StoreError, match=r"c\.json is missing\."):
        files.read_json(path)
    path.write_bytes(content)
    with pytest.raises(
        StoreError, match=r"c\.json cannot be read as JSON: .* It may be truncated or from another program\."
    ):
        files.read_json(path)
    with pytest.raises(StoreError, match="is not a regular file"):
        files.read_json(tmp_path)


@pytest.mark.parametrize("name", ["c.json", "c.yaml"])
def test_configurations_are_read_from_regular_files_only_which_would_otherwise_never_end(tmp_path, name):
    (tmp_path / "real").write_text("[1]")
    path = tmp_path / name
    path.symlink_to(tmp_path / "real")
    assert files.read_config(path) == [1]
    os.truncate(tmp_path / "real", files.MOST_TEXT + 1)
    with pytest.raises(StoreError, match="at most"):
        files.read_config(path)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(StoreError, match="is not a regular file"):
        files.read_config(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="is not a regular file"):
        files.read_config(path)


def test_writing_replaces_in_one_step_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")
    with path.open() as reader:
        files.write_text(path, "new")
        assert reader.read() == "old"  # whoever reads meanwhile sees the whole old file
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a.txt"
    files.write_text(path, "old")

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(StoreError) as caught:
        files.write_text(path, "new")
    assert str(path) in str(caught.value)
    assert os.strerror(errno.ENOSPC) in str(caught.value)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    with pytest.raises(StoreError) as caught:
        files.write_text(tmp_path / "b.txt", "new")
    assert "previous version" not in str(caught.value)


def test_a_folder_that_cannot_be_made_is_explained(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"Could not write .*choose another folder"):
        files.write_json(tmp_path / "file" / "c.json", {})
    assert (tmp_path / "file").read_text() == "in the way"


def test_file_digest(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert files.file_digest(tmp_path / "a") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # the published test vector of SHA-256
    )


def test_store_errors_are_the_users_to_solve():
    assert StoreError.exit_code == 2
