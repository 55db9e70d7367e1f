"""Rules for files that lead to a module through other files of the project (`where.nearby`)."""

GRAPHS = "from torch_geometric.loader import DataLoader\n\n\ndef loaders():\n    return DataLoader([])\n"
TRAIN = "import torch\nfrom {} import loaders\n\nfor batch in loaders():\n    net(batch.cuda())\n"


def test_a_module_is_near_through_any_number_of_files(project) -> None:
    files = {
        "data/__init__.py": "",
        "data/graphs.py": "from . import mid\n" + GRAPHS,
        "data/mid.py": "from .graphs import loaders\n",
        "data/far.py": "from .mid import loaders\n",
        "data/images.py": "def loaders():\n    return []\n",
        "train.py": TRAIN.format("data.mid"),
        "late.py": TRAIN.format("data.far"),
        "other.py": TRAIN.format("data.images"),
    }
    migrated = project(files)
    assert b'batch.to("npu")' in migrated["train.py"].content
    assert b'batch.to("npu")' in migrated["late.py"].content
    assert b"batch.npu()" in migrated["other.py"].content
