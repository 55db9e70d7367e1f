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


def test_a_condition_whose_value_is_that_of_one_branch(project):
    code = "import torch\nimport xgboost\n\ndef f(device, net):\n"
    code += "    ids = [device] if device.type == 'cuda' else None\n    return torch.nn.DataParallel(net, ids)\n"
    migrated = project({"a.py": code})["a.py"]
    assert migrated.failure is None and b"== 'npu'" in migrated.content
