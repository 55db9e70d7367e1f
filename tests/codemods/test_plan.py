"""A project is planned in parts, which other processes can take, and the work grows with the code."""

import pickle
import sys

import pytest

from gpu2npu.codemods import CodemodChoice, CodemodError, plan_codemods
from gpu2npu.engine import ProjectContext

LIBRARY = """import os
import torch
from torch.utils.data import DataLoader


class Meter:
    def update(self, value):
        self.sum = self.sum + value


def make_loader(args):
    return DataLoader(args.data, batch_size=args.batch, shuffle=True)


def train(model, loader, optimizer, args):
    meter = Meter()
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        meter.update(loss.item())


def save(model, path):
    os.makedirs(path)
    torch.save(model.state_dict(), path)
"""
SCRIPT = """import torch
import torch.nn as nn
from {library} import make_loader, save, train


class Job:
    def __init__(self, args):
        self.args = args
        self.model = nn.DataParallel(nn.Linear(2, 2)).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.loader = make_loader(args)

    def run(self):
        for epoch in range(self.args.epochs):
            train(self.model, self.loader, self.optimizer, self.args)
        save(self.model, self.args.out)


if __name__ == "__main__":
    args.batch = {number}
    Job(args).run()
"""
CHOICE = CodemodChoice()


def project(count, alone):
    files = {}
    for number in range(count):
        library = f"library{number if alone else ''}"
        files[f"{library}.py"] = LIBRARY.encode()
        files[f"train{number}.py"] = SCRIPT.format(library=library, number=number).encode()
    return files


def plan(files, choice=CHOICE, **options):
    return plan_codemods(files, ProjectContext(files=frozenset(files)), choice, **options)


@pytest.mark.parametrize("alone", [True, False])
def test_parts_can_be_planned_elsewhere_and_in_any_order(alone, monkeypatch):
    monkeypatch.setattr("gpu2npu.codemods.project_plan._PART_SIZE", 0)
    files = project(4, alone) | {"other.py": b"import torch\nx.cuda()\n"}
    counts = []

    def spread(ask, parts):
        counts.append(len(parts))
        parts = [pickle.loads(pickle.dumps(part)) for part in reversed(parts)]
        return [pickle.loads(pickle.dumps(ask(part))) for part in parts]

    assert plan(files, spread=spread) == plan(files)
    assert counts == [4 if alone else 1]
    assert len(plan(files).rewrites) == (8 if alone else 5)


@pytest.mark.parametrize("alone", [True, False])
def test_the_work_grows_with_the_code(alone):
    """Counts calls of functions: four times the scripts take four times the calls, and a little for what is shared."""
    few, many = (calls_of_plan(project(count, alone)) for count in (6, 24))
    assert many < 4.4 * few


def calls_of_plan(files):
    count = 0

    def event(frame, kind, arg):
        nonlocal count
        count += kind == "call"

    sys.setprofile(event)
    try:
        plan(files)
    finally:
        sys.setprofile(None)
    return count


def test_what_is_requested_of_one_part_is_not_requested_of_the_others():
    files = project(2, alone=True)
    choice = CodemodChoice(skipped=frozenset({"data_parallel"}), options={"amp_model": "self.model"})
    assert "library1.py" in plan(files, choice).rewrites
    with pytest.raises(CodemodError, match="'net' was found"):
        plan(files, CodemodChoice(options={"amp_model": "net"}))
    with pytest.raises(CodemodError, match="is excluded"):
        plan(files, CodemodChoice(main="train0.py", excluded=frozenset({"train0.py"})))


def test_a_model_is_called_twice_only_in_programs_that_have_it():
    twice = SCRIPT.replace(
        "            train(",
        "            a = self.model(1) + self.model(2)\n            a.backward()\n            train(",
    )
    files = project(2, alone=False) | {"train1.py": twice.format(library="library", number=1).encode()}
    texts = {
        path: " ".join(piece for edit in rewrite.edits for piece in edit.pieces if isinstance(piece, str))
        for path, rewrite in plan(files).rewrites.items()
    }
    assert "broadcast_buffers" in texts["train1.py"] and "broadcast_buffers" not in texts["train0.py"]
