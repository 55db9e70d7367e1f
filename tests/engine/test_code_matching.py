"""Matches of code patterns where something is not known: an object, or the arguments that are unpacked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu2npu.records import MigratedFile

MigrateWith = Callable[..., MigratedFile]
CALL = {"id": "own", "match": {"code": "$G.to_gpu()", "types": {"G": "unknown"}}, "then": {"replace": "$G.to_npu()"}}
READ = {"id": "own", "match": {"code": "$G.on_gpu", "types": {"G": "unknown"}}, "then": {"replace": "$G.on_npu"}}


@pytest.mark.parametrize(
    ("own", "call", "read"),
    [
        ("class Kit: ...", True, True),
        ("class Kit:\n    def to_gpu(self): ...", False, True),
        ("class Kit:\n    def on_gpu(self): ...", True, True),
        ("class Kit:\n    on_gpu = to_gpu = False", True, False),
        ("class Kit:\n    def __init__(self):\n        self.on_gpu = False", True, False),
        ("class Kit:\n    @property\n    def on_gpu(self): ...", True, False),
        ("import torch\nclass Kit(torch.nn.Module):\n    def to_gpu(self): ...", True, True),
    ],
)
def test_an_object_may_be_of_a_class_that_defines_the_member(
    migrate_with: MigrateWith, own: str, call: bool, read: bool
) -> None:
    """A method of the file's own class counts for calls, its data for reads; Modules are not meant."""
    for rule, code, is_changed in ((CALL, "k.to_gpu()", call), (READ, "k.on_gpu", read)):
        result = migrate_with([rule], f"{own}\ndef f(k):\n    return {code}\n")
        assert bool(result.changes) is is_changed, code


@pytest.mark.parametrize("name", ["args", "cfg", "self.opt"])
def test_flags_of_the_program_are_no_unknown_objects(migrate_with: MigrateWith, name: str) -> None:
    assert not migrate_with([READ], f"def f(self, args, cfg):\n    return {name}.on_gpu\n").changes


@pytest.mark.parametrize(
    ("call", "is_possible"),
    [
        ("lib.f(*rest)", True),
        ("lib.f(**more)", False),
        ("lib.f(a, *rest)", True),
        ("lib.f(a, **more)", True),
        ("lib.f(*rest, a)", True),
        ("lib.f(a, b, *rest)", False),
        ("lib.f(a, b, **more)", False),
        ("lib.f(a, *rest, key=1)", False),
        ("lib.f(a, key=1, **more)", False),
    ],
)
def test_unpacked_arguments_may_be_those_of_a_pattern(migrate_with: MigrateWith, call: str, is_possible: bool) -> None:
    """Nothing is reported where an argument is one too many, or where its position can not be unpacked."""
    rule = {"id": "own", "match": {"code": "lib.f($X)"}, "then": {"replace": "lib.g($X)"}}
    result = migrate_with([rule], f"import lib\n{call}\n")
    assert not result.changes
    assert ["it is not known which arguments" in found.message for found in result.findings] == [True] * is_possible
