"""What a test mocks of tensors and modules is renamed with the code that it mocks."""

from collections.abc import Callable

import pytest

MOCK = "from unittest import mock\nfrom unittest.mock import MagicMock\nimport torch\n"


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
        ("m.configure_mock(is_cuda=True)", "m.configure_mock(is_npu=True)"),
        (
            "m.configure_mock(**{'cuda.return_value': m, 'is_cuda': 1})",
            "m.configure_mock(**{'npu.return_value': m, 'is_npu': 1})",
        ),
        ("t = mock.Mock(**{'cuda.return_value.is_cuda': 1})", "t = mock.Mock(**{'npu.return_value.is_npu': 1})"),
        ("t = MagicMock(spec=['cuda', 'shape'])", "t = MagicMock(spec=['npu', 'shape'])"),
        ("t = mock.Mock(spec_set=('is_cuda', 'x'))", "t = mock.Mock(spec_set=('is_npu', 'x'))"),
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
        "class Batch:\n    def cuda(self): ...\nb = Batch()\nb.cuda.return_value = 1",
    ],
)
def test_what_is_no_mock_of_torch_stays(migrate: Callable[[str], str], text: str) -> None:
    assert migrate(f"{MOCK}{text}\n") == f"{MOCK}{text}\n"
