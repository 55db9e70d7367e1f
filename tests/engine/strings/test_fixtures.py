"""The parameters of fixtures: devices where the fixture or its readers say so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.rulebook import Rulebook

DEVICES = [
    "@pytest.fixture(params=['cuda'])\ndef device(request): ...",
    "import pytest\n@pytest.fixture(params=[('cuda', 1), ('cpu', 2)])\ndef pair(request):\n    return request.param",
    (
        "import pytest\n@pytest.fixture(params=[(1, 'cuda')])\ndef pair(request):\n    n, where = request.param\n"
        "    if where == 'cuda':\n        n += 1\n    return torch.device(where), n"
    ),
    (
        "import pytest\n@pytest.fixture(params=['cuda'])\ndef one(request):\n    where = request.param\n"
        "    if where == 'cuda': ...\n    return torch.device(where)"
    ),
    "import pytest\n@pytest.fixture(params=['cuda'])\ndef device(request):\n    x = request.param\n    x == 'cuda'",
    "import pytest\n@pytest.fixture(params=['cuda', 'cpu'])\ndef kind(request):\n    if request.param == 'cuda': ...",
    "import pytest\n@pytest.fixture(params=['cuda'])\ndef device(request):\n    if request.param != 'cuda': ...",
]


@pytest.mark.parametrize("text", DEVICES)
def test_a_parameter_is_a_device(migrate: Callable[[str], str], text: str) -> None:
    assert migrate(text) == text.replace("cuda", "npu")


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.fixture(params=[('cuda', 1), ('cpp', 2)])\ndef kind(request):\n    return request.param",
        "import pytest\n@pytest.fixture(params=[('cuda', 'b')])\ndef kind(request):\n    x, device = request.param",
        "import pytest\n@pytest.fixture\ndef kind(request):\n    yield 'cuda'",
        "def suffix(request):\n    if request.param == 'cuda':\n        return '.cu'\n",
        "if request.param == 'cuda': ...\n",
        "@pytest.fixture(params=[1])\ndef device(other):\n    if request.param == 'cuda': ...\n",
        "@pytest.fixture(name='cuda')\ndef device(request): ...\n",
        "@pytest.fixture(params='cuda')\nclass Device: ...\n",
        "build(params=['cuda'])\n",
    ],
)
def test_an_uncertain_parameter_is_reported(rulebook: Rulebook, text: str) -> None:
    """A condition on sources is not called one on tensors."""
    result = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    (finding,) = result.findings
    assert result.content is None
    assert (finding.api, finding.message.partition(";")[0]) == ("'cuda'", "May mean 'npu' on the NPU")


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\n@pytest.fixture(params=[1, 2], ids=['cuda', 'other'])\ndef device(request): ...",
        "print(params='cuda')",
        "logger.info('start', params=['cuda'])",
    ],
)
def test_what_is_no_parameter_of_a_fixture_stays_without_a_word(rulebook: Rulebook, text: str) -> None:
    result = migrate_source(text.encode(), "a.py", rulebook, ProjectContext())
    assert (result.content, result.findings) == (None, ())


def test_only_the_element_that_is_compared_with_a_device_is_one(migrate: Callable[[str], str]) -> None:
    text = (
        "import pytest\n@pytest.fixture(params=[({!r}, {!r}), {}])\ndef kind(request):\n"
        "    {}, {} = request.param\n    if device == {!r}: ...\n"
    )
    given = ("cuda", "cuda")
    for other, names, changed in (
        ("(1, 'cpu')", ("x", "device"), ("cuda", "npu")),
        ("('cpu', 1)", ("device", "x"), ("npu", "cuda")),
    ):
        assert migrate(text.format(*given, other, *names, "cuda")) == text.format(*changed, other, *names, "npu")


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("kind(request)", "    where = request.param\n    where = pick()\n    if where == 'cuda': ...\n"),
        ("kind(request)", "    if request.scope == 'cuda': ...\n"),
        ("kind(request)", "    if request.node.param == 'cuda': ...\n"),
    ],
)
def test_what_may_be_another_value_than_the_parameter_stays(
    migrate: Callable[[str], str], head: str, body: str
) -> None:
    fixture = "import pytest\n@pytest.fixture(params=[{!r}, 'cpu'])\ndef {}:\n{}"
    assert migrate(fixture.format("cuda", head, body)) == fixture.format("npu", head, body)


def test_rows_of_parameters_may_have_different_lengths(migrate: Callable[[str], str]) -> None:
    text = (
        "import pytest\n@pytest.fixture(params=[(1, 'cuda'), (2,), (3, 'cpu')])\ndef kind(request):\n"
        "    n, where = request.param\n    if where == 'cuda': ...\n"
    )
    assert migrate(text) == text.replace("cuda", "npu")
