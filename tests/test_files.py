"""Files that are whole or not there, and what is said of a damaged one."""

import pickle

import numpy as np
import pytest
import torch

from geolab.files import read_tensors, whole, write_tensors


def test_a_file_takes_its_place_at_the_end_or_not_at_all(tmp_path):
    path = tmp_path / "a file ü.txt"
    for text, error in (("first", None), ("second", KeyboardInterrupt), ("third", OSError)):
        try:
            with whole(path) as partial:
                partial.write_text(text)
                if error:
                    raise error
        except (KeyboardInterrupt, OSError):
            pass
        assert path.read_text() == "first" and [*tmp_path.iterdir()] == [path]


def test_what_is_written_is_read_with_the_numbers_of_numpy_as_python_s(tmp_path):
    write_tensors({"a": [np.float64(0.5), (np.int64(2), np.bool_(True))], "b": torch.ones(2)},
                  tmp_path / "file")
    found = read_tensors(tmp_path / "file")
    assert found["a"] == [0.5, (2, True)] and type(found["a"][0]) is float
    assert torch.equal(found["b"], torch.ones(2))


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("damage", [
    lambda data: data[:len(data) // 2], lambda data: b"", lambda data: b"some words",
    lambda data: bytes(len(data)), lambda data: pickle.dumps(print)])
def test_a_damaged_file_is_refused_by_its_path(tmp_path, damage):
    path = tmp_path / "weights.pt"
    torch.save({"x": torch.ones(3)}, path)
    assert torch.equal(read_tensors(path)["x"], torch.ones(3))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"weights.pt must be a whole file that torch.save wrote"):
        read_tensors(path)


def test_a_path_that_cannot_be_read_keeps_its_error(tmp_path):
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "no", FileNotFoundError)):
        with pytest.raises(error, match=str(path)):
            read_tensors(path)


def test_of_two_writers_at_once_the_last_one_wins(tmp_path):
    path = tmp_path / "a file"
    with whole(path) as first, whole(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first" and [*tmp_path.iterdir()] == [path]
