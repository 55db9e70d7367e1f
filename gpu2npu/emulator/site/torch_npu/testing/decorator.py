"""Decorators that make a test for each dtype and storage format."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Case = TypeVar("Case", bound=type)
Test = Callable[..., Any]


class _Values:
    attribute = ""

    def __init__(self, *args: Any) -> None:
        if not args:
            raise RuntimeError(f"No {self.attribute} given")
        self.args = args

    def __call__(self, fn: Test) -> Test:
        """Note the values on the test."""
        setattr(fn, self.attribute, self.args)
        return fn


class Dtypes(_Values):
    """The dtypes of a test."""

    attribute = "dtypes"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if not all(isinstance(each, torch.dtype) for each in args):
            raise RuntimeError(f"Unknown dtype in {args}")


class Formats(_Values):
    """The storage formats of a test."""

    attribute = "formats"


def feed_data(func: Test, new_name: str, *args: Any, **kwargs: Any) -> Test:
    """A test of another name that has its arguments."""

    @functools.wraps(func)
    def run(self: Any) -> Any:
        return func(self, *args, **kwargs)

    run.__name__ = new_name
    return run


def instantiate_tests(arg: Case, **kwargs: Any) -> Case:
    """A decorator that puts a test for each dtype and format in the place of each test that names them."""
    for name, test in list(vars(arg).items()):
        kinds = [kind for kind in ("dtype", "format") if hasattr(test, f"{kind}s")]
        if not kinds:
            continue
        parameters = inspect.getfullargspec(test).args
        for values in itertools.product(*(getattr(test, f"{kind}s") for kind in kinds)):
            given = {"device": "npu"} if "device" in parameters else {}
            for kind, value in zip(kinds, values, strict=True):
                given[next(each for each in parameters if kind in each)] = value
            new_name = "_".join((name, *(str(value).removeprefix("torch.") for value in values)))
            setattr(arg, new_name, feed_data(test, new_name, **given))
        delattr(arg, name)
    return arg
