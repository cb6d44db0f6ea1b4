"""Arrays survive the way to the page up to the stated rounding."""

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from recombine.report.arrays import Blobs, Block, quantize, restore

numbers = arrays(np.float64, st.tuples(st.integers(1, 5), st.integers(1, 6)), elements=st.floats(-1e6, 1e6))


@given(numbers, st.sampled_from([8, 16]), st.booleans())
def test_linear_numbers_are_within_half_a_step(values, bits, by_row):
    codes, about = quantize(values, bits=bits, by_row=by_row)
    span = np.ptp(values, axis=1, keepdims=True) if by_row else np.ptp(values)
    bound = np.maximum(span, 1.0) / (2**bits - 2) / 2 * 1.001 + 1e-8 * np.abs(values).max()
    assert (np.abs(restore(codes, about) - values) <= bound).all()


def test_the_root_curve_is_fine_near_zero():
    values = np.linspace(-0.2, 1.0, 4001)
    codes, about = quantize(values, curve="root")
    away = np.abs(restore(codes, about) - values)
    assert away.max() < 0.01
    assert away[np.abs(values) < 1e-3].max() < 3e-4


def test_the_log_curve_keeps_relative_size_and_takes_zero():
    values = np.array([0.0, 1e-9, 3e-5, 0.2, 7.0])
    found = restore(*quantize(values, bits=16, curve="log"))
    np.testing.assert_allclose(found[1:], values[1:], rtol=1e-3)
    assert found[0] == pytest.approx(1e-12)


def test_what_is_no_number_stays_none():
    values = np.array([[np.nan, 1.0], [np.inf, np.nan]])
    found = restore(*quantize(values, by_row=True))
    assert np.isnan(found).tolist() == [[True, False], [True, True]]
    assert found[0, 1] == 1.0


def test_equal_arrays_are_kept_once_and_sizes_add_up():
    blobs = Blobs()
    first = blobs.add(np.arange(100.0), Block("a"))
    second = blobs.add(np.arange(100.0), Block("b"))
    third = blobs.add(np.arange(99.0), Block("b"), bits=16)
    assert first["blob"] == second["blob"] != third["blob"]
    assert sum(blobs.sizes.values()) == sum(map(len, blobs.texts.values()))
    assert set(blobs.sizes) == {Block("a"), Block("b")}
    content = zlib.decompress(base64.b64decode(blobs.texts[third["blob"]]))
    np.testing.assert_allclose(restore(np.frombuffer(content, "<u2"), third), np.arange(99.0), atol=1e-2)
