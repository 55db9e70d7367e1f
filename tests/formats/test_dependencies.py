import pytest

NPU = "torch-npu==2.1.0.post17"
INDEX = "  # with PyTorch's build for the CPU: pip install --extra-index-url https://download.pytorch.org/whl/cpu"
CASES = [
    (
        "pyproject.toml",
        "[project]\ndependencies = [\n  \"torch>=1.13;python_version<'3.11'\",\n"
        "  \"torch>=2.0;python_version>='3.11'\",\n]\n",
        "[project]\ndependencies = [\n"
        f"  \"torch>=1.13;python_version<'3.11'\",\n  \"{NPU};python_version<'3.11'\",\n"
        f"  \"torch>=2.0;python_version>='3.11'\",\n  \"{NPU};python_version>='3.11'\",\n]\n",
    ),
    (
        "pyproject.toml",
        '[project]\ndependencies = [\n    "torch>=2.0",  # it\n    "numpy",\n]\n',
        f'[project]\ndependencies = [\n    "torch>=2.0",  # it\n    "{NPU}",\n    "numpy",\n]\n',
    ),
    (
        "pyproject.toml",
        "[project]\ndependencies = [\n  'torch'\n]\n",
        f"[project]\ndependencies = [\n  'torch',\n  '{NPU}'\n]\n",
    ),
    (
        "pyproject.toml",
        '[project]\ndependencies = ["torch", "x"]\n',
        f'[project]\ndependencies = ["torch", "{NPU}", "x"]\n',
    ),
    (
        "pyproject.toml",
        '[project.optional-dependencies]\ngpu = ["torch==2.1.0+cu118"]\n',
        f'[project.optional-dependencies]\ngpu = ["torch==2.1.0", "{NPU}"]\n',
    ),
    (
        "pyproject.toml",
        '[tool.poetry.dependencies]\npython = "^3.10"\ntorch = "^2.0"\n',
        '[tool.poetry.dependencies]\npython = "^3.10"\ntorch = "^2.0"\ntorch-npu = "2.1.0.post17"\n',
    ),
    (
        "pyproject.toml",
        '[tool.pdm.dev-dependencies]\ntest = ["torch"]\n',
        f'[tool.pdm.dev-dependencies]\ntest = ["torch", "{NPU}"]\n',
    ),
    (
        "pyproject.toml",
        '[tool.hatch.envs.test]\nextra-dependencies = ["torch"]\n',
        f'[tool.hatch.envs.test]\nextra-dependencies = ["torch", "{NPU}"]\n',
    ),
    (
        "pyproject.toml",
        '[project.optional-dependencies]\ncpu = ["torch"]\nold_macos = ["torch<2.3"]\nfull = ["torch"]\n',
        f'[project.optional-dependencies]\ncpu = ["torch"]\nold_macos = ["torch<2.3"]\nfull = ["torch", "{NPU}"]\n',
    ),
    (
        "pyproject.toml",
        "[project]\ndependencies = [\n  'torch; sys_platform == \"darwin\"',\n  'torch>2; os_name != \"nt\"',\n]\n",
        "[project]\ndependencies = [\n  'torch; sys_platform == \"darwin\"',\n  'torch>2; os_name != \"nt\"',\n"
        f"  '{NPU}; os_name != \"nt\"',\n]\n",
    ),
    ("pyproject.toml", text := '[tool.poetry.group.macos.dependencies]\ntorch = "^2.0"\n', text),
    ("setup.cfg", text := "[options.extras_require]\nmps =\n    torch\n", text),
    ("requirements.txt", text := 'torch; platform_system == "Windows"\n', text),
    ("requirements-cpu.txt", "torch\n", "torch\n"),
    ("requirements/rocm.txt", "torch\n", "torch\n"),
    ("requirements/windows-gpu.txt", "torch\n", "torch\n"),
    ("requirements-cpu-and-gpu.txt", "torch\n", f"torch\n{NPU}{INDEX}\n"),
    ("requirements/cuda.txt", "torch\n", f"torch\n{NPU}{INDEX}\n"),
    ("requirements.txt", text := "torch; platform_machine == 'arm64' and (sys_platform == 'darwin')\n", text),
    (
        "requirements.txt",
        text := "torch; sys_platform == 'darwin' or python_version > '3.9'\n",
        text + f"{NPU}; sys_platform == 'darwin' or python_version > '3.9'{INDEX}\n",
    ),
    ("pyproject.toml", '[build-system]\nrequires = ["torch"]\n', '[build-system]\nrequires = ["torch"]\n'),
    (
        "setup.cfg",
        "[options]\ninstall_requires =\n    numpy\n    torch>=2.0\n    x\n",
        f"[options]\ninstall_requires =\n    numpy\n    torch>=2.0\n    {NPU}\n    x\n",
    ),
    (
        "environment.yml",
        "name: a\ndependencies:\n  - python\n  - pip:\n    - torch==2.1.0  # it\n    - x\n",
        f"name: a\ndependencies:\n  - python\n  - pip:\n    - torch==2.1.0  # it\n    - {NPU}\n    - x\n",
    ),
]


@pytest.mark.parametrize(("path", "before", "after"), CASES)
def test_torch_npu_beside_torch(migrated, path: str, before: str, after: str) -> None:
    assert migrated(before, path) == after


@pytest.mark.parametrize(
    ("path", "text", "rules"),
    [
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.12.0"\n', {"torch-npu-requirement"}),
        (
            "environment.yml",
            "dependencies: [pytorch::pytorch=2.1, pytorch-cuda=11.8]\n",
            {"torch-npu-requirement", "conda-cuda"},
        ),
        (
            "pyproject.toml",
            '[project]\ndependencies = ["torch<2", "xformers"]\n',
            {"torch-npu-requirement", "package-xformers"},
        ),
        ("Pipfile", '[packages]\ntorch = {version = "*", markers = "sys_platform == \'darwin\'"}\n', set()),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = [{version = "^1.13"}]\n', {"torch-npu-requirement"}),
        ("Pipfile", '[packages]\ncupy-cuda12x = "*"\n', {"package-cupy"}),
    ],
)
def test_reported_and_unchanged(migrate, path: str, text: str, rules: set[str]) -> None:
    result = migrate(text, path)
    assert result.content is None
    assert {finding.rule for finding in result.findings} == rules
