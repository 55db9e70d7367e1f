"""Conditions that ask how capable a GPU is."""


def test_a_flag_that_comes_before_a_capability_stays_cudas(project):
    code = """import torch
from other import backend
is_nvidia = backend() == "cuda"
is_hopper = is_nvidia and torch.cuda.get_device_capability()[0] >= 9
"""
    migrated = project({"pkg/__init__.py": "", "pkg/a.py": code})["pkg/a.py"]
    assert migrated.content is None
    assert migrated.findings


def test_code_that_switches_off_what_only_cuda_has_does_so_on_an_npu_too(project):
    code = "import torch\ndef f(device, fp8):\n    if device != 'cuda':\n        fp8 = False\n    return fp8\n"
    assert project({"a.py": code})["a.py"].content is None
    for other in (code.replace("fp8", "amp"), code.replace("fp8 = False", "fp8 = amp = False")):
        assert b"device != 'npu'" in project({"a.py": other})["a.py"].content


def test_a_capability_that_decides_about_bfloat16_is_no_code_of_cudas_own(project):
    code = """import torch
def f():
    if torch.cuda.is_available():
        return torch.bfloat16 if torch.cuda.get_device_capability() >= (8, 0) else torch.float32
    return torch.float32
"""
    text = project({"a.py": code})["a.py"].content.decode()
    assert "if torch.npu.is_available():" in text
    assert "torch.bfloat16 if torch.npu.is_bf16_supported() else" in text


def test_nothing_is_edited_under_a_condition_that_stays(project):
    code = """import torch
def show():
    if torch.cuda.is_available():
        major, minor = torch.cuda.get_device_capability()
        print(torch.cuda.get_device_name(0), major, minor)
"""
    migrated = project({"a.py": code})["a.py"]
    assert migrated.content is None
    assert [finding.span.start_line for finding in migrated.findings] == [3]
