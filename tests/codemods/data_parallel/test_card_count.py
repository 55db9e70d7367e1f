"""Conditions on the number of cards, in programs that have one process for each card now."""

import pytest

SEVERAL = """import torch
import torch.distributed as dist
from torch import nn


def main(model, batches):
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    for x in batches:
        if torch.cuda.device_count() > 1 and x.any():
            model.module.freeze()
        model(x).sum().backward()
        whole = model.module if torch.cuda.device_count() > 1 else model
        print(torch.cuda.device_count(), "none" if torch.cuda.device_count() > 1 else whole)
    {end}


if __name__ == "__main__":
    main(nn.Linear(2, 2), [])
"""


def test_module_is_read_where_the_model_is_wrapped(after):
    text = after({"train.py": SEVERAL.format(end="return model")})["train.py"]
    assert "if dist.get_world_size() > 1:\n        model = nn.parallel.Distributed" in text
    assert "if dist.get_world_size() > 1 and x.any():" in text
    assert "model.module if dist.get_world_size() > 1 else model" in text
    assert 'print(torch.cuda.device_count(), "none" if torch.cuda.device_count() > 1 else whole)' in text
    always = SEVERAL.replace("    if torch.cuda.device_count() > 1:\n    ", "")
    text = after({"train.py": always.format(end="return model")})["train.py"]
    assert "get_world_size" not in text  # the model has it always


@pytest.mark.parametrize(
    ("end", "ends_with"),
    [
        ("dist.destroy_process_group() if torch.cuda.device_count() > 1 else None", "    main(nn.Linear(2, 2), [])\n"),
        ("pool.destroy_process_group()", "    dist.destroy_process_group()\n"),
    ],
)
def test_a_program_that_ends_a_group_itself_ends_it_once(after, end, ends_with):
    assert after({"train.py": SEVERAL.format(end=end)})["train.py"].endswith(ends_with)


def test_files_that_a_runner_of_tests_starts_get_no_group(after):
    lines = "import torch\nfrom torch import nn\n\n\ndef fit(net):\n    nn.DataParallel(net)(1).backward()\n"
    test = "from fit import fit\n\n\n@mark\ndef test_fit():\n    fit(0)\n\n\nif __name__ == '__main__':\n    {run}\n"
    runs = {"test_a.py": "pass", "test_b.py": "pytest.main()", "test_c.py": "test_fit()"}
    files = {path: "import pytest\n" + test.format(run=run) for path, run in runs.items()}
    files |= {"fit.py": lines, "train.py": "from fit import fit\n\nfit(model)\n"}
    assert after(files).keys() == {"fit.py", "train.py", "test_c.py"}
