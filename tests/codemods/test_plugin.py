"""torch_npu is imported by programs whose code for a card is in files without torch."""

import pytest

from gpu2npu.codemods import plan_codemods
from gpu2npu.codemods.choice import DEFAULT_CHOICE
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

MODEL = "import torch.nn as nn\n\ndef build():\n    return nn.Linear(2, 2)\n"
MAIN = "import argparse\nfrom model import build\n\nnet = build().to('cuda')\nprint(net)\n"


def migrated(files, version="2.1.0"):
    sources = {path: text.encode() for path, text in files.items()}
    rewrites = plan_codemods(sources, ProjectContext(version, files=frozenset(sources)), DEFAULT_CHOICE).rewrites
    return {path: after_edits(files[path], rewrite.edits) for path, rewrite in rewrites.items() if rewrite.edits}


def test_the_program_imports_the_plugin():
    after = MAIN.replace("build\n\n", "build\nimport torch_npu\n\n")
    assert migrated({"main.py": MAIN, "model.py": MODEL}) == {"main.py": after}
    assert migrated({"main.py": after, "model.py": MODEL}) == {}


def test_a_setting_in_a_file_of_its_own():
    files = {"main.py": MAIN.replace("'cuda'", "config.device"), "config.py": "device = 'cuda'\n", "model.py": MODEL}
    files["main.py"] = "import config\n" + files["main.py"]
    assert list(migrated(files)) == ["main.py"]


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"main.py": MAIN, "model.py": MODEL}, "2.6.0"),
        ({"main.py": f"import torch\n{MAIN}", "model.py": MODEL}, "2.1.0"),
        ({"main.py": MAIN, "model.py": MODEL + "build().cuda()\n"}, "2.1.0"),
        ({"main.py": MAIN, "model.py": f"import torch_npu\n{MODEL}"}, "2.1.0"),
        ({"main.py": MAIN, "model.py": "build = print\n"}, "2.1.0"),
        ({"main.py": MAIN.replace("'cuda'", "'cpu'  # not 'cuda'"), "model.py": MODEL}, "2.1.0"),
    ],
)
def test_where_it_is_loaded_otherwise_nothing_happens(files, version):
    assert migrated(files, version) == {}


def test_any_import_of_torch_counts():
    assert migrated({"main.py": f"import os, torch\n{MAIN}", "model.py": MODEL}) == {}
    after = MAIN.replace("build\n\n", "build\nimport torch_npu\n\n")
    assert migrated(
        {"main.py": MAIN, "model.py": MODEL.replace("import torch.nn as nn", "import os, torch.nn as nn")}
    ) == {"main.py": after}
    assert migrated({"main.py": MAIN, "model.py": MODEL.replace("import torch", "import torchx")}) == {}
