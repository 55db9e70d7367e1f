"""Comparisons with a name that takes the elements of a list one after the other."""

import pytest

DEVICES = [
    "for given in ('cpu', 'cuda'):\n    if given == 'cuda': ...",
    "for given in ('gpu', 'cuda', 'cuda:0'):\n    if given == 'cuda': ...",
    "GIVEN = ['cpu', 'cuda']\nfor given in GIVEN:\n    if given == 'cuda': ...",
    "[f(given) for given in ['cpu', 'cuda'] if given == 'cuda']",
    "@pytest.mark.parametrize('given', ['cpu', 'cuda'])\ndef test(given):\n    if given == 'cuda': ...",
]
OTHERS = [
    "for given in ('nvidia', 'cuda'):\n    if given == 'cuda': ...",
    "for given in ('cuda', 'cuda:12.1', 'hip'):\n    if given == 'cuda': ...",
    "for given in ('cpu', 'npu', 'cuda'):\n    if given == 'cuda': ...",
    "for given in ('cpu', 'mps'):\n    given = read()\n    if given == 'cuda': ...",
    "for given, n in ('cpu', 'mps'):\n    if given == 'cuda': ...",
    "@pytest.mark.parametrize('other', ['cpu', 'mps'])\ndef test(given, other):\n    if given == 'cuda': ...",
]


@pytest.mark.parametrize("text", DEVICES)
def test_an_element_of_a_list_of_devices(migrate, text: str) -> None:
    assert migrate(text) == text.replace("cuda", "npu")


@pytest.mark.parametrize("text", OTHERS)
def test_other_names(migrate, text: str) -> None:
    assert migrate(text) == text
