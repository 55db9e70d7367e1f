"""Programs whose device stands only in a file that is not Python: below PyTorch 2.5 nothing else loads torch_npu."""

from pathlib import Path

import pytest

from gpu2npu.codemods.device_files import device_readers
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.settings import RuleChoice

READ = "import torch\nimport yaml\n\nwith open({}) as file:\n    device = yaml.safe_load(file)['device']\n"
NAMED = READ.format("'conf/run.yaml'")
UNNAMED = "import sys\n" + READ.format("sys.argv[1]")
COMMAND = "import torch\nimport yaml\n\ndef main():\n    return yaml.safe_load(open('conf/run.yaml'))\n"
DEVICE = {"conf/run.yaml": "device: cuda:0\n"}
USES_CARD = "import torch\nprint(torch.zeros(2).cuda())\n"


def migrated(root: Path, files: dict[str, str], version: str = "2.1.0") -> tuple[set[str], set[str]]:
    """The Python files that get the import, and the other files that have a finding about it."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    sources = {path: text.encode() for path, text in files.items()}
    python = {path: source for path, source in sources.items() if path.endswith(".py")}
    others = {path: source for path, source in sources.items() if path not in python}
    migrator = Migrator.load(RuleChoice(), version, root, python, others=others)
    results = {path: migrator(source, path) for path, source in sources.items()}
    importing = {path for path, file in results.items() if b"import torch_npu" in (file.content or b"")}
    reported = {path for path, file in results.items() if any(each.api == "torch_npu" for each in file.findings)}
    return importing, reported


@pytest.mark.parametrize(
    ("files", "importing"),
    [
        ({"train.py": NAMED, **DEVICE}, {"train.py"}),
        ({"train.py": UNNAMED, **DEVICE}, {"train.py"}),
        # another program that has the plugin does not load it for this one
        ({"train.py": NAMED, "tool.py": USES_CARD, **DEVICE}, {"train.py", "tool.py"}),
        # the one that names it is the one that reads it
        ({"train.py": NAMED, "other.py": UNNAMED, **DEVICE}, {"train.py"}),
        # what reads the file is not what is started
        ({"main.py": "import settings\nprint(1)\n", "settings.py": NAMED, **DEVICE}, {"main.py"}),
        # a command of an installed package
        ({"app/__init__.py": "", "app/cli.py": COMMAND, **DEVICE}, {"app/cli.py"}),
        ({"train.py": UNNAMED.replace("yaml", "json"), "run.json": '{"device": "cuda"}'}, {"train.py"}),
        ({"train.py": UNNAMED.replace("yaml", "toml"), "run.toml": 'device = "cuda"\n'}, {"train.py"}),
        ({"train.py": "import torch\nprint(1)\n", "run.sh": "python ./train.py --device cuda\n"}, {"train.py"}),
        ({"train.py": NAMED, "conf/run.yaml": "device: cpu  # or cuda\n"}, set()),
        ({"train.py": f"import torch_npu\n{NAMED}", **DEVICE}, set()),
    ],
)  # fmt: skip
def test_the_program_that_reads_a_device_imports_the_plugin(
    tmp_path: Path, files: dict[str, str], importing: set[str]
) -> None:
    assert migrated(tmp_path, files) == (importing, set())


def test_a_device_that_no_program_reads_is_reported(tmp_path: Path) -> None:
    assert migrated(tmp_path, {"train.py": "import torch\nprint(1)\n", **DEVICE}) == (set(), {"conf/run.yaml"})


def test_hydra_names_a_configuration_without_its_ending() -> None:
    text = b"import hydra\n\n@hydra.main(config_path='conf', config_name='run')\ndef main(settings): ...\n"
    sources = {"a.py": text, "b.py": text.replace(b"'run'", b"'other'"), "c.py": b"name = 'run'\n"}
    assert device_readers({"conf/run.yaml": b"device: cuda\n"}, sources, lambda source, path: True) == ("a.py",)


def test_data_that_nobody_reads_is_not_looked_at() -> None:
    data = b'{"device": "cuda"}' * 5000

    def gives_device(source: bytes, path: str) -> bool:
        assert path != "other.json"
        return True

    sources = {"a.py": b"print('data.json')\n"}
    assert device_readers({"data.json": data, "other.json": data}, sources, gives_device) == ("a.py",)
