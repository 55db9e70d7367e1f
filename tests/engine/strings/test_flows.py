"""The ways of a device's name and kind: the flow of the value decides, since no name here says anything."""

import re
from pathlib import Path

import pytest

from gpu2npu import migrate_source

# Code behind `import torch`, each with whether its "cuda" is the NPU's or is left.
FLOWS = Path(__file__).with_name("flows.txt").read_text("utf-8")
CASES = re.findall(r"^# ([^\n]*): (npu|left)(?: \((not yet)\))?\n(.*?)\n(?=\n|\Z)", FLOWS, re.DOTALL | re.MULTILINE)

NPU, CUDA = (re.compile(rf"""["'] ?{name}|[(]{name}=""", re.IGNORECASE) for name in ("npu", "cuda"))


@pytest.mark.parametrize(
    ("code", "is_renamed"),
    [
        pytest.param(code, verdict == "npu", id=name, marks=[pytest.mark.xfail(strict=True)] if failing else [])
        for name, verdict, failing, code in CASES
    ],
)
def test_the_flow_of_a_value_decides_what_a_string_is(code, is_renamed):
    text = migrate_source(f"import torch\n{code}\n", version="2.7.1").text
    assert bool(NPU.search(text)) == is_renamed
    assert not is_renamed or not CUDA.search(text)


READ = [
    """import json\nread = json.loads('{"where": "cuda", "n": 2}')\n""",
    """from omegaconf import OmegaConf\ntext = '''\nwhere: cuda\nn: 2\n'''\nread = OmegaConf.create(text)\n""",
]


@pytest.mark.parametrize("code", READ)
def test_data_in_a_text_are_reported(code):
    result = migrate_source(code, version="2.7.1")
    assert result.text == code
    assert [found.rule for _, found, _ in result.findings] == ["device-string"]


ZEROS = "import torch\nimport {0}\ntorch.zeros(2, device={1})\n"


@pytest.mark.parametrize(
    ("files", "is_renamed"),
    [
        ({"c.py": "W = 'cuda'\n", "m.py": ZEROS.format("c", "c.W")}, True),
        ({"p/__init__.py": "from .c import *\n", "p/c.py": "W = 'cuda'\n", "m.py": ZEROS.format("p", "p.W")}, True),
        ({"c.py": "W = None\n", "s.py": "import c\nc.W = 'cuda'\n", "m.py": ZEROS.format("c", "c.W")}, True),
        ({"c.py": "W = 'cuda'\nprint(W)\n", "d.py": "W = 'cpu'\n", "m.py": ZEROS.format("d", "d.W")}, False),
        (
            {"c.py": "import enum\nclass E(enum.Enum):\n    W = 'cuda'\n", "m.py": ZEROS.format("c", "c.E.W.value")},
            True,
        ),
    ],
)
def test_values_of_other_files(project, files, is_renamed):
    results = project(files)
    assert any(b"npu" in (each.content or b"").replace(b"torch_npu", b"") for each in results.values()) == is_renamed
