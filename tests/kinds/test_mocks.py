"""Members of tensors and modules that a test mocks are renamed with the code that it mocks."""

from collections.abc import Callable
from typing import Any

import pytest

MOCK = "from unittest import mock\nfrom unittest.mock import MagicMock\nimport torch\n"
OPTION = "class Option:\n    is_cuda = False\n    def cuda(self): ...\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mock.patch.object(torch.Tensor, 'is_cuda', True)", "mock.patch.object(torch.Tensor, 'is_npu', True)"),
        ("monkeypatch.setattr(torch.nn.Module, 'cuda', f)", "monkeypatch.setattr(torch.nn.Module, 'npu', f)"),
        ("monkeypatch.delattr(torch.Tensor, 'cuda')", "monkeypatch.delattr(torch.Tensor, 'npu')"),
        ("mocker.patch('torch.Tensor.cuda')", "mocker.patch('torch.Tensor.npu')"),
        ("monkeypatch.setattr('torch.Tensor.is_cuda', 1)", "monkeypatch.setattr('torch.Tensor.is_npu', 1)"),
        ("m.cuda.return_value = m", "m.npu.return_value = m"),
        ("m.return_value.cuda.assert_called_once()", "m.return_value.npu.assert_called_once()"),
        ("assert m.cuda.call_count == 2", "assert m.npu.call_count == 2"),
        ("t = mock.Mock(spec=torch.Tensor, is_cuda=True)", "t = mock.Mock(spec=torch.Tensor, is_npu=True)"),
        ("t = MagicMock()\nt.is_cuda = True", "t = MagicMock()\nt.is_npu = True"),
        ("m.attach_mock(x, 'is_cuda')", "m.attach_mock(x, 'is_npu')"),
        (
            "m.attach_mock(x, 'cuda')\nm.cuda.assert_called_once()",
            "m.attach_mock(x, 'npu')\nm.npu.assert_called_once()",
        ),
        ("m.configure_mock(is_cuda=True)", "m.configure_mock(is_npu=True)"),
        (
            "m.configure_mock(**{'cuda.return_value': m, 'is_cuda': 1})",
            "m.configure_mock(**{'npu.return_value': m, 'is_npu': 1})",
        ),
        ("t = mock.Mock(**{'cuda.return_value.is_cuda': 1})", "t = mock.Mock(**{'npu.return_value.is_npu': 1})"),
        ("t = MagicMock(spec=['cuda', 'shape'])", "t = MagicMock(spec=['npu', 'shape'])"),
        ("t = mock.Mock(spec_set=('is_cuda', 'x'))", "t = mock.Mock(spec_set=('is_npu', 'x'))"),
        (
            "attrs = {'cuda.return_value': 3, 'is_cuda': False}\nmock.Mock(**attrs)",
            "attrs = {'npu.return_value': 3, 'is_npu': False}\nmock.Mock(**attrs)",
        ),
        (
            "mock.Mock(**dict({'cuda.return_value': 3}, is_cuda=False))",
            "mock.Mock(**dict({'npu.return_value': 3}, is_npu=False))",
        ),
        ("mock.NonCallableMagicMock(is_cuda=False)", "mock.NonCallableMagicMock(is_npu=False)"),
        ("mock.AsyncMock(is_cuda=False)", "mock.AsyncMock(is_npu=False)"),
        ("mock.patch('a.b', **{'cuda.return_value': 3})", "mock.patch('a.b', **{'npu.return_value': 3})"),
        ("def f(mocker): mocker.Mock(is_cuda=False)", "def f(mocker): mocker.Mock(is_npu=False)"),
        (
            "def f(mocker): mocker.patch.object(a, 'b', is_cuda=False)",
            "def f(mocker): mocker.patch.object(a, 'b', is_npu=False)",
        ),
        ("mock.create_autospec(torch.Tensor, is_cuda=False)", "mock.create_autospec(torch.Tensor, is_npu=False)"),
        ("n = mock.Mock(**{'cuda': lambda: 3})\nn.cuda()", "n = mock.Mock(**{'npu': lambda: 3})\nn.npu()"),
        ("mock.Mock(**{'cuda': mock.Mock()})", "mock.Mock(**{'npu': mock.Mock()})"),
        (
            "m = mock.Mock(**{'other.cuda': mock.Mock()})\nprint(m.cuda)",
            "m = mock.Mock(**{'other.npu': mock.Mock()})\nprint(m.cuda)",
        ),
        ("def f(): ...\nmock.Mock(**{'cuda': f})", "def f(): ...\nmock.Mock(**{'npu': f})"),
        ("n = mock.Mock(spec=['cuda'])\nn.cuda()", "n = mock.Mock(spec=['npu'])\nn.npu()"),
        ("n = mock.Mock(spec=['cuda'])\nself.n.cuda = 1", "n = mock.Mock(spec=['npu'])\nself.n.cuda = 1"),
        (
            "attrs = {'is_cuda': False}\na, b = mock.Mock(**attrs), mock.Mock(**attrs)",
            "attrs = {'is_npu': False}\na, b = mock.Mock(**attrs), mock.Mock(**attrs)",
        ),
        ("print(torch.Tensor.is_cuda)", "print(torch.Tensor.is_npu)"),
    ],
)
def test_a_mock_is_renamed(migrate: Callable[[str], str], before: str, after: str) -> None:
    plugin = MOCK.replace("import torch\n", "import torch\nimport torch_npu\n")
    assert migrate(f"{MOCK}{before}\n") == f"{plugin}{after}\n"


@pytest.mark.parametrize(
    "text",
    [
        "mock.patch.object(settings, 'is_cuda', True)",
        "batch.is_cuda = True",
        "options(is_cuda=True)",
        "options(**{'is_cuda': True})",
        "mock.Mock(**{'use_cuda.side_effect': f})",
        "monkeypatch.setattr(app, 'cuda', f)",
        "m.cuda.other = m",
        "args = mock.Mock(**{'cuda': False, 'lr': 0.1})\nif args.cuda: ...",
        "args = mock.Mock(is_cuda=True)\nprint(args.is_cuda)",
        "attrs = {'is_cuda': True}\nargs = mock.Mock(**attrs)\nn = mock.Mock(**attrs)",
        "mock.Mock(**{'args.cuda': True, 'args.is_cuda': True})",
        "mock.Mock(**{'cuda': True})",
        "n = mock.Mock(spec=['cuda', 'epochs'])\nn.cuda = True",
        "n = mock.Mock(spec=['cuda', 'epochs'])\nprint(n.cuda)",
        "cfg = mock.Mock(spec=['cuda', 'epochs'])",
        f"{OPTION}n = mock.Mock(spec=Option)\nn.is_cuda = True\nn.cuda.return_value = 2",
        f"{OPTION}n = mock.create_autospec(Option, is_cuda=True)",
        f"{OPTION}Option().configure_mock(is_cuda=True)",
        "class Batch:\n    def configure_mock(self, **kw): ...\nBatch().configure_mock(is_cuda=True)",
        "class Batch:\n    def cuda(self): ...\nb = Batch()\nb.cuda.return_value = 1",
    ],
)
def test_what_is_no_mock_of_torch_stays(migrate: Callable[[str], str], text: str) -> None:
    assert migrate(f"{MOCK}{text}\n") == f"{MOCK}{text}\n"


@pytest.mark.parametrize(
    ("text", "api"),
    [
        ("def f(use): mock.Mock(**{'cuda': use})", "cuda"),
        ("mock.Mock(**{'cuda': unbound})", "cuda"),
        ("mock.Mock(**{'cuda': pick()})", "cuda"),
        ("f = pick()\ndef f(): ...\nmock.Mock(**{'cuda': f})", "cuda"),
        ("attrs = {'is_cuda': False}\na, b = mock.Mock(**attrs), mock.Mock(**attrs)\nother(attrs)", "is_cuda"),
        ("attrs = {'is_cuda': False}\nmock.Mock(**attrs)\nother(attrs)", "is_cuda"),
        ("n = mock.Mock(spec=['cuda'])\nn.cuda()\nother(n.cuda)", "cuda"),
        ("class Batch:\n    def configure_mock(self, **kw): ...\nBatch().configure_mock(is_cuda=True)", "is_cuda"),
    ],
)
def test_what_may_be_for_a_mock_is_reported(project: Callable[..., dict[str, Any]], text: str, api: str) -> None:
    assert [each.api for each in project({"a.py": f"{MOCK}{text}\n"})["a.py"].findings if "mock" in each.message] == [
        api
    ]
