"""Files are regular, named by their content, found where they were moved to, and never half read."""

import os
import pickle
import shutil

import numpy as np
import pytest

from recombine.core.datasets import files
from recombine.core.datasets.files import DataFiles, checked_file, found_again
from recombine.core.datasets.npy import NpzFile, npy_rows
from recombine.core.datasets.rows import FileRows, JoinedRows, MemoryRows
from recombine.core.errors import InputError


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "_known", {})
    monkeypatch.setattr(files, "_seen", {})


def test_a_checksum_is_computed_once_for_a_state_of_a_file(tmp_path, monkeypatch):
    path = tmp_path / "data.npy"
    path.write_bytes(b"one")
    first = checked_file(path)
    computed = []
    digest = files._digest
    monkeypatch.setattr(files, "_digest", lambda descriptor: computed.append(1) or digest(descriptor))
    assert checked_file(path) == first
    assert computed == []
    path.write_bytes(b"two")
    assert checked_file(path).sha256 != first.sha256
    assert computed == [1]


def test_checksums_of_large_files_outlive_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WORTH_KEEPING", 3)
    path = tmp_path / "data.npy"
    path.write_bytes(b"large")
    first = checked_file(path)
    files._known.clear()  # a new process
    monkeypatch.setattr(files, "_digest", lambda descriptor: pytest.fail("read again"))
    assert checked_file(path) == first
    (tmp_path / "cache" / "recombine" / "checksums.json").write_text("[damaged")
    files._known.clear()
    monkeypatch.setattr(files, "_digest", lambda descriptor: "read again")
    assert checked_file(path).sha256 == "read again"


def test_small_files_leave_no_cache(tmp_path):
    (tmp_path / "data.npy").write_bytes(b"small")
    checked_file(tmp_path / "data.npy")
    assert not (tmp_path / "cache").exists()


def test_a_moved_file_is_found(tmp_path, monkeypatch):
    there, elsewhere = tmp_path / "there", tmp_path / "elsewhere"
    there.mkdir()
    (there / "data.npy").write_bytes(b"content")
    sha256 = checked_file(there / "data.npy").sha256
    shutil.move(there, elsewhere)
    files._seen.clear()
    with pytest.raises(InputError, match="There is no file"):
        found_again(there / "data.npy", sha256)
    monkeypatch.setenv("RECOMBINE_DATA", f"{tmp_path}{os.pathsep}{elsewhere}")
    assert found_again(there / "data.npy", sha256).path == elsewhere / "data.npy"
    assert files.DataFiles().open("images", there / "data.npy") == elsewhere / "data.npy"  # also the first time
    monkeypatch.delenv("RECOMBINE_DATA")
    assert found_again(there / "data.npy", sha256).path == elsewhere / "data.npy"  # seen by this process


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "data.npy"
    path.write_bytes(b"before")
    sha256 = checked_file(path).sha256
    path.write_bytes(b"after!")
    with pytest.raises(InputError, match="changed after its checksum was recorded"):
        DataFiles({"images": sha256}).open("images", path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_only_regular_files_are_opened(tmp_path, make):
    make(tmp_path / "data.npy")
    with pytest.raises(InputError, match="regular file"):
        checked_file(tmp_path / "data.npy")


def test_rows_are_read_in_any_order(tmp_path):
    array = np.arange(7 * 6, dtype=np.int16).reshape(7, 2, 3)
    np.save(tmp_path / "a.npy", array)
    rows = npy_rows(tmp_path / "a.npy")
    for wanted in ([], [3], [0, 1, 2], [6, 0, 0, 4, 5], [5, 4, 3]):
        np.testing.assert_array_equal(rows.read(np.array(wanted, dtype=np.int64)), array[wanted])
    again = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(again.read(np.array([2, 1])), array[[2, 1]])
    np.save(tmp_path / "f.npy", np.asfortranarray(array))
    np.testing.assert_array_equal(npy_rows(tmp_path / "f.npy").read(np.array([6, 0])), array[[6, 0]])


def test_joined_rows(tmp_path):
    parts = [np.arange(6).reshape(3, 2), np.arange(4).reshape(2, 2) + 10]
    joined = JoinedRows([MemoryRows(part) for part in parts])
    np.testing.assert_array_equal(joined.read(np.array([4, 0, 3])), np.concatenate(parts)[[4, 0, 3]])
    with pytest.raises(InputError, match="the same shape and type"):
        JoinedRows([MemoryRows(parts[0]), MemoryRows(parts[1].astype(float))])


def test_a_file_that_is_truncated_in_use_is_an_error(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((50, 1000)))
    rows = npy_rows(tmp_path / "a.npy")
    rows.read(np.array([0]))
    os.truncate(tmp_path / "a.npy", 5000)
    with pytest.raises(InputError, match="was truncated while it was in use"):
        rows.read(np.array([49]))


@pytest.mark.parametrize("damage", ["short", "long", "no array", "empty", "objects", "negative"])
def test_damaged_npy_files_are_refused_before_anything_is_read(tmp_path, damage):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((4, 3)))
    content = path.read_bytes()
    if damage == "short":
        path.write_bytes(content[:-1])
    elif damage == "long":
        path.write_bytes(content + b"more")
    elif damage == "no array":
        path.write_bytes(b"GIF89a" + content)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "objects":
        np.save(path, np.array([{}], dtype=object), allow_pickle=True)
    elif damage == "negative":
        path.write_bytes(content.replace(b"(4, 3)", b"(-4,3)"))
    with pytest.raises(InputError, match=str(path)):
        npy_rows(path)


def test_a_header_that_announces_too_much_allocates_nothing(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((4, 3)))
    path.write_bytes(path.read_bytes().replace(b"(4, 3), }        ", b"(999999999, 3), }"))
    with pytest.raises(InputError, match="its header declares 999999999×3 numbers"):
        npy_rows(path)


def test_uncompressed_members_are_read_where_they_lie(tmp_path):
    arrays = {"first": np.arange(10.0), "images": np.arange(24, dtype=np.uint8).reshape(4, 2, 3)}
    np.savez(tmp_path / "a.npz", **arrays)
    rows = NpzFile(tmp_path / "a.npz").rows("images")
    assert isinstance(rows, FileRows)
    np.testing.assert_array_equal(rows.read(np.array([3, 1])), arrays["images"][[3, 1]])


def test_of_compressed_members_only_the_chosen_rows_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("recombine.core.datasets.npy.BLOCK_BYTES", 20)  # several blocks
    array = np.arange(240, dtype=np.uint8).reshape(40, 2, 3)
    np.savez_compressed(tmp_path / "a.npz", images=array)
    archive = NpzFile(tmp_path / "a.npz")
    assert archive.is_compressed("images")
    rows = archive.rows("images", np.array([39, 2, 2, 17]))
    assert rows.shape == (4, 2, 3)
    np.testing.assert_array_equal(rows.read(np.arange(4)), array[[39, 2, 2, 17]])
    monkeypatch.setattr("recombine.core.datasets.npy.available_memory", lambda: 100)
    archive.rows("images", np.array([1]))
    with pytest.raises(InputError, match="recombine data unpack"):
        archive.rows("images")


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("damage", ["end", "middle", "start", "text"])
def test_damaged_npz_files_are_refused(tmp_path, compressed, damage):
    path = tmp_path / "a.npz"
    array = np.random.default_rng(0).integers(0, 256, (400, 5, 5), dtype=np.uint8)
    (np.savez_compressed if compressed else np.savez)(path, images=array)
    content = bytearray(path.read_bytes())
    if damage == "end":
        del content[-40:]
    elif damage == "middle":
        content[len(content) // 2 : len(content) // 2 + 50] = bytes(50)
    elif damage == "start":
        content[:60] = bytes(60)
    else:
        content = bytearray(b"<html>not found</html>")
    path.write_bytes(content)
    if damage == "middle" and not compressed:
        return  # numbers that changed: the checksum of the file tells, not its structure
    with pytest.raises(InputError, match=str(path)):
        NpzFile(path).rows("images")


def test_an_archive_that_promises_more_than_it_can_hold_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, images=np.zeros((10, 4), dtype=np.uint8))
    archive = NpzFile(path)
    archive._members["images"].file_size = 2**40
    with pytest.raises(InputError, match="its header declares"):
        archive.rows("images")
