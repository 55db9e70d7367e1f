"""Devices that a key of a dict, or another file, gives to a package that knows no NPU."""

import textwrap

import pytest


@pytest.mark.parametrize("given", ["config['device']", "[config['device']]"])
def test_what_torch_reads_too_is_reported_where_a_key_gives_it(project, given):
    code = f"""
        import torch
        import xgboost

        config = {{"device": "cuda", "rounds": 3}}
        data = torch.ones(3, device=config["device"])
        model = xgboost.XGBClassifier(device={given})
        other = xgboost.XGBClassifier(rounds=config["rounds"])
    """
    migrated = project({"a.py": textwrap.dedent(code)})["a.py"]
    assert b'"device": "npu"' in migrated.content
    assert [each.api for each in migrated.findings if "xgboost" in each.rule] == ["config['device']"]


def test_what_another_file_gives_torch_moves(project):
    files = {
        "a.py": "import torch\nimport xgboost\nDEVICE = 'cuda'\nmodel = xgboost.XGBClassifier(device=DEVICE)\n",
        "b.py": "import torch\nfrom a import DEVICE\ntorch.ones(3, device=DEVICE)\n",
    }
    migrated = project(files)["a.py"]
    assert b"DEVICE = 'npu'" in migrated.content and [each.api for each in migrated.findings] == ["DEVICE"]
