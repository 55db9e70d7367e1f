"""Rules for arguments of calls that come out of a dictionary."""

import pytest

from gpu2npu import migrate_source
from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.rulebook import load_rulebook


@pytest.mark.parametrize(
    ("value", "is_reported"), [("'cuda'", False), ("rank", True), ("torch.cuda.current_device()", True), ("x", False)]
)
def test_a_number_as_a_device_that_a_dictionary_gives(value: str, is_reported: bool) -> None:
    code = f"import torch\n\n\ndef f(x, rank):\n    return torch.zeros(2, **{{'device': {value}}})\n"
    found = [finding.rule for _, finding, _ in migrate_source(code, version="2.1.0").findings]
    assert (found == ["device-integer-argument"]) is is_reported


@pytest.mark.parametrize(
    ("parameters", "is_reported"),
    [
        ("net, n=0", True),
        ("net, *, n=1", True),
        ("net, n", False),
        ("net, n=None", False),
        ("net, m=0, n='cpu'", False),
    ],
)
@pytest.mark.parametrize("use", ["net.to(n)", "torch.zeros(2, device=n)", "torch.device(n)"])
def test_what_is_a_number_by_default_may_be_that_of_a_device(parameters: str, use: str, is_reported: bool) -> None:
    code = f"import torch\n\n\ndef f({parameters}):\n    return {use}\n"
    for version, expected in (("2.1.0", is_reported), ("2.7.1", False)):
        found = migrate_source(code, version=version).findings
        assert any(finding.rule.startswith("device-integer") for _, finding, _ in found) is expected


@pytest.mark.parametrize(
    ("use", "is_written"), [("x.to(device)", True), ("torch.ones(1, device=device)", True), ("print(device)", False)]
)
def test_a_name_that_has_a_number_or_a_device(use: str, is_written: bool) -> None:
    code = "import torch\n\n\ndef f(x):\n    rank = torch.distributed.get_rank()\n    if x is not None:\n"
    code += "        device = rank % 4\n    else:\n"
    migrated = migrate_source(f"{code}        device = 'cuda'\n    {use}\n    return x.to(device)\n", version="2.1.0")
    assert ('device = f"npu:{rank % 4}"' in migrated.text) is is_written
    assert any("may be one here" in finding.message for _, finding, _ in migrated.findings) is not is_written


@pytest.mark.parametrize("use", ["x.to(place)", "torch.ones(1, device=place)"])
@pytest.mark.parametrize("text", ["f'cuda:{card}'", "'cuda:' + str(card)", "f'cuda:{card + 1}'"])
def test_a_number_in_the_name_of_a_device_stays_one(text: str, use: str) -> None:
    code = "import torch\n\n\ndef f(x):\n    place = 'cpu'\n    if x is not None:\n"
    code += f"        card = torch.cuda.current_device()\n        place = {text}\n    return {use}\n"
    migrated = migrate_source(code, version="2.1.0")
    assert "card = torch.npu.current_device()" in migrated.text
    assert f"place = {text}".replace("cuda", "npu") in migrated.text
    assert not migrated.findings


@pytest.mark.parametrize(("given", "is_written"), [("0", True), ("'cuda'", False), ("x.device", False)])
def test_a_parameter_that_is_given_a_device_is_no_number(given: str, is_written: bool) -> None:
    code = "import torch\n\n\ndef move(x, card: int):\n    return x.to(card)\n\n\ndef f(x: torch.Tensor):\n"
    migrated = migrate_source(f"{code}    return move(x, {given})\n", version="2.1.0")
    assert ("npu:{card}" in migrated.text) is is_written


def test_a_number_for_a_function_of_torch_npu_stays() -> None:
    code = "import torch\nimport torch_npu\n\nn = torch.npu.current_device()\nstream = torch.npu.Stream(device=n)\n"
    assert migrate_source(code, version="2.1.0").text == code


def test_a_number_where_a_name_is_none_otherwise_is_written_where_it_is_assigned() -> None:
    code = "import torch\n\n\ndef f(x):\n    device = None\n    if x.is_cuda:\n        device = x.get_device()\n"
    migrated = migrate_source(f"{code}    return torch.zeros(2, device=device)\n", version="2.1.0")
    assert 'device = f"npu:{x.get_device()}"' in migrated.text
    assert "device=device" in migrated.text


@pytest.mark.parametrize(
    ("given", "is_reported"),
    [
        ("torch.cuda.current_device()", True),
        ("card()", True),
        ("number()", True),
        ("x.device", False),
        ('f"cuda:{card()}"', False),
    ],
)
def test_the_current_cards_number_is_followed_to_a_function_of_another_file(project, given, is_reported) -> None:
    move = "import torch\n\n\ndef move(xs, device):\n    return map(lambda x: x.to(device), xs)\n"
    use = "import torch\nfrom torch.cuda import current_device as card\nfrom pk.a import move\n"
    use += "number = torch.cuda.current_device\n\n\ndef f(x, xs):\n"
    use += f"    move(xs, {given})\n"
    found = project({"pk/__init__.py": "", "pk/a.py": move, "pk/b.py": use})["pk/a.py"].findings
    assert ("device-integer-to" in [each.rule for each in found]) is is_reported


def test_the_current_cards_number_is_found_after_values_are_forgotten() -> None:
    texts = {
        "a.py": "import torch\n\n\ndef move(xs, device):\n    return map(lambda x: x.to(device), xs)\n",
        "b.py": "import torch\nfrom a import move\n\n\ndef f(xs):\n    move(xs, torch.cuda.current_device())\n",
        "c.py": "import torch\n\n\ndef go(xs, spot):\n    return map(lambda x: x.to(spot), xs)\n",
    }
    sources = {path: text.encode() for path, text in texts.items()}
    context = ProjectContext(files=frozenset(sources), read=sources.__getitem__, version="2.1.0")
    for path in ("a.py", "c.py", "a.py"):
        found = [each.rule for each in migrate_file(sources[path], path, load_rulebook(), context).findings]
        assert ("device-integer-to" in found) is (path == "a.py")
        context.project.values = None  # as where these are many


@pytest.mark.parametrize(
    ("flags", "code", "written"),
    [
        ("'--gpu'", "x.to(args.gpu)", 'x.to(f"npu:{args.gpu}")'),
        ("'--gpu', '-g'", "x.to(args.gpu)", 'x.to(f"npu:{args.gpu}")'),
        ("'-g', '--gpu'", "x.to(args.gpu)", 'x.to(f"npu:{args.gpu}")'),
        ("'--gpu'", "d = args.gpu if torch.cuda.is_available() else 'cpu'\nx.to(d)", 'd = f"npu:{args.gpu}" if'),
        ("'--gpu'", "x.to('cpu' if args.gpu < 0 else args.gpu)", 'else f"npu:{args.gpu}")'),
        ("'--gpu'", "x.to(args.gpu // 2)", 'x.to(f"npu:{args.gpu // 2}")'),
        ("'--gpu'", "i = args.gpu % args.other\nx.to(i)", 'x.to(f"npu:{i}")'),
        ("'--gpu'", "args.gpu = args.gpu % torch.cuda.device_count()\nx.to(args.gpu)", 'x.to(f"npu:{args.gpu}")'),
        ("'--gpu'", "args.gpu = max(args.gpu, 0)\nx.to(args.gpu)", 'x.to(f"npu:{args.gpu}")'),
        ("'--gpu'", "i = max(args.gpu, args.text)\nx.to(i)", "x.to(i)"),
        ("'--gpu'", "x.to(args.text)", "x.to(args.text)"),
        ("'--gpu'", "def f(d): x.to(d)\nf(pool.next())\nf(args.gpu)", "x.to(d)"),
        ("'--gpu'", "y = ((x + 1) % 64).to('cuda')\ndef f(y): x.to(y.device)\nf(y[:, 1])", "x.to(y.device)"),
    ],
)
def test_an_option_that_is_a_whole_number_is_one_wherever_it_is_given(flags: str, code: str, written: str) -> None:
    parser = f"p = argparse.ArgumentParser()\np.add_argument({flags}, type=int)\np.add_argument('--text', type=str)\n"
    parser += "p.add_argument('--other', type=int)\nargs = p.parse_args()\nx = torch.zeros(2)\n"
    assert written in migrate_source(f"import argparse\nimport torch\n{parser}{code}\n", version="2.1.0").text


PARSER_OF_SELF = """
class Options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
        self.parser.add_argument("--gpu", type=int)

    def parse(self):
        self.opt = self.parser.parse_args()
        return self.opt


opt = Options().parse()
"""
OWN_PARSER = """
class Options(argparse.ArgumentParser):
    def __init__(self):
        super().__init__()
        self.add_argument("--gpu", type=int)


opt = Options().parse_args()
"""


@pytest.mark.parametrize("options", [PARSER_OF_SELF, OWN_PARSER])
def test_so_is_one_of_a_parser_that_is_an_attribute_or_of_a_project_s_own_class(options: str) -> None:
    text = migrate_source(
        f"import argparse\nimport torch\n{options}x = torch.zeros(2).to(opt.gpu)\n", version="2.1.0"
    ).text
    assert 'to(f"npu:{opt.gpu}")' in text
