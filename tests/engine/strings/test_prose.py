"""Strings that people read stay; those that the program reads are renamed, also beside prose."""

from __future__ import annotations

from collections.abc import Callable

import pytest

NAME, RENAMED = "CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"

SPOKEN = [
    "print('{0}')",
    "print(['{0}'])",
    "print({{'a': '{0}'}})",
    "print(['{0}'][0])",
    "print('a', ('b', '{0}'))",
    "print('{0}' if ok else '')",
    "print(', '.join(['a', '{0}']))",
    "print(text=str(['{0}']))",
    "raise ValueError(['{0}'])",
    "warnings.warn(['{0}'])",
    "rank_print(['{0}'])",
    "build(help=['{0}'])",
    "def f():\n    '{0}'",
    "if '{0}=0' in log: ...",
    "if ['{0}=0'] in log: ...",
    "log.index('{0}=0')",
]
OWN_NAMES = [
    "getattr(settings, '{0}')",
    "setattr(settings, '{0}', 1)",
    "__all__ = ['{0}']",
    "__all__ += ('{0}', 'a')",
    "__all__: list[str] = ['{0}']",
    "namedtuple('Settings', '{0}')",
    "namedtuple('Settings', ['{0}'])",
    "@pytest.mark.parametrize('{0}', [1])\ndef test({0}): ...",
    "@pytest.mark.parametrize(('a', '{0}'), [(1, 2)])\ndef test(a, {0}): ...",
]
READ = [
    "print(os.environ['{0}'])",
    "print(os.environ.get('{0}'))",
    "print(key == '{0}')",
    "names = ['{0}']",
    "for name in ['{0}']:\n    print(name)",
    "['{0}']",
    "with patched(['{0}']):\n    print(1)",
    "fingerprint(['{0}'])",
    "build(names=['{0}'])",
    "raise report('{0}')",
    "getattr(settings, 'name', '{0}')",
    "settings.getattr(0, '{0}')",
    "@pytest.mark.parametrize('name', '{0}')\ndef test(name): ...",
    "@pytest.mark.parametrize('name', ['{0}'])\ndef test(name): ...",
    "namedtuple('{0}', 'a')",
    "__any__ = ['{0}']",
    "if log in ('{0}=0', ''): ...",
]


@pytest.mark.parametrize("text", SPOKEN)
def test_what_people_read_stays(migrate: Callable[[str], str], text: str) -> None:
    assert migrate(text.format(NAME)) == text.format(NAME)


@pytest.mark.parametrize("text", OWN_NAMES)
def test_a_name_in_the_program_stays(migrate: Callable[[str], str], text: str) -> None:
    assert migrate(text.format(NAME)) == text.format(NAME)


@pytest.mark.parametrize("text", READ)
def test_what_the_program_reads_is_renamed(migrate: Callable[[str], str], text: str) -> None:
    assert migrate(text.format(NAME)) == text.format(RENAMED)
