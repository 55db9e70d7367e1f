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


def test_a_module_is_near_where_a_third_file_joins_them(project) -> None:
    """An object that one file makes, another may pass to the code of a third that imports neither."""
    files = {
        "graphs.py": GRAPHS,
        "move.py": "def move(batch):\n    return batch.cuda() if not batch.is_cuda else batch\n",
        "trainer.py": "from move import move\n\ndef fit(batches):\n    return [move(each) for each in batches]\n",
        "main.py": "from graphs import loaders\nfrom trainer import fit\n\nfit(loaders())\n",
        "apart.py": "def move(batch):\n    return batch.cuda()\n",
    }
    migrated = project(files)
    assert b'batch.to("npu") if not batch.is_npu else batch' in migrated["move.py"].content
    assert [each.rule for each in migrated["move.py"].findings] == ["graph-is-cuda"]
    assert b"batch.npu()" in migrated["apart.py"].content
