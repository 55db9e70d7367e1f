"""Reports of wraps that are left to a person, or that give other results."""

import pytest

# A program around a fragment, and what it becomes.
HEAD = "import os\nimport torch\nimport torch.distributed as dist\nimport torch.nn as nn\n"
TAIL = """

def main(loss):
    loss.backward()


if __name__ == '__main__':
    main(part())
"""
TRAINS = "    loss.backward()\n    return net\n"


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("net = nn.DataParallel(net, dim=1)", 7, "dimension 1"),
        ("net = nn.DataParallel(*arguments)", None, ""),
        ("net = nn.DataParallel(net, **options)", 7, "not known"),
        ("if a:\n        net.f = nn.DataParallel(net.f)\n    net.train()", 8, "Only a part of the model"),
        ("net = nn.parallel.data_parallel(net, x)", 7, "wrap the module once"),
        ("dp = nn.parallel.data_parallel\n    net = dp(net, x)", 8, "wrap the module once"),
        ("class P(nn.DataParallel): pass", 7, "derive from torch.nn.parallel.DistributedDataParallel"),
    ],
)
def test_what_is_not_certain_stays_and_is_reported(body, line, message, after, findings):
    source = f"{HEAD}\ndef part():\n    {body}\n    return net\n{TAIL}"
    assert after({"a.py": source}) == {}
    found = findings({"a.py": source})
    assert [(path, at) for path, at, _ in found] == ([("a.py", line)] if line else [])
    assert all(message in text for _, _, text in found)


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("if args.parallel:\n        net = nn.DataParallel(net)", 7, "get_world_size() > 1"),
        ("if args.multi_gpu and args.use_gpu:\n        net = nn.DataParallel(net)", 7, "get_world_size() > 1"),
        ("if not args.multi_gpu:\n        return net\n    net = nn.DataParallel(net)", 7, "get_world_size() == 1"),
        ("x = x.cuda(1)\n    net = nn.DataParallel(net)", 7, ".npu()"),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n    net = nn.DataParallel(net)", 7, "take the line out"),
    ],
)
def test_what_a_rewritten_program_leaves_to_a_person(body, line, message, findings):
    ((path, at, text),) = findings({"a.py": f"{HEAD}\ndef part():\n    {body}\n    return net\n{TAIL}"})
    assert (path, at) == ("a.py", line)
    assert message in text


@pytest.mark.parametrize(
    ("body", "line", "message"),
    [
        ("    loss = nn.functional.mse_loss(net(x), y, reduction='sum')\n", 8, "get_world_size()).backward()"),
        ("    loss_of = nn.MSELoss(size_average=False)\n", 8, "get_world_size()).backward()"),
        ("    init_weights(net)\n", 8, "draw them before the model is wrapped"),
        ("    x = Loader(d, collate_fn=Split(torch.cuda.device_count()))\n", 8, "a rank has one card"),
        ("    net.cpu()\n", 8, "`copy.deepcopy(net.module).cpu()`"),
        ("    net.module.to(torch.device('cpu'))\n", 8, "`copy.deepcopy(net.module).cpu()`"),
        ("    net.module.apply(draw)\n", 8, "draw them before the model is wrapped"),
        ("    for m in net.modules():\n        nn.init.ones_(m.bias)\n", 9, "draw them before the model is wrapped"),
        ("    optimizer = SGD([*net.parameters(), *head.parameters()])\n", 8, "not averaged over processes: wrap it"),
        ("    loss = net.module(x).mean()\n", 8, "calls the model inside the wrapper"),
        ("    loss = net.module.encode(x).mean()\n", 8, "calls the model inside the wrapper"),
    ],
)
def test_what_the_wrapper_does_otherwise_is_reported(body, line, message, findings):
    head = f"{HEAD}\ndef part():\n    net = nn.DataParallel(net.cuda())\n"
    ((path, at, text),) = findings({"a.py": f"{head}{body}{TRAINS}{TAIL}"})
    assert (path, at) == ("a.py", line)
    assert message in text


SUMS = "return nn.functional.mse_loss(x, y, reduction='sum')\n"


@pytest.mark.parametrize(
    ("code", "loss", "line"),
    [
        (f"\ndef loss_of(x, y):\n    {SUMS}", "loss_of", 7),
        (f"\nclass Loss(nn.Module):\n    def forward(self, x, y):\n        {SUMS}\nloss_of = Loss()\n", "loss_of", 8),
        (f"\ndef loss_of(x, y):\n    {SUMS}", "other", None),
        (f"\n@torch.no_grad()\ndef loss_of(x, y):\n    {SUMS}", "loss_of", None),
        (f"\ndef loss_of(x, y):\n    with torch.no_grad():\n        {SUMS}", "loss_of", None),
    ],
)
def test_a_sum_in_what_training_calls_is_reported(code, loss, line, findings):
    body = f"    net = nn.DataParallel(net.cuda())\n    loss = {loss}(net(x), y)\n"
    test = "\ndef test():\n    return loss_of(x, y)\n\ntest()\n"
    found = findings({"a.py": f"{HEAD}{code}\ndef part():\n{body}{TRAINS}{test}{TAIL}"})
    assert [at for _, at, text in found if "The loss is a sum" in text] == [line] * (line is not None)


def test_a_class_that_a_loader_is_given_may_count_cards(findings):
    cls = "\nclass Split:\n    def __call__(self, rows):\n        return rows[: torch.cuda.device_count()]\n"
    body = "    net = nn.DataParallel(net.cuda())\n    x = Loader(d, collate_fn=Split())\n"
    ((path, at, text),) = findings({"a.py": f"{HEAD}{cls}\ndef part():\n{body}{TRAINS}{TAIL}"})
    assert (path, at) == ("a.py", 8) and "a rank has one card" in text


@pytest.mark.parametrize(
    "body",
    [
        "    loss = nn.functional.mse_loss(net(x), y)\n",
        "    torch.manual_seed(1)\n    init_weights(net)\n",
        "    hidden = net.module.init_hidden(4)\n",
        "    net.module.load_state_dict(state)\n    print(net.module.state_dict())\n",
        "    with torch.no_grad():\n        print(net.module.encode(x))\n",
    ],
)
def test_what_the_wrapper_does_as_well_is_not(body, findings):
    assert findings({"a.py": f"{HEAD}\ndef part():\n    net = nn.DataParallel(net.cuda())\n{body}{TRAINS}{TAIL}"}) == []


@pytest.mark.parametrize(
    ("forward", "reported"),
    [
        ("        if use_aux:\n            x = self.aux(x)\n        return x\n", True),
        ("        return self.aux(x) if use_aux else x\n", True),
        ("        if self.deep:\n            x = self.aux(x)\n        return x\n", False),
        ("        if use_aux:\n            x = self.aux(x)\n        return self.aux(x)\n", False),
    ],
)
def test_a_forward_that_leaves_out_a_part_in_some_steps_is_reported(forward, reported, findings):
    net = "import torch.nn as nn\n\nclass Net(nn.Module):\n    def __init__(self):\n"
    net += f"        self.aux = nn.Linear(2, 2)\n\n    def forward(self, x, use_aux=False):\n{forward}"
    train = f"{HEAD}from net import Net\n\ndef part():\n    net = Net()\n    net = nn.DataParallel(net)\n{TAIL}"
    found = findings({"net.py": net, "train.py": train})
    assert [(path, line) for path, line, _ in found] == [("train.py", 9)] * reported
    assert all("calls self.aux only under a condition" in message for _, _, message in found)


@pytest.mark.parametrize(
    "made",
    [
        "net = Net()\n    net, opt = amp.initialize(net, opt)",
        "net = Net().double().requires_grad_().eval()",
        "net = Net().init_weights()",
        "net = Net()\n    net = prepared(net)",
    ],
)
def test_the_class_of_a_model_is_known_through_what_is_not(made, findings):
    net = (
        "import torch.nn as nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        self.aux = nn.Linear(2, 2)\n"
    )
    net += "\n    def forward(self, x, use_aux=False):\n        return self.aux(x) if use_aux else x\n"
    heads = f"{HEAD}from apex import amp\nfrom kit import prepared\nfrom net import Net\n\n"
    found = findings(
        {"net.py": net, "train.py": f"{heads}def part():\n    {made}\n    net = nn.DataParallel(net)\n{TAIL}"}
    )
    assert sum("calls self.aux only" in message for _, _, message in found) == 1


def test_a_wrap_that_no_script_comes_to_stays(after, findings):
    library = "import torch.nn as nn\n\nnet = nn.DataParallel(net)\n\ndef step(loss):\n    loss.backward()\n"
    assert after({"a.py": library}) == {}
    ((_, line, message),) = findings({"a.py": library})
    assert line == 3
    assert "no script that comes here was found" in message
    assert "torch.nn.parallel.DistributedDataParallel(model.npu(), device_ids=[torch.npu.current_device()])" in message


@pytest.mark.parametrize(("member", "places"), [("replicate", [("a.py", 3), ("b.py", 3)]), ("forward", [("a.py", 3)])])
def test_a_class_that_makes_replicas_is_reported_where_it_is_made(findings, member, places):
    made = f"import torch.nn as nn\n\nclass Own(nn.DataParallel):\n    def {member}(self, *given):\n        ...\n"
    used = "from a import Own\n\nmodel = Own(net)\n"
    found = findings({"a.py": made, "b.py": used})
    assert [(path, line) for path, line, _ in found] == places
    assert all(("SyncBatchNorm" in message) is (member == "replicate") for _, _, message in found)
