"""Promotion against torch.result_type, over every pair and triple of operands hypothesis thinks of."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu2npu.emulator.kernels import promotion

DTYPES = {
    torch.bool: promotion.BOOL,
    torch.uint8: promotion.U8,
    torch.int8: promotion.I8,
    torch.int16: promotion.I16,
    torch.int32: promotion.I32,
    torch.int64: promotion.I64,
    torch.float16: promotion.F16,
    torch.bfloat16: promotion.BF16,
    torch.float32: promotion.F32,
    torch.float64: promotion.F64,
    torch.complex64: promotion.C64,
    torch.complex128: promotion.C128,
}
tensors = st.tuples(st.sampled_from(list(DTYPES)), st.sampled_from([(), (2,)]))
operand = st.one_of(tensors, st.sampled_from([True, 3, 2.5, 1j]))


def pair(spec):
    """An operand for torch and the same for us."""
    if not isinstance(spec, tuple):
        return spec, spec
    dtype, shape = spec
    return torch.ones(shape, dtype=dtype), np.ones(shape, DTYPES[dtype])


@given(operand, operand)
@settings(max_examples=500)
def test_result_type_of_two(a, b):
    (ta, na), (tb, nb) = pair(a), pair(b)
    if not isinstance(ta, torch.Tensor) and not isinstance(tb, torch.Tensor):
        return
    expected = torch.result_type(ta, tb)
    # NumPy has no complex of two float16: the next wider one takes the place of it.
    assert promotion.result_type(na, nb) == DTYPES.get(expected, promotion.C64)


@given(tensors, tensors, st.sampled_from([1, 2.5, True]))
@settings(max_examples=300)
def test_result_type_of_three_is_addcmuls(a, b, c):
    (ta, na), (tb, nb), (tc, nc) = pair(a), pair(b), pair(c)
    expected = torch.where(torch.ones(2, dtype=torch.bool), ta, tb)
    assert promotion.result_type(na, nb) == DTYPES.get(expected.dtype, promotion.C64)
    assert promotion.result_type(na, nc) == DTYPES[torch.result_type(ta, tc)]


@pytest.mark.parametrize("a", DTYPES, ids=str)
@pytest.mark.parametrize("b", DTYPES, ids=str)
def test_promote_types(a, b):
    assert promotion.promote_types(DTYPES[a], DTYPES[b]) == DTYPES[torch.promote_types(a, b)]


def test_scalars_wrap_into_integer_dtypes():
    assert promotion.cast(300, promotion.U8) == 44


def test_operands_compute_halves_in_float32():
    a, b, dtype = promotion.operands(np.ones(2, np.float16), np.ones((), np.float32))
    assert (a.dtype, b.dtype, dtype) == (np.float32, np.float32, np.float16)
