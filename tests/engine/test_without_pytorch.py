"""Projects no file of which imports PyTorch (`where.without`): the framework that they compute with is reported."""

import pytest

from gpu2npu.engine import ProjectContext, migrate_source

SERVE = "import {}\n\n\ndef place(device):\n    return 0 if device == 'cuda' else -1\n"


@pytest.mark.parametrize("package", ["tensorflow", "jax", "onnxruntime", "paddle", "mxnet"])
def test_a_project_of_another_framework(project, package: str) -> None:
    migrated = project({"serve.py": SERVE.format(package), "main.py": "from serve import place\n"})
    assert [each.rule for each in migrated["serve.py"].findings] == [f"project-of-{package}"]
    assert not migrated["main.py"].findings


@pytest.mark.parametrize("imports", ["import torch\n", "from transformers import pipeline\n", "import whisper\n"])
def test_a_file_with_pytorch_anywhere_is_enough(project, imports: str) -> None:
    migrated = project({"serve.py": SERVE.format("paddle"), "train.py": imports})
    assert not migrated["serve.py"].findings


def test_a_device_that_stays_is_reported_with_what_the_framework_has_for_ascend(project) -> None:
    code = "import onnxruntime as ort\ndef run(device='cuda'):\n    return ort.InferenceSession('a', provider=device)\n"
    (_, device) = project({"serve.py": code})["serve.py"].findings
    assert "CANNExecutionProvider" in device.message


def test_nothing_is_reported_where_the_project_is_not_known(rulebook) -> None:
    assert not migrate_source(b"import paddle\n", "a.py", rulebook, ProjectContext()).findings
