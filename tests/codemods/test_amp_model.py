"""`-a MODEL`: before and after."""

import pytest

from gpu2npu.codemods import CodemodChoice, CodemodError, plan_codemods
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

SCRIPT = """import torch
from torch import nn

def train(net, loader, optimizer, criterion):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        output = net(x.cuda())

        loss = criterion(output,
                         y.cuda())  # mean
        loss = loss / 2
        loss.backward()
        if step % 2:
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()

def main():
    model = nn.Linear(3, 3).cuda()
    train(model, load(), torch.optim.SGD(model.parameters(), 0.1), nn.MSELoss())

if __name__ == '__main__':
    main()
"""
SCRIPT_AFTER = """import torch
from torch import nn

scaler = torch.npu.amp.GradScaler()

def train(net, loader, optimizer, criterion):
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        with torch.npu.amp.autocast():
            output = net(x.cuda())

            loss = criterion(output,
                             y.cuda())  # mean
            loss = loss / 2
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()

def main():
    model = nn.Linear(3, 3).cuda()
    train(model, load(), torch.optim.SGD(model.parameters(), 0.1), nn.MSELoss())

if __name__ == '__main__':
    main()
"""
TRAINER = """import torch

class Trainer:
    def __init__(self):
        self.model = Net()
        self.optim = torch.optim.Adam(self.model.parameters())

    def step(self, x):
        loss = self.model(x)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        self.scheduler.step()

Trainer().step(1)
"""
TRAINER_AFTER = """import torch

scaler = torch.npu.amp.GradScaler()

class Trainer:
    def __init__(self):
        self.model = Net()
        self.optim = torch.optim.Adam(self.model.parameters())

    def step(self, x):
        with torch.npu.amp.autocast():
            loss = self.model(x)
        self.optim.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(self.optim)
        scaler.update()
        self.scheduler.step()

Trainer().step(1)
"""


def plan(source, model="model"):
    return plan_codemods({"train.py": source.encode()}, ProjectContext(), CodemodChoice(options={"amp_model": model}))


def after(source, model="model"):
    return after_edits(source, plan(source, model).rewrites["train.py"].edits)


def test_the_loop_of_a_script():
    assert after(SCRIPT) == SCRIPT_AFTER


def test_a_loop_that_trains_and_validates():
    before = SCRIPT[: SCRIPT.index("        loss.backward()")] + "        if loader.train:\n"
    before += (
        "            loss.backward()\n            optimizer.step()\n        total += loss.item()\n"
        + SCRIPT[SCRIPT.index("\ndef main") :]
    )
    expected = SCRIPT_AFTER[: SCRIPT_AFTER.index("        scaler.scale")] + "        if loader.train:\n"
    expected += "            scaler.scale(loss).backward()\n            scaler.step(optimizer)\n"
    expected += (
        "            scaler.update()\n        total += loss.item()\n" + SCRIPT_AFTER[SCRIPT_AFTER.index("\ndef main") :]
    )
    assert after(before) == expected


def test_the_loop_of_a_class():
    assert after(TRAINER, "self.model") == TRAINER_AFTER


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("optimizer.step()", "optimizer.step(closure)", "closure"),
        ("optimizer.step()", "pass", "No `optimizer.step"),
        ("output = net(x.cuda())", "with torch.cuda.amp.autocast():\n            output = net(x.cuda())", "of its own"),
        ("loss = loss / 2", "loss.backward(retain_graph=True)", "more than one"),
        (
            "optimizer.step()",
            "print(loss); optimizer.step()\n            lr = optimizer.step()",
            "is used here",
        ),
        ("loss.backward()", "torch.autograd.backward(loss)", "passed to another"),
        ("loss.backward()", "accelerator.backward(loss)", "passed to another"),
        ("        if step % 2:\n            nn.utils", "        nn.utils", "in another block"),
    ],
)
def test_what_is_not_certain_is_reported_and_stays(old, new, reason):
    source = SCRIPT.replace(old, new)
    if "in another block" in reason:
        source = source.replace("            optimizer.step()", "        if step % 2:\n            optimizer.step()")
    rewrite = plan(source).rewrites["train.py"]
    assert any(reason in finding.message for finding in rewrite.found)
    assert all(finding.rule == "amp-model" for finding in rewrite.found)


def test_gradients_are_unscaled_once_however_they_are_clipped():
    clipping = "            nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n"
    chosen = f"            if norm:\n    {clipping}            else:\n    {clipping.replace('norm_', 'value_')}"
    looped = clipping.replace("            ", "            for part in net:\n                ")
    for code in (chosen, looped):
        assert after(SCRIPT.replace(clipping, code)) == SCRIPT_AFTER.replace(clipping, code)


@pytest.mark.parametrize(
    ("head", "between"),
    [
        ("import torch\n", ""),
        ('#!/usr/bin/env python\n"""Doc."""\n', "try:\n    import torch\nexcept OSError:\n    raise\n"),
    ],
)
def test_the_scaler_is_above_the_loop_and_below_what_begins_a_file(head, between):
    source = (
        f"{head}{between}net = torch.nn.Linear(1, 1).cuda()\nfor x in load():\n    loss = net(x).sum()\n"
        "    loss.backward()\n    optimizer.step()\nimport matplotlib\n"
    )
    text = after(source, "net")
    assert text.startswith(head) and text.index("scaler =") < text.index("net =")


def test_a_model_that_nothing_trains_is_an_error():
    with pytest.raises(CodemodError, match="No loop that trains the model 'nett'"):
        plan(SCRIPT, "nett")


def test_statements_that_share_a_line_get_lines_of_their_own():
    source = """import torch
net = torch.nn.Linear(3, 3).cuda()
for x in load():
    loss = net(x).sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
    sources = {"a.py": source.encode()}
    plan = plan_codemods(sources, ProjectContext(files=frozenset(sources)), CodemodChoice(options={"amp_model": "net"}))
    text = after_edits(source, plan.rewrites["a.py"].edits)
    assert text.endswith(
        "        loss = net(x).sum()\n    optimizer.zero_grad()\n    scaler.scale(loss).backward()\n"
        "    scaler.step(optimizer)\n    scaler.update()\n"
    )


def test_an_optimizer_is_known_by_what_it_is_made_of():
    source = """import torch
class Learner:
    def __init__(self):
        self.net = torch.nn.Linear(3, 3).cuda()
        self.o = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.plan = torch.optim.lr_scheduler.ConstantLR(self.o)
    def fit(self, x):
        loss = self.net(x).sum()
        loss.backward()
        self.o.step()
        self.plan.step()
Learner().fit(load())
"""
    sources = {"a.py": source.encode()}
    choice = CodemodChoice(options={"amp_model": "self.net"})
    plan = plan_codemods(sources, ProjectContext(files=frozenset(sources)), choice)
    text = after_edits(source, plan.rewrites["a.py"].edits)
    assert "scaler.step(self.o)\n" in text and "        self.plan.step()\n" in text
