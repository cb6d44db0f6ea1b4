"""Rotated digits against scipy, and MNIST's files: what is read, and what is refused."""

import gzip
import hashlib
import struct

import numpy as np
import pytest
import torch
from scipy import ndimage

from recombine.core.errors import InputError
from recombine.core.factors import FactorSpace, continuous, cyclic, discrete
from recombine.core.scenes import RotatedDigit
from recombine.core.scenes.mnist import first_of_each_class, packaged_digits, read_idx
from recombine.core.scenes.rotated_digit import packed
from recombine.runs.config import RunConfig
from recombine.training.recipe import recipe
from recombine.training.training_set import check_examples

TURN = FactorSpace(angle=cyclic(360.0, 1000))


def by_scipy(image: np.ndarray, angle: float) -> np.ndarray:
    return ndimage.rotate(image, angle, reshape=False, order=1, mode="constant", cval=0.0)


# --- the rotation -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float, torch.double], ids=str)
def test_it_is_scipys_rotation(dtype):
    angles = torch.cat([torch.arange(0.0, 360.0, 7.3), torch.tensor([90.0, 180.0, 270.0, 359.9, 160.0, 200.0])])
    for digit in range(10):
        images = RotatedDigit(TURN, digits=[digit])(angles[:, None].to(dtype))
        image = packaged_digits()[digit].numpy() / 255
        expected = np.stack([by_scipy(image, float(angle)) for angle in angles])
        assert images.dtype == dtype
        assert np.abs(images.numpy() - expected).max() < 1e-5


def test_it_is_scipys_rotation_up_to_the_border():
    """Noise reaches the border, where a digit is black. Half turns are left out: scipy's own rounding decides there."""
    noise = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8))
    scene = RotatedDigit(TURN, digits=[0], images=[packed(noise)])
    for angle in (3.0, 30.0, 45.0, 100.1, 137.0, 222.2, 301.7):
        found = scene(torch.tensor([angle], dtype=torch.double)).numpy()
        assert np.abs(found - by_scipy(noise.numpy() / 255, angle)).max() < 1e-5


def test_no_turn_and_quarter_turns_move_whole_pixels():
    noise = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (28, 28), dtype=np.uint8))
    scene = RotatedDigit(TURN, digits=[0], images=[packed(noise)])
    for quarter in range(-1, 5):
        found = scene(torch.tensor([90.0 * quarter]))
        assert torch.allclose(found, noise.rot90(quarter) / 255, atol=1e-4)


def test_a_whole_turn_changes_nothing():
    angles = torch.linspace(0, 350, 8, dtype=torch.double)[:, None]
    assert torch.allclose(RotatedDigit(TURN)(angles), RotatedDigit(TURN)(angles - 720), atol=1e-9)


def test_the_digit_factor_shows_the_digits_listed():
    scene = RotatedDigit(FactorSpace(angle=cyclic(360.0, 8), digit=discrete(3, low=1.0, step=2.0)), digits=[4, 9, 0])
    for value, digit in ((1.0, 4), (3.0, 9), (5.0, 0)):
        assert torch.equal(scene(torch.tensor([0.0, value])), packaged_digits()[digit] / 255)
    values = torch.tensor([[200.0, 3.0], [10.0, 1.0]])
    alone = [RotatedDigit(TURN, digits=[9])(values[0, :1]), RotatedDigit(TURN, digits=[4])(values[1, :1])]
    assert torch.equal(scene(values), torch.stack(alone))


def test_memory_follows_the_values():
    assert RotatedDigit(TURN)(torch.zeros(0, 1)).shape == (0, 28, 28)


# --- the digits -------------------------------------------------------------------------------------------------


def test_the_packaged_digits_are_mnists():
    digits = packaged_digits()
    assert digits.shape == (10, 28, 28)
    digest = hashlib.sha256(digits.numpy().tobytes()).hexdigest()
    assert digest == "e8737cc300f9abd04535ad92cecf10409fc564bdc2441c3f7a23a0280f104a57"


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


LABELS = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 8, 7, 0], dtype=np.uint8)
IMAGES = np.random.default_rng(2).integers(0, 256, (len(LABELS), 28, 28), dtype=np.uint8)
NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")


@pytest.fixture
def mnist(tmp_path):
    (tmp_path / NAMES[0]).write_bytes(idx(IMAGES))
    (tmp_path / NAMES[1]).write_bytes(idx(LABELS))
    return tmp_path


@pytest.mark.parametrize("packing", ["raw", "gzip", "gzip without saying so", "dots", "test set"])
def test_the_first_image_of_each_class_is_read(tmp_path, packing):
    for name, array in zip(NAMES, (IMAGES, LABELS)):
        content = gzip.compress(idx(array)) if "gzip" in packing else idx(array)
        name = {
            "gzip": f"{name}.gz",
            "dots": name.replace("-idx", ".idx"),
            "test set": name.replace("train", "t10k"),
        }.get(packing, name)
        (tmp_path / name).write_bytes(content)
    found = first_of_each_class(tmp_path)
    assert torch.equal(found, torch.from_numpy(IMAGES[[12, 1, 6, 0, 2, 4, 7, 11, 10, 5]]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: (f / NAMES[0]).unlink(), "contain MNIST's images. None of train-images-idx3-ubyte, train-images-"),
        (lambda f: (f / NAMES[1]).unlink(), "contain MNIST's labels. None of train-labels-idx1-ubyte,"),
        (lambda f: (f / NAMES[0]).write_bytes(idx(IMAGES)[:-1]), "is truncated: its header declares 13×28×28 bytes"),
        (lambda f: (f / NAMES[0]).write_bytes(idx(IMAGES) + b"x"), "has bytes after its last entry"),
        (lambda f: (f / NAMES[0]).write_bytes(idx(IMAGES)[:9]), "not an IDX file of unsigned bytes with 3 dimensions"),
        (lambda f: (f / NAMES[0]).write_bytes(b""), "It begins with nothing, not 00 00 08 03."),
        (lambda f: (f / NAMES[0]).write_bytes(b"\x89PNG\r\n\x1a\n" * 99), "It begins with 89 50 4e 47, not 00"),
        (lambda f: (f / NAMES[1]).write_bytes(idx(IMAGES)), "with 1 dimension. It begins with 00 00 08 03"),
        (lambda f: (f / NAMES[0]).write_bytes(idx(IMAGES[:, :20])), "contains images of 20×28 pixels; expected 28×28"),
        (lambda f: (f / NAMES[0]).write_bytes(idx(IMAGES[:9])), "has 9 images, but train-labels-idx1-ubyte has 13"),
        (lambda f: (f / NAMES[1]).write_bytes(idx(LABELS % 8)), "no image of class 8, 9. All classes from 0 to 9 are"),
        (
            lambda f: (f / NAMES[0]).write_bytes(gzip.compress(idx(IMAGES))[:-50]),
            "cannot be read: Compressed file ended before the end-of-stream marker",
        ),
        (
            lambda f: (f / NAMES[0]).write_bytes(gzip.compress(idx(IMAGES))[:200] + b"x" * 4000),
            "It is damaged or was not downloaded completely",
        ),
        (
            lambda f: (f / NAMES[0]).write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**31, 28, 28)),
            "declares 2147483648×28×28 bytes. Expected 1 to 1073741824",
        ),
        (lambda f: (f / NAMES[0]).write_bytes(idx(IMAGES[:0])), "declares 0×28×28 bytes"),
    ],
)  # fmt: skip
def test_other_files_are_refused(mnist, change, message):
    change(mnist)
    with pytest.raises(InputError) as caught:
        first_of_each_class(mnist)
    assert message in str(caught.value)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(InputError, match=r"is not a folder\. --mnist must be the folder"):
        first_of_each_class(tmp_path / "nowhere")


def test_a_packed_bomb_does_not_unfold(tmp_path):
    """A gzip file is read as far as its header declares and one byte more."""
    (tmp_path / "f").write_bytes(gzip.compress(idx(LABELS) + bytes(10**8)))
    with pytest.raises(InputError, match="has bytes after its last entry"):
        read_idx(tmp_path / "f", 1)


# --- bad input, and configurations ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RotatedDigit(FactorSpace(x=5, y=5)), "requires a factor 'angle' and may have 'digit'. Got x, y."),
        (lambda: RotatedDigit(FactorSpace(digit=5)), "requires a factor 'angle'"),
        (lambda: RotatedDigit(FactorSpace(angle=cyclic(180.0, 9))), "wraps around at 360. Got a period of 180."),
        (lambda: RotatedDigit(FactorSpace(angle=9, digit=3)), "one digit for each value of a discrete factor 'digit'"),
        (lambda: RotatedDigit(FactorSpace(angle=9), digits=[1, 2]), "Got digits=[1, 2] for FactorSpace(angle=9)"),
        (
            lambda: RotatedDigit(FactorSpace(angle=9, digit=continuous(0.0, 2.0, 2)), digits=[1, 2]),
            "a discrete factor 'digit'",
        ),
        (lambda: RotatedDigit(TURN, digits=[10]), "less than 10. Got 10 instead."),
        (lambda: RotatedDigit(TURN, digits=[]), "at least 1 entry"),
        (lambda: RotatedDigit(TURN, images=[]), "one image for each of digits=[4]. Got 0 images."),
        (lambda: RotatedDigit(TURN, images=["so"]), "must consist of 28×28 bytes in base64. Got 'so' (2 characters)."),
        (lambda: RotatedDigit(TURN, images=["ä" * 1048]), "must consist of 28×28 bytes in base64."),
    ],
)
def test_bad_input_is_explained(make, message):
    with pytest.raises(InputError) as caught:
        make()
    assert message in str(caught.value)


def configured(**scene) -> RunConfig:
    factors = {"angle": {"kind": "cyclic", "size": 36, "step": 10.0}}
    gap = {"kind": "gap", "factor": "angle", "lo": 160.0, "hi": 200.0, "inclusive": False}
    return RunConfig.from_dict(
        {
            "scene": {"kind": "rotated_digit", "factors": factors, **scene},
            "encoding": {"kind": "positional", "frequencies": 1},
            "holdout": gap,
            "training": {"kind": "paper", "allow_unseen": True},
        }
    )


def test_own_images_are_part_of_the_configuration():
    text = packed(torch.from_numpy(IMAGES[0]))
    config = configured(images=[text])
    assert config.hash == configured(images=[text], digits=[4]).hash != configured().hash
    again = RunConfig.from_dict(config.to_dict()).task().scene(torch.tensor([0.0]))
    assert torch.allclose(again, torch.from_numpy(IMAGES[0]) / 255)
    assert len(repr(config.task().scene)) < 250


def test_the_ends_of_the_gap_are_trained_on():
    task = configured().task()
    assert task.space.values(task.holdout.ood_cells).flatten().tolist() == [170.0, 180.0, 190.0]
    code = task.inputs(torch.tensor([[90.0], [200.0]], dtype=torch.double))
    assert torch.allclose(code[0], torch.tensor([1.0, 0.0], dtype=torch.double))
    assert np.allclose(code[1], [np.sin(np.radians(200)), np.cos(np.radians(200))])


def test_stripes_of_digits_are_refused_before_anything_is_written():
    space = FactorSpace(angle=cyclic(360.0, 8), digit=2)
    from recombine.core.encodings import OneHot
    from recombine.core.holdouts import mask
    from recombine.core.task import Task

    held = np.zeros((8, 2), dtype=bool)
    held[3, 1] = True
    task = Task(RotatedDigit(space, digits=[4, 7]), OneHot(space), mask(space, held))
    check_examples(task, recipe("paper"))
    with pytest.raises(InputError) as caught:
        check_examples(task, recipe("paper", examples={"single_factor": {}}))
    assert caught.value.key == "training.examples.single_factor"
