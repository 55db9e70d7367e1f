"""apex's mixed precision: before and after, and what is left to a person."""

import pytest

from gpu2npu.codemods import CodemodChoice, plan_codemods
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

SCRIPT = """import torch
try:
    from apex import amp
except ImportError:
    raise ImportError("install apex")


def epoch(model, loader, optimizer):
    for i, (x, y) in enumerate(loader):
        loss = torch.nn.functional.cross_entropy(model(x), y) / 4
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward(retain_graph=True)
        if i % 4 == 3:
            torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1)
            optimizer.step()


def main():
    net = torch.nn.Linear(3, 3).cuda()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    net, opt = amp.initialize(net, opt, opt_level="O1", loss_scale=128)
    epoch(net, load(), opt)
    torch.save(amp.state_dict(), "amp.pt")


main()
"""
CHOSEN = SCRIPT[SCRIPT.index("        if i") : SCRIPT.index("            optimizer.step")]
AFTER = """import torch

scaler = torch.npu.amp.GradScaler(init_scale=128.0, growth_interval=2**31 - 1)



def epoch(model, loader, optimizer):
    for i, (x, y) in enumerate(loader):
        with torch.npu.amp.autocast():
            loss = torch.nn.functional.cross_entropy(model(x), y) / 4
        scaler.scale(loss).backward(retain_graph=True)
        if i % 4 == 3:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g['params']], 1)
            scaler.step(optimizer)
            scaler.update()


def main():
    net = torch.nn.Linear(3, 3).cuda()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    epoch(net, load(), opt)
    torch.save(scaler.state_dict(), "amp.pt")


main()
"""


def rewrite(**sources):
    encoded = {f"{name}.py": text.encode() for name, text in sources.items()}
    return plan_codemods(encoded, ProjectContext(), CodemodChoice()).rewrites["train.py"]


def test_a_loop_that_is_seen_whole():
    assert after_edits(SCRIPT, rewrite(train=SCRIPT).edits) == AFTER


@pytest.mark.parametrize(
    ("old", "new", "arguments"),
    [
        ('"O1", loss_scale=128', '"O2", loss_scale="dynamic"', ""),
        (", loss_scale=128", "", ""),
        ("loss_scale=128", "loss_scale=1.0", "enabled=False"),
    ],
)
def test_the_scale(old, new, arguments):
    text = SCRIPT.replace(old, new)
    assert f"GradScaler({arguments})" in after_edits(text, rewrite(train=text).edits)


def test_a_scale_that_apex_leaves_as_it_is_is_reported():
    (found,) = rewrite(train=SCRIPT).found
    assert "halves it where a gradient overflows" in found.message
    for old in ("loss_scale=128", '"dynamic"'), ("loss_scale=128", "1.0"):
        assert not rewrite(train=SCRIPT.replace(old[0], f"loss_scale={old[1]}")).found


def test_gradients_are_cleared_behind_autocast():
    text = SCRIPT.replace("        with amp", "        optimizer.zero_grad()\n        with amp")
    after = AFTER.replace("        scaler.scale", "        optimizer.zero_grad()\n        scaler.scale")
    assert after_edits(text, rewrite(train=text).edits) == after


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"O1"', "level", "not written as O1 or O2"),
        ('"O1"', '"O3"', "not written as O1 or O2"),
        ("loss_scale=128", "num_losses=2", "no counterpart"),
        ("    net, opt = amp", "    if fp16:\n        net, opt = amp", "under a condition"),
        ("scaled.backward(retain_graph=True)", "check(scaled)", "more than the backward pass"),
        ("optimizer.step()", "optimizer.step(closure)", "No plain"),
        ("loss_scale=128", "loss_scale='fast'", "no counterpart"),
        ("def main():\n", "def main():\n    print(amp)\n", "passed on"),
        ("amp.state_dict()", "amp.float_function(f)", "amp.float_function"),
        (CHOSEN, CHOSEN.partition("\n")[2].replace("    ", "", 1) + "        if i % 4 == 3:\n", "in another block"),
        ("model(x)", "other(x)", "No call of the model"),
        ("net, opt = amp.initialize(net", "new, opt = amp.initialize(net", "was found alone"),
        ("from apex import amp", "from apex import amp, optimizers", "imported with others"),
    ],
)
def test_what_is_left_to_a_person(old, new, reason):
    assert old in SCRIPT
    found = rewrite(train=SCRIPT.replace(old, new))
    assert not found.edits and reason in found.found[0].message and "train.py:" in found.found[0].message


def test_the_lines_of_a_program_of_several_files():
    engine, _, rest = SCRIPT.partition("def main")
    found = rewrite(engine=engine, train=f"from engine import *\nfrom apex import amp\ndef main{rest}")
    assert {edit.rule for edit in found.edits} <= {"import-torch-npu"}
    assert "several files" in found.found[0].message and "engine.py:11" in found.found[0].message
