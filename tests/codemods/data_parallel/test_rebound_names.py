"""A name that is DataParallel on some paths only, or no longer, stays as it is."""

import pytest

TRAIN = """import torch
{imports}

def main():
    net = torch.nn.Linear(3, 4).cuda()
    net = W(net)
    net(torch.ones(1, 3).cuda()).sum().backward()


if __name__ == "__main__":
    main()
"""
IMPORT = "from torch.nn import DataParallel as W\n"
ALIAS = "W = torch.nn.DataParallel\n"
OWN = "def own(m): return torch.compile(m)\n"

MIXED = [
    (f"{IMPORT}try:\n    from fancy import W\nexcept ImportError:\n    pass\n", 4),
    (f"{ALIAS}{OWN}if FLAG:\n    W = own\n", 5),
    (f"W = lambda m: torch.compile(m)\nif not FLAG:\n    {ALIAS}", 2),
    (f"class Own: pass\nif FLAG:\n    W = Own\nelse:\n    {ALIAS}", 4),
    (f"from gone import Wrap\n{ALIAS}if FLAG:\n    W = Wrap\n", 5),
    (f"{ALIAS}def off():\n    global W\n    W = lambda m: m\n", 5),
]
GONE = [
    f"{ALIAS}W = print\n",
    f"{IMPORT}from torch.fx import wrap as W\n",
    f"{ALIAS}W = lambda m: torch.compile(m)\n",
    f"{ALIAS}W = torch.compile\n",
]
HARMLESS = [
    "try:\n    from torch.nn import DataParallel as W\nexcept ImportError:\n    W = None\n",
    f"if torch.cuda.device_count() > 1:\n    {ALIAS}else:\n    W = lambda m: m\n",
    f"try:\n    {IMPORT}except ImportError:\n    from torch.nn.parallel import DataParallel as W\n",
    f"W = print\n{ALIAS}",
]


def split(par):
    return {"train.py": TRAIN.format(imports="from par import W"), "par.py": f"import torch\n{par}"}


def joined(par):
    return {"train.py": TRAIN.format(imports=par)}


@pytest.mark.parametrize("program", [split, joined])
@pytest.mark.parametrize(("par", "line"), MIXED)
def test_a_name_with_other_values_is_reported_once_with_their_place(par, line, program, after, findings):
    files = program(par)
    assert after(files) == {}
    ((path, _, message),) = findings(files)
    assert path == "train.py"
    assert f"({list(files)[-1]}:{line})" in message


@pytest.mark.parametrize("program", [split, joined])
@pytest.mark.parametrize("par", GONE)
def test_a_name_that_is_no_longer_data_parallel_stays(par, program, after, findings):
    assert after(program(par)) == {}
    assert findings(program(par)) == []


@pytest.mark.parametrize("program", [split, joined])
@pytest.mark.parametrize("par", HARMLESS)
def test_a_name_whose_other_values_stand_in_for_nothing_is_rewritten(par, program, after):
    assert "DistributedDataParallel" in after(program(par))["train.py"]


@pytest.mark.parametrize(
    "statement",
    [
        "par.W = lambda m: m",
        "setattr(par, 'W', print)",
        "par . W, x = print, 1",
        "for par.W in [print]:\n    pass",
        "par.W \\\n    = print",
    ],
)
def test_a_name_that_another_file_sets_stays(statement, after, findings):
    files = {"train.py": TRAIN.format(imports=f"import par\n{statement}\nfrom par import W"), "par.py": IMPORT}
    assert after(files) == {}
    ((path, line, message),) = findings(files)
    assert (path, line) == ("train.py", 8 + statement.count("\n"))
    assert "(train.py:3)" in message


@pytest.mark.parametrize(("imports", "call"), [("from par import *", "W(net)"), ("import par", "par.W(net)")])
def test_stars_and_members_of_modules_are_followed(imports, call, after):
    train = TRAIN.format(imports=imports).replace("W(net)", call)
    assert after({"train.py": train, "par.py": f"import torch\n{MIXED[1][0]}"}) == {}
    assert "DistributedDataParallel" in after({"train.py": train, "par.py": IMPORT})["train.py"]


@pytest.mark.parametrize(
    ("body", "is_rewritten"),
    [
        ("W = print\n    W = torch.nn.DataParallel\n    net = W(net)", True),
        ("W = torch.nn.DataParallel\n    net = W(net)\n    W = print", True),
        ("W = print\n    if FLAG:\n        W = torch.nn.DataParallel\n        net = W(net)", True),
        ("for W in (1, 2):\n        pass\n    if FLAG:\n        W = torch.nn.DataParallel\n    net = W(net)", False),
        ("W = torch.nn.DataParallel\n    for _ in range(2):\n        net = W(net)\n        W = print", False),
        ("W = torch.nn.DataParallel\n    with context:\n        W = print\n    net = W(net)", False),
        ("W: type\n    W = torch.nn.DataParallel\n    net = W(net)", True),
    ],
)
def test_bindings_count_that_reach_the_call(body, is_rewritten, after):
    train = TRAIN.format(imports="").replace("net = W(net)", body)
    assert ("train.py" in after({"train.py": train})) == is_rewritten
