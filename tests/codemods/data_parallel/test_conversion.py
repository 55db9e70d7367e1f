"""DataParallel becomes DistributedDataParallel: before and after."""

import pytest

from gpu2npu.codemods import CodemodChoice

PLAIN = """import torch
from torch import nn

model = nn.Linear(3, 3)
model = nn.DataParallel(model, device_ids=[0, 1]).cuda()
loss = model(torch.ones(4, 3)).mean()
loss.backward()
"""
PLAIN_AFTER = """import os
import torch
import torch.distributed as dist
from torch import nn

if 'RANK' not in os.environ:  # started without a launcher: one process on one card
    os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')
torch.npu.set_device(int(os.environ['LOCAL_RANK']))
dist.init_process_group('hccl')

model = nn.Linear(3, 3)
model = nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[torch.npu.current_device()])
loss = model(torch.ones(4, 3)).mean()
loss.backward()

dist.destroy_process_group()
"""


def test_a_program_that_trains_by_a_scaler_of_timm_is_converted(after):
    scaled = PLAIN.replace("loss.backward()", "NativeScaler()(loss, optimizer)")
    text = after({"train.py": f"from timm.utils import NativeScaler\n{scaled}"})["train.py"]
    assert "DistributedDataParallel(model.cuda(), " in text


# A program around a fragment, and what it becomes.
HEAD = "import os\nimport torch\nimport torch.distributed as dist\nimport torch.nn as nn\n"
TAIL = """

def main(loss):
    loss.backward()


if __name__ == '__main__':
    main(part())
"""
TAIL_AFTER = TAIL.replace(
    "    main(part())\n",
    """    if 'RANK' not in os.environ:  # started without a launcher: one process on one card
        os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')
    torch.npu.set_device(int(os.environ['LOCAL_RANK']))
    dist.init_process_group('hccl')
    main(part())
    dist.destroy_process_group()
""",
)
DDP = "nn.parallel.DistributedDataParallel"
IDS = "device_ids=[torch.npu.current_device()]"
TRAINS = "    loss.backward()\n    return net\n"


def test_a_plain_script(after):
    assert after({"train.py": PLAIN}) == {"train.py": PLAIN_AFTER}


def test_nothing_happens_where_the_rule_is_switched_off(plan):
    assert plan({"train.py": PLAIN}, CodemodChoice(skipped=frozenset({"data_parallel"}))).rewrites == {}


@pytest.mark.parametrize(
    ("wrapped", "as_written"),
    [
        ("nn.DataParallel(net)", f"{DDP}(net.npu(), {IDS})"),
        ("nn.DataParallel(net).cuda()", f"{DDP}(net.cuda(), {IDS})"),
        ("nn.DataParallel(net).to(device)", f"{DDP}(net.to(device), {IDS})"),
        ("nn.DataParallel(net).to(precision)", f"{DDP}(net.npu(), {IDS}).to(precision)"),
        ("nn.DataParallel(net).to(args.short_device)", f"{DDP}(net.to(args.short_device), {IDS})"),
        ("(nn.DataParallel)(net, [0])", f"{DDP}(net.npu(), {IDS})"),
        ("nn.DataParallel(net).train().cuda()", f"{DDP}(net.npu(), {IDS}).train().cuda()"),
        ("nn.DataParallel(net.cuda())", f"{DDP}(net.cuda(), {IDS})"),
        ("nn.DataParallel(net.to(device), range(4))", f"{DDP}(net.to(device), {IDS})"),
        ("nn.DataParallel(net.to(torch.half))", f"{DDP}(net.to(torch.half).npu(), {IDS})"),
        ("nn.DataParallel(module=net, dim=0)", f"{DDP}(module=net.npu(), {IDS})"),
        ("nn.DataParallel(net, [0, 1], output_device=0)", f"{DDP}(net.npu(), {IDS})"),
        ("nn.DataParallel(\n    net,\n    device_ids=ids,\n)", f"{DDP}(\n    net.npu(),\n    {IDS},\n)"),
        ("nn.DataParallel(device_ids=ids, module=net)", f"{DDP}({IDS}, module=net.npu())"),
        ("nn.DataParallel(device_ids=ids,  # a\n dim=0, module=net)", f"{DDP}({IDS},  # a\n    module=net.npu())"),
        (
            "nn.DataParallel(\n    net,  # a\n    # b\n    ids,  # c\n    dim=0,\n)",
            f"{DDP}(\n    net.npu(),  # a\n    # b\n    {IDS},  # c\n)",
        ),
        ("nn.DataParallel(\n    net  # a\n)", f"{DDP}(\n    net.npu(), {IDS}  # a\n)"),
        ("nn.DataParallel(\n    net,\n    ids,  # a\n    dim=0)", f"{DDP}(\n    net.npu(),\n    {IDS},  # a\n    )"),
        (
            "nn.DataParallel(\n    device_ids=ids,  # a,\n    dim=0,  # b,\n    module=net,  # c,\n)",
            f"{DDP}(\n    {IDS},  # a,  # b,\n    module=net.npu(),  # c,\n)",
        ),
        ("nn.DataParallel(a or b)", f"{DDP}((a or b).npu(), {IDS})"),
        ("nn.DataParallel(net).cuda(0)", f"{DDP}(net.cuda(), {IDS})"),
        ("nn.DataParallel(net.cuda(ids[0]), ids)", f"{DDP}(net.cuda(), {IDS})"),
        ("nn.DataParallel(net).to('cuda:0')", f"{DDP}(net.to('npu'), {IDS})"),
        ("torch.nn.DataParallel(net)", f"torch.{DDP}(net.npu(), {IDS})"),
        ("nn.parallel.DataParallel(net)", f"{DDP}(net.npu(), {IDS})"),
    ],
)
def test_a_wrap(wrapped, as_written, after):
    source = f"{HEAD}\ndef part():\n    return {wrapped}\n{TAIL}"
    assert after({"a.py": source}) == {"a.py": f"{HEAD}\ndef part():\n    return {as_written}\n{TAIL_AFTER}"}


@pytest.mark.parametrize(
    ("body", "as_written"),
    [
        # The module is on its device already.
        ("net.cuda()\n    net = nn.DataParallel(net)", f"net.cuda()\n    net = {DDP}(net, {IDS})"),
        (
            "net = Net().to(device)\n    net = nn.DataParallel(net)",
            f"net = Net().to(device)\n    net = {DDP}(net, {IDS})",
        ),
        # It comes there only perhaps, or later.
        (
            "if a:\n        net.cuda()\n    net = nn.DataParallel(net)",
            f"if a:\n        net.cuda()\n    net = {DDP}(net.npu(), {IDS})",
        ),
        ("net = nn.DataParallel(net)\n    net.to(device)", f"net = {DDP}(net.npu(), {IDS})\n    net.to(device)"),
        # A condition about the number of cards is about the number of processes.
        (
            "if torch.cuda.device_count() > 1:\n        net = nn.DataParallel(net)",
            f"if dist.get_world_size() > 1:\n        net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "n = torch.cuda.device_count()\n    if n > 1:\n        net = nn.DataParallel(net)",
            f"n = dist.get_world_size()\n    if n > 1:\n        net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "if len(ids) > 1:\n        net = nn.DataParallel(net, device_ids=ids)",
            f"if dist.get_world_size() > 1:\n        net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "net = nn.DataParallel(net) if torch.cuda.device_count() > 1 else net",
            f"net = {DDP}(net.npu(), {IDS}) if dist.get_world_size() > 1 else net",
        ),
        # Every process uses its own card.
        (
            "net = nn.DataParallel(net)\n    x = x.cuda(0, non_blocking=True)",
            f"net = {DDP}(net.npu(), {IDS})\n    x = x.cuda(non_blocking=True)",
        ),
        (
            "torch.cuda.set_device(args.gpu)\n    net = nn.DataParallel(net)",
            f"torch.cuda.set_device(int(os.environ['LOCAL_RANK']))\n    net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "device = torch.device(f'cuda:{gpus[0]}')\n    net = nn.DataParallel(net, gpus)",
            f"device = torch.device('npu')\n    net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "device = torch.device('cuda:%d' % gpus[0])\n    net = nn.DataParallel(net, gpus)",
            f"device = torch.device('npu')\n    net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "device = 'cuda:{}'.format(args.gpu)\n    net = nn.DataParallel(net)",
            f"device = 'npu'\n    net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "net.to(gpus[0])\n    net = nn.DataParallel(net, gpus)",
            f"net.to('npu')\n    net = {DDP}(net, {IDS})",
        ),
        (
            "if len(gpus) > 0:\n        net = nn.DataParallel(net, gpus)",
            f"if len(gpus) > 0:\n        net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "device = torch.device('cuda', 0)\n    net = nn.DataParallel(net)",
            f"device = torch.device('cuda')\n    net = {DDP}(net.npu(), {IDS})",
        ),
        (
            "with torch.cuda.device(0):\n        net = nn.DataParallel(net)",
            f"with torch.cuda.device(torch.npu.current_device()):\n        net = {DDP}(net.npu(), {IDS})",
        ),
        # Tests for the class; what DistributedDataParallel has too stays.
        (
            "net = nn.DataParallel(net)\n    if isinstance(net, nn.DataParallel):\n        net.module.f()",
            f"net = {DDP}(net.npu(), {IDS})\n    if isinstance(net, {DDP}):\n        net.module.f()",
        ),
        (
            f"net = nn.DataParallel(net)\n    a = isinstance(net, (nn.DataParallel, {DDP}))",
            f"net = {DDP}(net.npu(), {IDS})\n    a = isinstance(net, {DDP})",
        ),
        (
            f"net = nn.DataParallel(net)\n    a = isinstance(net, (nn.DataParallel, {DDP}, Other))",
            f"net = {DDP}(net.npu(), {IDS})\n    a = isinstance(net, ({DDP}, Other))",
        ),
        (
            f"net = nn.DataParallel(net)\n    a = type(net) is nn.DataParallel, type(net) in (nn.DataParallel, {DDP})",
            f"net = {DDP}(net.npu(), {IDS})\n    a = type(net) is {DDP}, type(net) in ({DDP},)",
        ),
        (
            "self.net = nn.DataParallel(self.net)\n    x: nn.DataParallel = self.net",
            f"self.net = {DDP}(self.net.npu(), {IDS})\n    x: {DDP} = self.net",
        ),
        # A comment keeps a line.
        (
            "a = nn.DataParallel(a)  # gpu2npu: skip\n    b = nn.DataParallel(b)",
            f"a = nn.DataParallel(a)  # gpu2npu: skip\n    b = {DDP}(b.npu(), {IDS})",
        ),
    ],
)
def test_what_surrounds_a_wrap(body, as_written, after):
    source = f"{HEAD}\ndef part():\n    {body}\n    return net\n{TAIL}"
    assert after({"a.py": source}) == {"a.py": f"{HEAD}\ndef part():\n    {as_written}\n    return net\n{TAIL_AFTER}"}


@pytest.mark.parametrize(
    ("statement", "name", "new_statement", "new_name"),
    [
        (
            "from torch.nn import DataParallel",
            "DataParallel",
            "from torch.nn.parallel import DistributedDataParallel",
            "",
        ),
        ("from torch.nn import DataParallel as DP", "DP", "from torch.nn.parallel import DistributedDataParallel", ""),
        (
            "from torch.nn.parallel import DataParallel, replicate",
            "DataParallel",
            "from torch.nn.parallel import DistributedDataParallel, replicate",
            "",
        ),
        (
            "from torch.nn.parallel import DataParallel, DistributedDataParallel as DDP",
            "DataParallel",
            "from torch.nn.parallel import DistributedDataParallel as DDP",
            "DDP",
        ),
        (
            "from torch.nn import Module, DataParallel",
            "DataParallel",
            "from torch.nn import Module",
            DDP,
        ),
    ],
)
def test_an_imported_name(statement, name, new_statement, new_name, after):
    source = f"{HEAD}{statement}\n\ndef part():\n    return {name}(net)\n{TAIL}"
    new_name = new_name or "DistributedDataParallel"
    assert after({"a.py": source}) == {
        "a.py": f"{HEAD}{new_statement}\n\ndef part():\n    return {new_name}(net.npu(), {IDS})\n{TAIL_AFTER}"
    }


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("from lib import Wrap", "Wrap"),
        ("from lib import Wrap as W", "W"),
        ("import lib", "lib.Wrap"),
        ("from lib import *", "Wrap"),
        ("from middle import Wrap", "Wrap"),
    ],
)
@pytest.mark.parametrize(
    "lib", ["from torch.nn import DataParallel as Wrap\n", "import torch.nn as nn\nWrap = nn.DataParallel\n"]
)
def test_a_wrap_under_the_name_that_another_file_gives_it(statement, call, lib, after):
    source = PLAIN.replace("nn.DataParallel", call).replace("import torch\n", f"import torch\n{statement}\n", 1)
    files = {"train.py": source, "lib.py": lib, "middle.py": "from lib import Wrap\n"}
    changed = after(files)
    assert changed.keys() == {"train.py"}
    assert "model = nn.parallel.DistributedDataParallel(model.cuda()," in changed["train.py"]


def test_a_name_from_a_star_import_of_torch_is_known(after):
    source = PLAIN.replace("from torch import nn", "from torch.nn import *").replace("nn.", "")
    text = after({"a.py": source})["a.py"]
    assert "from torch.nn.parallel import DistributedDataParallel\n" in text
    assert f"model = DistributedDataParallel(model.cuda(), {IDS})\n" in text
    assert after({"a.py": text}) == {}
    assert after({"a.py": "class DataParallel(list): pass\n" + source}) == {}


def test_where_a_part_was_wrapped_the_whole_model_is_and_names_in_its_state_dict_stay(after):
    body = """    net = Net()
    net.features = nn.DataParallel(net.features)
    net.head = nn.DataParallel(net.head)
    net.cuda()
    torch.save(net.state_dict(), path)
    evaluate(net)
    return net(x)

def evaluate(model):
    model.eval()
    return model.metric(model(x))
"""
    as_written = f"""    net = Net()
    net.features = nn.Sequential(OrderedDict(module=net.features))
    net.head = nn.Sequential(OrderedDict(module=net.head))
    net.cuda()
    net = {DDP}(net, {IDS})
    if dist.get_rank() == 0:
        torch.save(net.module.state_dict(), path)
    evaluate(net)
    return net(x)

def evaluate(model):
    model.eval()
    return model.module.metric(model(x))
"""
    head = "from collections import OrderedDict\n" + HEAD
    source = f"{head}\ndef part():\n{body}{TAIL}"
    assert after({"a.py": source}) == {"a.py": f"{head}\ndef part():\n{as_written}{TAIL_AFTER}"}


def test_every_script_that_comes_to_a_wrap_has_its_process_group_and_no_other_script(after):
    model = (
        "import torch.nn as nn\n\ndef build(net):\n    return nn.DataParallel(net.cuda())\n\ndef other():\n    pass\n"
    )
    train = f"{HEAD}from model import build as make\n\ndef part():\n    return make(net)\n{TAIL}"
    evaluate = f"{HEAD}from model import build\n\nif __name__ == '__main__': build(net)\n"
    prepare = f"{HEAD}from model import other\n\nif __name__ == '__main__':\n    other()\n"
    result = after({"model.py": model, "train.py": train, "evaluate.py": evaluate, "prepare.py": prepare})
    assert sorted(result) == ["evaluate.py", "model.py", "train.py"]
    assert f"return {DDP}(net.cuda(), {IDS})" in result["model.py"]
    assert result["train.py"].endswith(TAIL_AFTER)
    assert result["evaluate.py"].endswith("    build(net)\n    dist.destroy_process_group()\n")


def test_code_that_another_script_shares_works_without_a_process_group_or_has_one(after):
    shared = """import torch
from torch.utils.data import DataLoader

def save(net, path):
    torch.save(net.state_dict(), path)

def loader(data):
    return DataLoader(data, 8, shuffle=True)
"""
    train = """from shared import loader, save

def part():
    net = nn.DataParallel(n)
    save(net, 'x')
    for batch in loader(data):
        net(batch).backward()
        optimizer.step()
"""
    convert = f"{HEAD}from shared import save\n\nif __name__ == '__main__':\n    save(net, 'y')\n"
    look = f"{HEAD}from shared import loader\n\nif __name__ == '__main__':\n    print(loader(data))\n"
    result = after({"shared.py": shared, "train.py": HEAD + train + TAIL, "convert.py": convert, "look.py": look})
    rank_zero = "    if not dist.is_initialized() or dist.get_rank() == 0:\n        torch.save(net.state_dict(), path)"
    assert rank_zero in result["shared.py"]
    assert "convert.py" not in result
    assert "init_process_group('hccl')" in result["look.py"]


def test_the_process_group_comes_before_the_first_use_of_the_card(after):
    source = PLAIN.replace("\nmodel =", "args = parse()\nmodel =", 1).replace("loss =", "import sys\nloss =")
    text = after({"train.py": source})["train.py"]
    assert text.index("init_process_group") < text.index("args = parse()") < text.index("import sys\nloss")


@pytest.mark.parametrize(
    ("body", "buffers"),
    [
        ("    loss = net(a) + net(b)\n    loss.backward()\n", ", broadcast_buffers=False"),
        ("    net(a).backward()\n    net(b).backward()\n", ""),
        ("    loss = net(a)\n    loss.backward()\n    net(b)\n    net(c)\n", ""),
    ],
)
def test_buffers_stay_as_they_are_between_two_calls_before_one_backward(body, buffers, after):
    source = f"{HEAD}\ndef part():\n    net = nn.DataParallel(net.cuda())\n{body}{TAIL}"
    as_written = f"{HEAD}\ndef part():\n    net = {DDP}(net.cuda(), {IDS}{buffers})\n{body}{TAIL_AFTER}"
    assert after({"a.py": source}) == {"a.py": as_written}


def test_a_copy_of_a_wrapped_model_goes_to_the_cpu(after):
    body = "    net = nn.DataParallel(net)\n    torch.save(net.module.cpu().state_dict(), 'a.pt')\n    net.cuda()\n"
    text = after({"a.py": f"{HEAD}\ndef part():\n{body}{TRAINS}{TAIL}"})["a.py"]
    assert "        torch.save(deepcopy(net.module).cpu().state_dict(), 'a.pt')\n" in text
    assert "from copy import deepcopy\n" in text
    assert after({"a.py": text}) == {}


def test_the_model_of_a_script_for_one_card_goes_to_the_cpu_as_a_copy(after):
    source = PLAIN.replace("nn.DataParallel(model, device_ids=[0, 1])", "model")
    source += "torch.save(model.to('cpu').state_dict(), 'a.pt')\n"
    text = after({"a.py": source}, CodemodChoice(main="a.py"))["a.py"]
    assert "    torch.save(deepcopy(model.module).to('cpu').state_dict(), 'a.pt')\n" in text


REPLICAS = """from torch.nn import DataParallel


def patch(wrapped):
    assert isinstance(wrapped, DataParallel)
    old = wrapped.replicate
    return old
"""


def test_code_that_needs_the_replicas_of_data_parallel_is_reported_with_the_calls_of_it(after, findings):
    files = {"a.py": f"from b import patch\n{PLAIN}\npatch(model)\n", "b.py": REPLICAS}
    assert "b.py" not in after(files)
    assert sorted(path for path, _, message in findings(files) if "SyncBatchNorm" in message) == ["a.py", "b.py"]


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ("assert not isinstance(wrapped, DataParallel)", []),
        ("if wrapped.cards > 1:\n        assert isinstance(wrapped, DataParallel)", ["b.py"]),
    ],
)
def test_a_function_needs_data_parallel_where_it_always_asserts_it(code, paths, findings):
    text = REPLICAS.replace("assert isinstance(wrapped, DataParallel)", code)
    files = {"a.py": f"from b import patch\n{PLAIN}\npatch(model)\n", "b.py": text}
    assert [path for path, _, message in findings(files) if "SyncBatchNorm" in message] == paths


WORKERS = """import os
import torch
import torch.multiprocessing as mp
from torch import nn


def choose(card):
    torch.cuda.set_device(card)
    torch.zeros(3, device=f'cuda:{card}')


def attack(count, queue):
    choose(mp.current_process()._identity[0] % count)
    queue.put(1)


def search(queue):
    with mp.Pool(2, attack, (torch.cuda.device_count(), queue)) as pool:
        pool.close()
"""


def test_a_process_that_the_program_starts_has_the_card_that_it_gets_from_there(after, findings):
    files = {"train.py": f"{PLAIN}\nfrom work import search\nsearch(None)\n", "work.py": WORKERS}
    assert "work.py" not in after(files)
    assert [place for place in findings(files) if place[0] == "work.py"] == []
    called = {**files, "work.py": f"{WORKERS}    choose(args.gpu)\n"}
    assert "set_device(int(os.environ['LOCAL_RANK']))" in after(called)["work.py"]
