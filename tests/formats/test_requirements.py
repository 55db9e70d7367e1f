import pytest

from gpu2npu.engine import scan_project
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import Severity

INDEX = "  # with PyTorch's build for the CPU: pip install --extra-index-url https://download.pytorch.org/whl/cpu"
CASES = [
    ("torch==2.1.0\nnumpy\n", f"torch==2.1.0\ntorch-npu==2.1.0.post17{INDEX}\nnumpy\n"),
    ("numpy\ntorch", f"numpy\ntorch\ntorch-npu==2.1.0.post17{INDEX}"),
    ("torch>=1.10 # any\r\nnumpy\r\n", f"torch>=1.10 # any\r\ntorch-npu==2.1.0.post17{INDEX}\r\nnumpy\r\n"),
    (
        "torch==2.1.0+cu118; os_name == 'posix'\n",
        f"torch==2.1.0; os_name == 'posix'\ntorch-npu==2.1.0.post17; os_name == 'posix'{INDEX}\n",
    ),
    (
        "--extra-index-url https://download.pytorch.org/whl/cpu\ntorch\n",
        "--extra-index-url https://download.pytorch.org/whl/cpu\ntorch\ntorch-npu==2.1.0.post17\n",
    ),
    (  # each Python's own line of torch
        "torch<2; python_version < '3.8'\ntorch>=1.13;python_version<'3.11'\ntorch>=2; python_version>='3.11'\n",
        "torch<2; python_version < '3.8'\n"
        f"torch>=1.13;python_version<'3.11'\ntorch-npu==2.1.0.post17;python_version<'3.11'{INDEX}\n"
        f"torch>=2; python_version>='3.11'\ntorch-npu==2.1.0.post17; python_version>='3.11'{INDEX}\n",
    ),
    (
        "torch @ https://a.b/torch.whl ; python_version == '3.9'\n",
        "torch @ https://a.b/torch.whl ; python_version == '3.9'\n"
        f"torch-npu==2.1.0.post17 ; python_version == '3.9'{INDEX}\n",
    ),
    (
        "-f https://download.pytorch.org/whl/cu118/torch_stable.html\n",
        "-f https://download.pytorch.org/whl/cpu/torch_stable.html\n",
    ),
    ("# torch==2.1.0+cu118\ntorchvision\n", "# torch==2.1.0+cu118\ntorchvision\n"),
    ("torch==2.1.0\ntorch_npu==2.1.0.post3\n", "torch==2.1.0\ntorch_npu==2.1.0.post3\n"),
    ("torch==1.8.0\n", "torch==1.8.0\n"),
]


@pytest.mark.parametrize(("before", "after"), CASES)
def test_files(migrated, before: str, after: str) -> None:
    assert migrated(before, "requirements.txt") == after


def test_the_requested_version(migrated) -> None:
    assert migrated("torch\n", "requirements/train.txt", "2.5.0") == f"torch\ntorch-npu==2.5.1.post1{INDEX}\n"
    assert migrated("torch\n", "requirements-dev.in", "1.11.0") == "torch\n"


def test_constraints_install_nothing(migrated) -> None:
    assert migrated("torch==2.1.0+cu118\n", "constraints.txt") == "torch==2.1.0\n"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("torch==1.8.0\n", {"torch-npu-requirement"}),
        ("flash-attn>=2\n", {"package-flash-attn"}),
        ("Flash_Attn\n", {"package-flash-attn"}),
        ("nvidia-nccl-cu12==2.18.1\n", {"nvidia-libraries"}),
        ("-e git+https://github.com/NVIDIA/apex#egg=apex\n", {"package-apex"}),
        ("tensorflow-gpu==2.4\n", {"cuda-build-requirement"}),
        ("jax[cuda12]>=0.4\njax[cpu]\n", {"cuda-build-requirement"}),
        ("cupy-cuda12x\n", {"package-cupy"}),
        ("torch==2.1.0 --hash=sha256:ab\n", {"torch-npu-requirement"}),
        ("numpy\nflash\n# flash-attn\n", set()),
    ],
)
def test_reported_and_unchanged(migrate, text: str, rules: set[str]) -> None:
    result = migrate(text, "requirements.txt")
    assert result.content is None
    assert {finding.rule for finding in result.findings} == rules


def test_hashes_of_an_edited_line(migrate) -> None:
    result = migrate("torch==2.1.0+cu118 \\\n    --hash=sha256:ab\n", "requirements.txt")
    assert result.content == b"torch==2.1.0 \\\n    --hash=sha256:ab\n"
    assert {finding.api for finding in result.findings} == {"--hash", "torch"}


def test_a_python_without_a_wheel_is_reported(migrate) -> None:
    result = migrate("torch>=2.0; python_version < '3.12'\ntorch>=2.6; python_version >= '3.12'\n", "requirements.txt")
    (finding,) = result.findings
    assert finding.span.start_line == 2 and "but for 3.8, 3.9, 3.10, 3.11." in finding.message


def test_the_new_line_is_reported_at_the_line_it_follows(migrate) -> None:
    (change,) = migrate("numpy\ntorch\nx\n", "requirements.txt").changes
    assert (change.span.start_line, change.operation.value, change.after) == (
        2,
        "INSERT",
        f"torch-npu==2.1.0.post17{INDEX}",
    )


def test_torch_npu_goes_with_the_line_of_torch_when_comments_skip_lines(migrated) -> None:
    below = "torch==2.1.0\nnumpy  # gpu2npu: skip\n"
    assert migrated(below, "requirements.txt") == below.replace("numpy", f"torch-npu==2.1.0.post17{INDEX}\nnumpy")
    own = "torch==2.1.0  # gpu2npu: skip\nnumpy\n"
    assert migrated(own, "requirements.txt") == own


@pytest.mark.parametrize(
    ("files", "added"),
    [
        ({"a.py": b"import torch\nx = torch.ones(2).cuda()\n"}, True),
        ({"a.py": b"import torch\n", "b.py": b"from pytorch_lightning import Trainer\n"}, True),
        ({"a.py": b"net.to(config.device)\n"}, True),
        ({"a.py": b"import torch\n\ndef norm(x):\n    return torch.sqrt(x)\n"}, False),
        ({"setup.py": b"from setuptools import setup\nsetup()\n"}, False),
        ({}, True),  # nothing is known of the project
    ],
)
@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("requirements.txt", b"torch\n"),
        ("pyproject.toml", b'[project]\ndependencies = ["torch"]\n'),
        ("environment.yml", b"dependencies:\n  - pip:\n    - torch\n"),
        ("Dockerfile", b"RUN pip install torch\n"),
    ],
)
def test_only_a_project_that_uses_a_device_needs_torch_npu(rulebook, files, added, path, text) -> None:
    context = scan_project(files, rulebook, "2.1.0")
    done = migrate_file(text, path, rulebook, context)
    assert bool(done.changes or done.findings) == added


def test_code_in_a_notebook_may_use_a_device(rulebook, tmp_path) -> None:
    (tmp_path / "train.ipynb").write_text("{}")
    assert scan_project({"a.py": b"import torch\n"}, rulebook, "2.1.0", root=tmp_path).uses_device
    (tmp_path / "train.ipynb").unlink()
    assert not scan_project({"a.py": b"import torch\n"}, rulebook, "2.1.0", root=tmp_path).uses_device


@pytest.mark.parametrize(
    ("pin", "right"), [("torch==1.8.0", "torch==2.1.0"), ("torchvision==0.20.0", "torchvision==0.16.0")]
)
def test_a_pin_that_excludes_the_release_is_a_line_to_write(migrate, pin: str, right: str) -> None:
    (finding,) = migrate(f"{pin}\n", "requirements.txt").findings
    assert finding.severity is Severity.CHANGE and f"write {right}" in finding.message


def test_comments_and_prose_use_no_device(rulebook) -> None:
    text = b'"""Runs on a GPU, or another device."""\nimport torch  # cuda\nprint("no gpu at all")\n'
    assert not scan_project({"a.py": text}, rulebook, "2.1.0").uses_device
    assert scan_project({"a.py": text + b"import accelerate\n"}, rulebook, "2.1.0").uses_device
    assert scan_project({"a.py": b"device = (\n"}, rulebook, "2.1.0").uses_device
