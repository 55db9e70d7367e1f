"""The language of conditions: what holds, what does not, and what is not known."""

import pytest

from gpu2npu.support.conditions import UNKNOWN, CallFacts, ConditionError, TensorFacts, condition

X = TensorFacts("float16", (2, 3, None), "strided", "npu")
MASK = TensorFacts("bool", (1, 1, 1, 8))
KNOWN = TensorFacts("int32", (3,), least=0.0, greatest=7.0, ascending=False)
GIVEN = CallFacts(
    {
        "x": X,
        "mask": MASK,
        "known": KNOWN,
        "none": None,
        "n": 3,
        "sizes": [1, 2],
        "many": [X, MASK],
        "bare": TensorFacts(),
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("x.dtype == float16", True),
        ("x.dtype in (float32, bfloat16)", False),
        ("x.dtype in floats and mask.dtype == bool", True),
        ("x.dtype in (integers, float16)", True),
        ("x.dtype not in integers", True),
        ("bare.dtype == float16", UNKNOWN),
        ("bare.dtype == float16 or n == 3", True),
        ("bare.dtype == float16 and n == 4", False),
        ("not bare.dtype == float16", UNKNOWN),
        ("x.rank == 3", True),
        ("bare.rank == 3", UNKNOWN),
        ("x.shape[0] * n == 6", True),
        ("x.shape[-1] == 8", UNKNOWN),
        ("x.shape[4] != 8", False),
        ("mask.shape[-2] == 1 and mask.shape[-1] > 4", True),
        ("mask.numel == 8", True),
        ("x.device == 'npu'", True),
        ("none.dtype != float32", False),
        ("none is None", True),
        ("x is not None", True),
        ("absent == 1", UNKNOWN),
        ("len(sizes) == 2", True),
        ("sizes == (1, 2)", True),
        ("len(many) == 2", True),
        ("many.dtype == bool", True),
        ("tensors.dtype == float64", UNKNOWN),
        ("tensors.rank == 4", True),
        ("n < 'a'", False),
        ("n % 2 != 0", True),
        ("1 < n <= 3", True),
        ("-n == -3", True),
        ("known.greatest > 6 and known.least == 0", True),
        ("known.ascending == False", True),
        ("x.greatest > 6", UNKNOWN),
        ("none.least < 0", False),
        ("factor(n * 8) == 3 and factor(1) == 1 and factor(202) == 101", True),
        ("factor(x.shape[2]) > 7", UNKNOWN),
    ],
)
def test_answers(text: str, expected: object) -> None:
    assert condition(text).holds(GIVEN) is expected


def test_a_name_of_torch_is_itself() -> None:
    given = CallFacts({"op": "torch.distributed.ReduceOp.AVG"})
    assert condition("op == torch.distributed.ReduceOp.AVG").holds(given) is True


def test_what_a_condition_depends_on() -> None:
    assert condition("x.dtype == bool and n > 2").uses == {("x", "dtype"), ("n", "")}


@pytest.mark.parametrize("text", ["x.size == 3", "open('a')", "x.dtype = 1", "x.a.b == 1", "lambda: 1", "x.dtype =="])
def test_what_is_not_of_the_language(text: str) -> None:
    with pytest.raises(ConditionError):
        condition(text)
