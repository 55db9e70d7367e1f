"""Devices of code that computes with a package that knows no NPU, and has nothing of PyTorch."""

import textwrap

import pytest

SETTINGS = """
    class Settings:
        class Torch:
            def __init__(self):
                self.device = "cuda:0"

            def parse(self, device):
                import torch
                return torch.device(device)

        class Jax:
            def __init__(self, rank):
                self.device = f"cuda:{rank}"
                self.spare = "cuda:1"

            @property
            def found(self):
                return self.parse(self.device)

            @staticmethod
            def parse(device):
                import jax
                import numpy
                numpy.asarray(jax.device_get(jax.numpy.ones(3)))
                device_type, _, index = device.partition(":")
                return jax.devices(device_type)[int(index)]
"""
CHECKS = """
    import jax
    import pytest
    from settings import Settings

    @pytest.mark.parametrize("device", [None, "cpu", "cuda", pytest.param("cuda:1")])
    def test_parse(device):
        if device is not None and device.startswith("cuda"):
            assert Settings.Jax.parse(device) == jax.devices(device)[0]
        assert Settings.Jax(2).device == f"cuda:{2}"
"""


def migrated(project, code, path="a.py"):
    """The text of a file after the migration, and the texts that are reported as devices of JAX."""
    files = {"settings.py": textwrap.dedent(SETTINGS), path: textwrap.dedent(code)}
    result = project(files)[path]
    text = files[path] if result.content is None else result.content.decode()
    return text, [each.api for each in result.findings if each.rule == "devices-of-jax"]


def test_a_class_that_imports_it_has_its_devices(project):
    text, reported = migrated(project, SETTINGS, "settings.py")
    expected = textwrap.dedent(SETTINGS).replace('self.device = "cuda:0"', 'self.device = "npu:0"')
    assert [line for line in text.splitlines() if "torch_npu" not in line] == expected.splitlines()
    assert reported == ['f"cuda:{rank}"', '"cuda:1"']


def test_a_file_that_has_nothing_of_torch_has_them_all(project):
    text, reported = migrated(project, CHECKS)
    assert text == textwrap.dedent(CHECKS)
    assert reported == ['"cuda"', '"cuda:1"', '"cuda"', 'f"cuda:{2}"']


OTHERS = {
    "torch in the file": "import jax, torch\ndevice = 'cuda'\njax.devices(device)\ntorch.ones(2, device=device)\n",
    "no device for the package": "import jax\ndevice = 'cuda'\njax.jit(step)\n",
    "a model that moves": "import jax\ndevice = 'cuda'\njax.devices(device)\nmodel.to(device)\n",
    "another package that is given one": (
        "import jax\nfrom sentences import Encoder\ndevice = 'cuda'\njax.devices(device)\nEncoder(device=device)\n"
    ),
    "the project's own code is given it": (
        "import jax\nfrom net import Net\nNet('cuda')\njax.devices(device)\n# 'cuda'"
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_device_that_may_be_torchs_is_migrated(project, case):
    files = {"a.py": OTHERS[case], "net.py": "class Net:\n    def __init__(self, device): ...\n"}
    result = project(files)["a.py"]
    assert result.content is not None and b"'npu'" in result.content


STAYS = {
    "a call of Python's": "import os, jax\ndevice = 'cuda'\nos.environ.setdefault('D', device)\njax.devices('cuda')\n",
    "a result": "import jax\ndef pick_device():\n    return 'cuda'\njax.devices(pick_device(), 'cuda')\n",
}


@pytest.mark.parametrize("code", STAYS.values(), ids=STAYS)
def test_a_device_that_no_other_package_is_given_stays(project, code):
    assert project({"a.py": code})["a.py"].content is None


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("import torch", "torch.zeros(1)"),
        ("", "from torch import zeros"),
        ("", "import torch"),
        ("", "import torchvision"),
    ],
)
def test_a_class_that_has_something_of_torch_has_its_devices_migrated(project, head, line):
    code = SETTINGS.replace("import numpy", f"{line}\n                import numpy")
    text, _ = migrated(project, f"{head}\n{textwrap.dedent(code)}", "settings.py")
    assert 'self.spare = "npu:1"' in text and 'self.spare = "cuda:1"' in migrated(project, SETTINGS, "settings.py")[0]


REACHED = {
    "a name": "DEVICE = 'cuda'\njax.devices('cuda')",
    "a result": "def pick_device():\n    return 'cuda'\njax.devices('cuda')",
    "a dict for double stars": "FALLBACK = {'device': 'cuda'}\njax.devices('cuda')",
    "an attribute": "class Sim:\n    def __init__(self):\n        self.device = 'cuda'\njax.devices('cuda')",
}


@pytest.mark.parametrize("code", REACHED.values(), ids=REACHED.keys())
@pytest.mark.parametrize("between", [True, False])
def test_what_reaches_a_file_with_torch_is_migrated(project, code, between):
    way = {"between.py": "from a import *\n"} if between else {}
    user = f"import torch\nfrom {'between' if between else 'a'} import *\n"
    result = project({"a.py": f"import jax\n{code}\n", "train.py": user, **way})["a.py"]
    expected = f"import jax\n{code}\n".replace("'cuda'", "'npu'").replace("jax.devices('npu')", "jax.devices('cuda')")
    assert result.content is not None and result.content.decode() == expected
    assert [each.api for each in result.findings if each.rule == "devices-of-jax"][-1:] == ["'cuda'"]


def test_fixtures_that_all_tests_share_are_migrated(project):
    code = "import jax, pytest\njax.devices('cuda')\n@pytest.fixture\ndef device():\n    return 'cuda'\n"
    assert b"return 'npu'" in project({"conftest.py": code})["conftest.py"].content


def test_what_a_class_returns_is_migrated(project):
    code = SETTINGS.replace("def found", "def device").replace("return self.parse(self.device)", "return 'cuda'")
    text, _ = migrated(project, code, "settings.py")
    assert "return 'npu'" in text and 'self.spare = "cuda:1"' in text


PARAMETER = """
import warp
class Sim:
    def __init__(self, device="cuda:0"):
        self.a = warp.zeros(3, device=device)
        self.device = device
def make():
    return Sim("cuda:0")
"""


def test_no_device_that_stays_is_called_the_npu_now(project):
    result = project({"a.py": PARAMETER})["a.py"]
    assert result.content is None
    assert not any("is the NPU now" in each.message for each in result.findings)


def test_a_device_by_name_that_code_of_another_file_is_given(project):
    code = "import jax\nfrom net import Net\ndevice = 'cuda'\njax.devices(device)\nNet(device)\n"
    net = "import torch\nclass Net:\n    def __init__(self, device): ...\n"
    result = project({"a.py": code, "net.py": net})["a.py"]
    assert result.content is not None and b"'npu'" in result.content
    assert [each.api for each in result.findings] == ["device"]
