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
