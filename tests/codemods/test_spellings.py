"""Tests of what new code writes for a module, and of the import it takes."""

import pytest

from gpu2npu.codemods.program.files import TrainingProgram
from gpu2npu.codemods.spellings import spelling
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits


def spelled(source, qualified):
    """The name, and the file with the import."""
    file = TrainingProgram.of({"a.py": source.encode()}, ProjectContext()).file("a.py")
    found = spelling(file, qualified)
    return found.name, after_edits(source, found.edits)


@pytest.mark.parametrize(
    ("source", "qualified", "name"),
    [
        ("import torch.distributed as dist\n", "torch.distributed", "dist"),
        ("from torch import distributed\n", "torch.distributed", "distributed"),
        ("import torch.distributed\n", "torch.distributed", "torch.distributed"),
        ("from torch.utils import data\n", "torch.utils.data.DistributedSampler", "data.DistributedSampler"),
        ("import torch.nn as nn\n", "torch.nn.parallel.DistributedDataParallel", "nn.parallel.DistributedDataParallel"),
        ("import torch\ndist = 3\n", "torch.distributed", "torch.distributed"),
        ("import sys, os\n", "os", "os"),
        ("import os.path\n", "os", "os"),
    ],
)
def test_a_name_at_hand_takes_no_import(source, qualified, name):
    assert spelled(source, qualified) == (name, source)


@pytest.mark.parametrize(
    ("source", "qualified", "after"),
    [
        (
            "import os\nimport torch\nimport numpy\n",
            "torch.distributed",
            "import os\nimport torch\nimport torch.distributed as dist\nimport numpy\n",
        ),
        ("from torch import nn", "torch.distributed", "from torch import nn\nimport torch.distributed as dist\n"),
        ("import sys\r\n\r\nimport torch\r\n", "os", "import os\r\nimport sys\r\n\r\nimport torch\r\n"),
        (
            "import sys\nfrom torch import nn\n",
            "torch",
            "import sys\nimport torch\nimport torch_npu\nfrom torch import nn\n",
        ),
        ("import argparse\nimport torch\n", "os", "import argparse\nimport os\nimport torch\n"),
        ("import torch  # first\nx = 1\n", "os", "import os\nimport torch  # first\nx = 1\n"),
        (
            "import torch  # first\nx = 1\n",
            "torch.distributed",
            "import torch  # first\nimport torch.distributed as dist\nx = 1\n",
        ),
        (
            "from __future__ import annotations; import torch\n",
            "os",
            "from __future__ import annotations; import torch\nimport os\n",
        ),
        ('"""Doc."""; x = 1\n', "os", '"""Doc."""; x = 1\nimport os\n'),
        (
            '"""Doc."""\nfrom __future__ import annotations\nx = 1\n',
            "os",
            '"""Doc."""\nfrom __future__ import annotations\nimport os\nx = 1\n',
        ),
        (
            "from torch.utils.data import DataLoader\n",
            "torch.utils.data.DistributedSampler",
            "from torch.utils.data import DataLoader, DistributedSampler\n",
        ),
        (
            "from torch.utils.data import (\n    DataLoader,\n    Dataset as Set,\n)\n",
            "torch.utils.data.DistributedSampler",
            "from torch.utils.data import (\n    DataLoader,\n    Dataset as Set, DistributedSampler,\n)\n",
        ),
        ("def f():\n    import os\n", "os", "import os\ndef f():\n    import os\n"),
    ],
)
def test_a_new_import_stands_with_its_like(source, qualified, after):
    assert spelled(source, qualified)[1] == after


def test_a_name_that_the_file_gives_to_something_else_is_not_taken():
    assert spelled("import numpy\nos = 3\n", "os") == ("os_", "import os as os_\nimport numpy\nos = 3\n")
