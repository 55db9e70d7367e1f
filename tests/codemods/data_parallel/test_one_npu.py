"""DataParallel where DistributedDataParallel cannot work: the model is moved to one NPU, and nothing else changes."""

from textwrap import dedent

import pytest

from gpu2npu.codemods import plan_codemods
from gpu2npu.codemods.choice import DEFAULT_CHOICE
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

HEAD = "import torch\nimport torch.nn as nn\nfrom collections import OrderedDict\n"
NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        return self.fc(x)

"""
TRAIN = "loss.backward()\n"


def migrated(source, **others):
    """The text of a program after the rewrite, and its findings."""
    files = {"a.py": source, **{f"{name}.py": text for name, text in others.items()}}
    sources = {path: text.encode() for path, text in files.items()}
    rewrites = plan_codemods(sources, ProjectContext(files=frozenset(sources)), DEFAULT_CHOICE).rewrites
    text = after_edits(source, rewrites["a.py"].edits) if "a.py" in rewrites else source
    return text, [found.message for rewrite in rewrites.values() for found in rewrite.found]


def body(source):
    """The lines of a program that runs after the head and the class, and what the findings say."""
    text, messages = migrated(HEAD + NET + dedent(source).lstrip())
    assert NET in text
    return text.partition(NET)[2], messages


LOAD = "net.load_state_dict(state)\n"
WITHOUT = "{key.removeprefix('module.'): value for key, value in state.items()}"
NAMED_MODULE = "nn.Sequential(OrderedDict(module={}))"


@pytest.mark.parametrize(
    ("before", "as_written"),
    [
        ("net = nn.DataParallel(net)\nnet(x)\n", "net = net.npu()\nnet(x)\n"),
        ("net = nn.DataParallel(net).cuda()\nnet(x)\n", "net = net.cuda()\nnet(x)\n"),
        ("net = nn.DataParallel(net.to(device))\nnet(x)\n", "net = net.to(device)\nnet(x)\n"),
        ("net = nn.DataParallel(a or b, [2, 3])\nnet(x)\n", "net = (a or b).npu(2)\nnet(x)\n"),
        ("net = nn.DataParallel(net, **options)\nnet(x)\n", "net = net.npu()\nnet(x)\n"),
        # The wrapper's own name for the model, where code depends on it.
        (
            f"net = nn.DataParallel(Net()).cuda()\n{LOAD}net(x)\nnet.module.fc\n",
            f"net = {NAMED_MODULE.format('Net().cuda()')}\n{LOAD}net(x)\nnet.module.fc\n",
        ),
        (
            f"net = nn.DataParallel(other)\n{LOAD}net = net.module\nnet(x, y)\n",
            f"net = {NAMED_MODULE.format('other.npu()')}\n{LOAD}net = net.module\nnet(x, y)\n",
        ),
        (
            f"net = nn.DataParallel(net)\n{LOAD}net(x, y)\nnet.module.fc\nsave(net.state_dict())\n",
            f"net = net.npu()\nnet.load_state_dict({WITHOUT})\nnet(x, y)\nnet.fc\n"
            "save(net.state_dict(prefix='module.'))\n",
        ),
        (
            "net = nn.DataParallel(net)\nnet(x, y)\nfc = net.module.fc if hasattr(net, 'module') else net.fc\n",
            "net = net.npu()\nnet(x, y)\nfc = net.module.fc if hasattr(net, 'module') else net.fc\n",
        ),
        (
            "net = nn.DataParallel(net)\nnet(x)\none = net.module if isinstance(net, nn.DataParallel) else net\n",
            "net = net.npu()\nnet(x)\none = net.module if isinstance(net, nn.DataParallel) else net\n",
        ),
        (
            "net = nn.DataParallel(net)\nnet(x)\nnet.state_dict()\none = type(net) in (nn.DataParallel, None)\n",
            "net = net.npu()\nnet(x)\nnet.state_dict(prefix='module.')\none = type(net) in (nn.DataParallel, None)\n",
        ),
        (
            "net = nn.DataParallel(net)\nnet(x)\none = net.module if is_parallel(net) else net\n",
            "net = net.npu()\nnet(x)\none = net.module if is_parallel(net) else net\n",
        ),
        (
            "net = nn.DataParallel(net)\nif hasattr(net, 'module'):\n    net.module.load_state_dict(a)\nnet(x)\n",
            f"net = {NAMED_MODULE.format('net.npu()')}\nif hasattr(net, 'module'):\n    net.module.load_state_dict(a)\n"
            "net(x)\n",
        ),
        *(
            (
                f"net = nn.DataParallel(net)\nnet(x)\nsave(net.module.state_dict() if {test} else net.state_dict())\n",
                f"net = net.npu()\nnet(x)\nsave(net.module.state_dict() if {test} else net.state_dict())\n",
            )
            for test in ("is_parallel(net)", "hasattr(net, 'module')", "isinstance(net, nn.DataParallel)")
        ),
        # DataParallel moved its inputs.
        (
            "net = nn.DataParallel(net)\na = b.cuda()\nfor a, y in loader:\n    net(a)\n",
            "net = net.npu()\na = b.cuda()\nfor a, y in loader:\n    net(a.npu())\n",
        ),
        (
            "net = nn.DataParallel(net)\nfor a, y in loader:\n    def f(a): a = a.cuda()\n    net(a)\n",
            "net = net.npu()\nfor a, y in loader:\n    def f(a): a = a.cuda()\n    net(a.npu())\n",
        ),
        (
            "net = nn.DataParallel(net)\nfor a, y in loader:\n    a, y = a, y.cuda()\n    net(a)\n",
            "net = net.npu()\nfor a, y in loader:\n    a, y = a, y.cuda()\n    net(a.npu())\n",
        ),
        (
            "net = nn.DataParallel(net)\nfor images, y in loader:\n    net(images)\n",
            "net = net.npu()\nfor images, y in loader:\n    net(images.npu())\n",
        ),
        (
            "net = nn.DataParallel(net)\nfor batch, _ in zip(loader, range(2)):\n    net(batch[0], batch[1].cuda())\n",
            "net = net.npu()\nfor batch, _ in zip(loader, range(2)):\n    net(batch[0].npu(), batch[1].cuda())\n",
        ),
        (
            "net = nn.DataParallel(net)\nfor i, (a, y) in enumerate(loader):\n    a = a.cuda()\n    net(a)\n",
            "net = net.npu()\nfor i, (a, y) in enumerate(loader):\n    a = a.cuda()\n    net(a)\n",
        ),
        (
            "net = nn.DataParallel(net)\nx, y, z = torch.ones(3), 1, torch.ones(3, device=d)\nnet(x)\nnet(y)\nnet(z)\n",
            "net = net.npu()\nx, y, z = torch.ones(3), 1, torch.ones(3, device=d)\nnet(x.npu())\nnet(y)\nnet(z)\n",
        ),
        # Only what moves it to a card does.
        *(
            (
                f"net = nn.DataParallel(net)\nfor a, y in loader:\n    b = {made}\n    net(b)\n",
                f"net = net.npu()\nfor a, y in loader:\n    b = {made}\n    net({given})\n",
            )
            for made, given in [
                ("a.to(torch.float32)", "b.npu()"),
                ("a.float() / 255", "b.npu()"),
                ("a.to(device, torch.float32)", "b"),
                ("a.to(device) / 255", "b"),
                ("a.to(where, non_blocking=True)", "b"),
                ("a.to(dtype=torch.half, non_blocking=True)", "b.npu()"),
                ("a.to('cpu')", "b.npu()"),
                ("a.to(longformer_device)", "b"),
                ("a.size()", "b"),
                ("a.cpu().view(2)", "b.npu()"),
            ]
        ),
        # Python's own functions give no tensors.
        (
            "net = nn.DataParallel(net)\nfor i, (a, y) in enumerate(tqdm(loader)):\n    net(a, i)\n",
            "net = net.npu()\nfor i, (a, y) in enumerate(tqdm(loader)):\n    net(a.npu(), i)\n",
        ),
        (
            "net = nn.DataParallel(net)\nfor name, i in tqdm(names.items()):\n    net(name, i)\n",
            "net = net.npu()\nfor name, i in tqdm(names.items()):\n    net(name, i)\n",
        ),
        *(
            (
                f"net = nn.DataParallel(net)\nfor x, y in {made}:\n    net(x, y)\n",
                f"net = net.npu()\nfor x, y in {made}:\n    net({given})\n",
            )
            for made, given in [
                ("zip(a, b)", "x, y"),
                ("OrderedDict.rows(a)", "x, y"),
                ("data.slice(3)", "x.npu(), y.npu()"),
            ]
        ),
    ],
)
def test_a_program_that_does_not_train(before, as_written):
    text, messages = body(before)
    assert text == as_written
    (message,) = messages
    assert message.startswith("One NPU is used here: nothing is trained")


FIT = """
def fit(net, cuda):
    for images, labels in loader:
        {test}:
            images, labels = images.cuda(), labels.cuda()
        net(images)

use, other = args.cuda, args.other
if use:
    net = nn.DataParallel(net)
fit(net, {given})
"""


@pytest.mark.parametrize(
    ("test", "given", "is_moved"),
    [
        ("if cuda", "use", True),
        ("with torch.no_grad(): pass\n        if cuda", "use", True),
        ("if cuda", "other", False),
        ("if not cuda", "use", False),
        ("if cuda: pass\n        else", "use", False),
        ("if cuda:\n          for each in parts", "use", False),
    ],
)
def test_what_is_moved_wherever_the_model_is_wrapped_is_not_moved_again(test, given, is_moved):
    text, _ = body(FIT.format(test=test, given=given))
    assert f"        net({'images' if is_moved else 'images.npu()'})\n" in text


def test_an_import_that_nothing_needs_any_more_goes():
    text, _ = migrated("import torch\nfrom torch.nn import DataParallel\n\nnet = DataParallel(net)\nprint(net(x))\n")
    assert text == "import torch\n\nnet = net.npu()\nprint(net(x))\n"


@pytest.mark.parametrize("start", ["", "if rank is not None: "])
def test_a_program_that_makes_its_processes_itself(start):
    text, messages = body(
        """
        def work(rank, net):
            START()
            if rank is None:
                net = nn.DataParallel(net)
            else:
                net = nn.parallel.DistributedDataParallel(net)
            net(x).backward()
            return net.state_dict(), net.module.fc

        work(None, net)
        """.replace("START", f"{start}torch.distributed.init_process_group")
    )
    if start:  # it may also be one process
        assert "        net = nn.Sequential(OrderedDict(module=net.npu()))\n" in text
        assert "the program makes its processes itself (a.py:14)" in messages[0]
    else:
        assert "        net = nn.DataParallel(net)\n" in text
        assert "has one process for each card (a.py:14)" in messages[0]


@pytest.mark.parametrize(
    ("frozen", "is_one"),
    [
        ("net.requires_grad_(False)\n", True),
        ("for p in net.parameters():\n    p.requires_grad = False\n", True),
        ("for name, p in net.named_parameters():\n    p.requires_grad_(False)\n", True),
        ("for p in net.parameters():\n    p.requires_grad = False\nnet.fc = nn.Linear(2, 3)\n", False),
        ("net.requires_grad_(False)\nadd_head(net)\n", False),
        ("net.requires_grad_(False)\nnet.fc.requires_grad_(True)\n", False),
        ("if frozen:\n    net.requires_grad_(False)\n", False),
        ("for p in net.fc.parameters():\n    p.requires_grad = False\n", False),
    ],
)
def test_a_frozen_model(frozen, is_one):
    text, messages = body(f"net = Net()\n{frozen}net = nn.DataParallel(net)\n{TRAIN}main()\n")
    assert ("net = net.npu()" in text) == is_one
    assert ("DistributedDataParallel(net.npu()" in text) != is_one
    assert any("No parameter here requires a gradient" in message for message in messages) == is_one


@pytest.mark.parametrize("moved", ["net.cuda()", "net.cuda().eval()", "net.to(0).train()"])
def test_a_frozen_model_that_is_moved_where_it_is_wrapped(moved):
    text, messages = body(f"net = Net()\nnet.requires_grad_(False)\nnet = nn.DataParallel({moved})\n{TRAIN}main()\n")
    assert "DistributedDataParallel(" not in text
    assert any("No parameter here requires a gradient" in message for message in messages)


@pytest.mark.parametrize(
    ("lines", "is_one"),
    [
        (["self.relu = nn.ReLU()", "self.size = 3"], True),
        (["self.pool = nn.Sequential(nn.MaxPool2d(2), nn.Flatten())"], True),
        (["self.act = nn.PReLU()"], False),
        (["self.fc = nn.Linear(2, 2)"], False),
        (["self.fc = nn.Linear(2, 2)", "self.fc.requires_grad_(False)"], True),
        (["self.fc = nn.Linear(2, 2)", "self.requires_grad_(False)", "self.fc.requires_grad_(True)"], False),
        (["self.inner = inner"], False),
        (["self.gain = Gain()"], True),
        (["self.add_module('fc', nn.Linear(2, 2))"], False),
    ],
)
def test_a_class_with_nothing_to_learn(lines, is_one):
    gain = "\nclass Gain(nn.Module):\n    def forward(self, x):\n        return 2 * x\n"
    source = HEAD + gain + "\nclass Part(nn.Module):\n    def __init__(self, inner):\n        super().__init__()\n"
    source += "".join(f"        {line}\n" for line in lines)
    text, _ = migrated(f"{source}\npart = nn.DataParallel(Part(3))\n{TRAIN}main()\n")
    assert ("\npart = Part(3).npu()\n" in text) == is_one


@pytest.mark.parametrize(("line", "is_one"), [("pass", True), ("self.centers = nn.Parameter(torch.ones(3))", False)])
def test_a_loss(line, is_one):
    source = f"{HEAD}\nclass CenterLoss(nn.Module):\n    def __init__(self):\n        {line}\n        self.k = kind()\n"
    text, messages = migrated(f"{source}\nloss_of = nn.DataParallel(CenterLoss())\n{TRAIN}main()\n")
    assert ("loss_of = CenterLoss().npu()" in text) == is_one
    assert any("A loss has nothing to train" in message for message in messages) == is_one


@pytest.mark.parametrize(
    "forward",
    ["yield self.fc(x)", "self.fc(x).backward()", "self.learn(x)\n\n    def learn(self, x):\n        x.backward()"],
)
def test_a_forward_that_the_wrapper_cannot_go_with_keeps_its_program_in_one_process(forward):
    source = HEAD + NET.replace("return self.fc(x)", forward)
    source += f"net = nn.DataParallel(Net())\nother = nn.DataParallel(other)\n{TRAIN}main()\n"
    text, messages = migrated(source)
    assert text.endswith(f"net = Net().npu()\nother = other.npu()\n{TRAIN}main()\n")
    assert len(messages) == 2
    assert all(message.startswith("One NPU is used here: the model's forward") for message in messages)


def test_code_that_other_programs_run_too_is_left_with_what_to_do():
    shared = "def look(net):\n    net(x, y)\n    return net.module.fc\n"
    train = f"{HEAD}from shared import look\nnet = nn.DataParallel(net)\nlook(net)\n{TRAIN}"
    source = f"{HEAD}from shared import look\nnet = nn.DataParallel(net)\nlook(net)\n"
    text, messages = migrated(source, shared=shared, train=train)
    assert text.endswith("net = net.npu()\nlook(net)\n")
    assert any("Take `.module` out where it is used" in message for message in messages)


MADE = """
def build():
    net = nn.DataParallel(Net(), device_ids=[0, 1])
    return {returned}

"""


@pytest.mark.parametrize(
    ("returned", "assigned", "name"),
    [("net", "model", "model"), ("net, 3", "model, count", "model"), ("(1, net)", "count, self.net", "self.net")],
)
def test_a_model_is_followed_to_those_who_call_its_maker(returned: str, assigned: str, name: str) -> None:
    made = MADE.format(returned=returned)
    source = HEAD + NET + made + f"def main(self):\n    {assigned} = build()\n    {name}(x, y)\n    {{}}\n\nmain(1)\n"
    used = source.format(f"torch.save({name}.module.fc, {name}.state_dict())")
    text, _ = migrated(used)
    assert f"torch.save({name}.fc, {name}.state_dict(prefix='module.'))" in text
    assert "net = Net().npu()" in text


def test_a_model_is_followed_through_makers_that_call_each_other() -> None:
    makers = """
def one(n):
    if n:
        return two(n - 1)
    net = nn.DataParallel(Net())
    return net

def two(n):
    return one(n)

model = two(3)
model(x, y)
model.module.fc
"""
    text, _ = migrated(HEAD + NET + makers)
    assert text.endswith("model(x, y)\nmodel.fc\n")


BARE = """
class Shift(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).cuda().view(1, 3, 1, 1)
        self.std = std

    def forward(self, x):
        return (x - self.mean) / self.std

shift = nn.DataParallel({made}).cuda()
model = nn.DataParallel(nn.Linear(2, 2)).cuda()
"""


@pytest.mark.parametrize("made", ["Shift([0.5], 2)", "nn.Upsample(scale_factor=2)"])
def test_a_module_without_parameters_is_on_one_npu_in_a_program_that_trains(made: str) -> None:
    text, messages = migrated(HEAD + BARE.format(made=made) + TRAIN)
    assert f"shift = {made}.cuda()" in text
    assert any("No parameter here requires a gradient" in message for message in messages)


def test_what_a_module_inherits_or_is_made_of_before_has_no_parameters_either() -> None:
    rest = "\npost = nn.Sequential(nn.ReLU())\n{}post = nn.DataParallel(post)\n"
    bare = BARE.replace("\nshift =", "\nclass Gain(Shift):\n    factor = 2\n\nshift =")
    text, _ = migrated(HEAD + bare.format(made="Gain([0.5], 2)") + rest.format("") + TRAIN)
    assert "shift = Gain([0.5], 2).cuda()" in text and "post = post.npu()" in text
    learning = bare.replace("self.std = std", "self.std = nn.Parameter(std)").format(made="Gain([0.5], 2)")
    text, _ = migrated(HEAD + learning + rest.format("post.append(nn.Linear(2, 2))\n") + TRAIN)
    assert "DistributedDataParallel(post.npu()" in text and "DistributedDataParallel(Gain([0.5], 2)" in text


def test_a_layer_that_is_given_stays_wrapped() -> None:
    given = BARE.format(made="Shift(layer, 2)").replace("self.std = std", "self.std = std\n        self.layer = mean")
    text, _ = migrated(HEAD + given + TRAIN)
    assert "DistributedDataParallel(Shift(layer, 2)" in text


SHOWN = """
model = nn.DataParallel(nn.Linear(2, 2)).cuda()

def show(frames):
    prepare = nn.DataParallel(Net()).cuda()
    prepare.eval()
    def one(frame):
        {head}
            return prepare(frame)
    return [one(frame) for frame in frames]

show(batches)
"""


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        ("with torch.no_grad():", True),
        ("with torch.inference_mode():", True),
        ("with torch.set_grad_enabled(False):", True),
        ("with torch.set_grad_enabled(frame):", False),
        ("with options.no_grad():", False),  # torch.no_grad is meant by its name, not by its word
        ("if frame:", False),
    ],
)
def test_a_model_that_is_only_called_without_gradients_in_a_program_that_trains(head: str, is_one: bool) -> None:
    text, _ = migrated(HEAD + NET + SHOWN.format(head=head) + TRAIN)
    assert ("prepare = Net().cuda()" in text) is is_one
    assert ("prepare = nn.parallel.DistributedDataParallel(" in text) is not is_one
    assert "model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2).cuda()" in text


@pytest.mark.parametrize(
    ("moved", "after"),
    [
        ("net = net.cuda()", "if cuda:\n    net = net.cuda()\n"),  # which rules write .npu()
        ("net.to(device)", "if cuda:\n    net.to(device)\n"),
        ("other.cuda()", "if cuda:\n    net = net.npu()\n    other.cuda()\n"),
        ("net.eval()", "if cuda:\n    net = net.npu()\n    net.eval()\n"),
    ],
)
def test_a_model_that_the_next_line_moves_is_not_moved_twice(moved: str, after: str) -> None:
    text, _ = migrated(f"import torch\nif cuda:\n    net = torch.nn.DataParallel(net)\n    {moved}\nprint(net(x))\n")
    assert text == f"import torch\n{after}print(net(x))\n"


@pytest.mark.parametrize(
    ("rest", "is_trained"),
    [
        ("self.net = net", True),
        ("self.nets = [net, other]", True),
        ("return {'net': net}", True),
        ("yield net", True),
        ("print(net)\n        net(x)", False),
    ],
)
def test_the_other_methods_of_a_library_may_train_what_leaves_the_one_that_wraps_it(rest, is_trained):
    source = f"{HEAD}\nclass Kit:\n    def build(self, net):\n        net = nn.DataParallel(net)\n        {rest}\n\n"
    text, _ = migrated(f"{source}    def step(self, x):\n        self.net(x).backward()\n")
    assert ("net = nn.parallel.DistributedDataParallel(" in text) is is_trained
