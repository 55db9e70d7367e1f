"""Call and argument rules: templates, values, removals."""

from __future__ import annotations

import pytest

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.records import FindingKind, Operation
from tests.kinds.conftest import text_of

MOVE = {"id": "move", "match": {"call": "house.gpu.move"}, "then": {"replace": "{0}.npu({device})", "imports": "house"}}


def test_a_call_is_replaced_by_its_template_with_its_arguments_migrated(migrate_with) -> None:
    before = "from house.gpu import move\ny = move(x.cuda(), device=torch.cuda.current_device())\n"
    result = migrate_with([MOVE], before)
    assert text_of(result, before).splitlines()[-1] == "y = x.npu().npu(torch.npu.current_device())"
    assert "move" in {change.rule for change in result.changes}


@pytest.mark.parametrize(
    ("template", "call", "after"),
    [
        ("{0}.npu()", "f(a + b)", "(a + b).npu()"),
        ("g({0})", "f(a + b)", "g(a + b)"),
        ("g({args})", "f(a, *b, c=1)", "g(a, *b, c=1)"),
        ("g({args})", "f()", "g()"),
        ("g({1}, {0})", "f(a, b if c else d)", "g(b if c else d, a)"),
        ("{0} + 1", "f(a) * 2", "(a + 1) * 2"),
        ("{0} + 1", "f(a)", "a + 1"),
        ("{0}", "f(a + b) * 2", "(a + b) * 2"),
        ("dict({{}}, k={k})", "f(k=1)", "dict({}, k=1)"),
        ("g({0})", "f(\n    a,  # first\n)", "f(\n    a,  # first\n)"),
        ("g({0})", "f('#')", "g('#')"),
        ("new({args}, k=1)", "f()", "new(k=1)"),
        ("new({args}, k=1, **{{'n': 2, 'm': 3}})", "f()", "new(k=1, **{'n': 2, 'm': 3})"),
        ("new(1, {args})", "f()", "new(1)"),
        ("{0} + 1", "f(2)", "2 + 1"),
        ("1 + {0}", "f(2)", "1 + 2"),
        ("1 + {0}", "f(-2)", "1 + (-2)"),
        ("{0} .npu()", "f(1)", "(1) .npu()"),
        ("{0} + 1", "f(a)(b)", "(a + 1)(b)"),
        ("g({0})", "f((y := 1))", "g((y := 1))"),
        ("g({0})", "f(y := 1)", "g((y := 1))"),
        ("g({args})", "f(a for a in b)", "g((a for a in b))"),
        ("g({args})", "f((a for a in b), 1)", "g((a for a in b), 1)"),
        ("g('a', {0})", "f\"{f(x)}\" 'b'", "f\"{g('a', x)}\" 'b'"),
        ("{0}.npu()", "f(1)", "(1).npu()"),
        ("g({0}, {0})", "f(a)", "g(a, a)"),
        ("g('a', {0})", "[f'{f(x)}']", "[f'{g(\"a\", x)}']"),
        ("g('a', {0})", "f'''{f(x)}'''", "f'''{g('a', x)}'''"),
        ("{{'a': {0}}}", "f'''{f(x)}'''", "f'''{({'a': x})}'''"),
    ],
)
def test_templates_keep_the_meaning(migrate_with, template: str, call: str, after: str) -> None:
    rule = {"id": "f", "match": {"call": "house.f"}, "then": {"replace": template}}
    before = f"from house import f\nx = {call}\n"
    assert text_of(migrate_with([rule], before), before) == f"from house import f\nx = {after}\n"


def test_a_method_of_any_object_is_matched_by_a_star(migrate_with) -> None:
    rule = {"id": "push", "match": {"call": "*.to_gpu"}, "then": {"replace": "{receiver}.npu({args})"}}
    before = "y = (a or b).to_gpu(0).cuda()\n"
    assert text_of(migrate_with([rule], before), before) == "y = (a or b).npu(0).npu()\n"
    rule["then"] = {"replace": "npu({args}, of={receiver}, lazy=True)"}
    assert text_of(migrate_with([rule], "a.to_gpu()\n"), "") == "npu(of=a, lazy=True)\n"


def test_a_renamed_call_keeps_the_rest(migrate_with) -> None:
    rule = {"id": "r", "match": {"call": "*.gpu_info"}, "then": {"rename": "npu_info"}}
    before = "gpu_info(1); torch.cuda.Stream().gpu_info(x.cuda())\n"
    assert text_of(migrate_with([rule], before), before) == "npu_info(1); torch.npu.Stream().npu_info(x.npu())\n"


def test_a_call_without_the_argument_that_a_template_needs_is_reported(migrate_with) -> None:
    result = migrate_with([MOVE], "from house.gpu import move\nmove(x)\n")
    assert result.content is None
    assert [(finding.rule, finding.kind) for finding in result.findings] == [("move", FindingKind.REVIEW)]


@pytest.mark.parametrize(
    ("template", "call"),
    [
        ("g({0}, {0})", "f(next(batches))"),
        ("g({args}) or h({args})", "f(1, k=[(i := 2)])"),
        ("g('a', \"b'\", {0})", "f'{f(x)}'"),
        ("g('a', {0})", "f'{f\"{f(x)}\"}'"),
        ("g('\\\\', {0})", "f'''{f(x)}'''"),
        ("g(\n{0})", "f'{f(x)}'"),
    ],
)
def test_a_template_that_would_change_what_the_code_does_is_reported(migrate_with, template: str, call: str) -> None:
    rule = {"id": "f", "match": {"call": "house.f"}, "then": {"replace": template}}
    result = migrate_with([rule], f"from house import f\nx = {call}\n")
    assert result.content is None
    assert [(finding.rule, finding.kind) for finding in result.findings] == [("f", FindingKind.REVIEW)]


def test_a_function_of_the_same_name_elsewhere_is_another(migrate_with) -> None:
    assert migrate_with([MOVE], "from other import move\nmove(x, device=1)\n").content is None


ARGUMENT = {"id": "arg", "match": {"argument": "engine", "of": "house.Trainer", "value": "gpu"}}


@pytest.mark.parametrize(
    ("then", "call", "after"),
    [
        ({"rename": "npu"}, "Trainer(1, engine='gpu')", "Trainer(1, engine='npu')"),
        ({"rename": "npu"}, "Trainer(1, engine='cpu')", "Trainer(1, engine='cpu')"),
        ({"replace": "pick({value})"}, "Trainer(engine='gpu')", "Trainer(engine=pick('gpu'))"),
        ({"replace": "device='npu'"}, "Trainer(engine='gpu')", "Trainer(device='npu')"),
        ({"remove": True}, "Trainer(1, engine='gpu')", "Trainer(1)"),
        ({"remove": True}, "Trainer(engine='gpu', n=1)", "Trainer(n=1)"),
        ({"remove": True}, "Trainer(engine='gpu',)", "Trainer()"),
        ({"remove": True}, "Trainer(\n    1,\n    engine='gpu',\n)", "Trainer(\n    1,\n)"),
        ({"remove": True}, "Trainer(\n    1,\n    engine='gpu'\n)", "Trainer(\n    1\n)"),
        ({"remove": True}, "Trainer(\n    engine='gpu',\n)", "Trainer()"),
        ({"remove": True}, "Trainer(\n    engine='gpu')", "Trainer()"),
        ({"remove": True}, "Trainer(engine='gpu',\n)", "Trainer()"),
        ({"remove": True}, "Trainer(engine='gpu'\n  )", "Trainer()"),
        ({"remove": True}, "Trainer(  engine='gpu'  )", "Trainer()"),
        ({"remove": True}, "Trainer(engine='gpu' \\\n)", "Trainer()"),
        ({"remove": True}, "Trainer(engine='gpu'\n  ,)", "Trainer()"),
        ({"remove": True}, "Trainer(\n  engine='gpu'\n  , n=1)", "Trainer(\n  n=1)"),
        ({"remove": True}, "Trainer(\n  engine='gpu'\n  ,  # c\n  n=1)", "Trainer(\n  # c\n  n=1)"),
        ({"remove": True}, "Trainer(\n  engine='gpu',\n# c\n  n=1)", "Trainer(\n  # c\n  n=1)"),
        ({"remove": True}, "Trainer(\n  1,  # a\n  engine='gpu'\n  , n=2)", "Trainer(\n  1,  # a\n  n=2)"),
        ({"remove": True}, "Trainer(\n  1,  # a\n  engine='gpu'\n  ,)", "Trainer(\n  1,  # a\n  )"),
        ({"remove": True}, "Trainer(1\n  , engine='gpu'  # c\n)", "Trainer(1  # c\n)"),
        ({"remove": True}, "Trainer(1, engine='gpu'  # c\n  ,)", "Trainer(1,  # c\n  )"),
        ({"remove": True}, "Trainer(\n  engine='gpu',  # c\n  n=1,\n)", "Trainer(\n  # c\n  n=1,\n)"),
        ({"remove": True}, "Trainer(\n  1,  # a\n  engine='gpu',  # c\n)", "Trainer(\n  1,  # a\n  # c\n)"),
        ({"remove": True}, "Trainer(\n  1,  # a\n  engine='gpu'\n)", "Trainer(\n  1,  # a\n)"),
        ({"remove": True}, "Trainer(\n  1,\n  # a\n  engine='gpu',\n)", "Trainer(\n  1,\n  # a\n)"),
        ({"remove": True}, "Trainer(1, engine='gpu',  # c\n  n=1)", "Trainer(1,  # c\n  n=1)"),
        ({"remove": True}, "Trainer(engine='gpu',  # c\n  n=1)", "Trainer(  # c\n  n=1)"),
        ({"remove": True}, "Trainer(1,  # a\n  engine='gpu')", "Trainer(1,  # a\n  )"),
        ({"remove": True}, "Trainer(1, engine='gpu'  # c\n)", "Trainer(1  # c\n)"),
        ({"remove": True}, "Trainer(\n  # c\n  engine='gpu',\n)", "Trainer(\n  # c\n)"),
        ({"remove": True}, "Trainer(\n  engine='gpu'  # c\n  , n=1)", "Trainer(\n  # c\n  n=1)"),
        ({"remove": True}, "Trainer(\n  engine='gpu'\n  # c\n  , n=1)", "Trainer(\n  # c\n  n=1)"),
        ({"remove": True}, "Trainer(1,  # a\n  engine='gpu'  # c\n  , n=1)", "Trainer(1,  # a\n  # c\n  n=1)"),
        ({"remove": True}, "Trainer(engine='gpu'  # c\n  ,)", "Trainer(  # c\n  )"),
    ],
)
def test_argument_rules(migrate_with, then, call: str, after: str) -> None:
    before = f"from house import Trainer\nt = {call}\n"
    result = migrate_with([{**ARGUMENT, "then": then}], before)
    assert text_of(result, before) == f"from house import Trainer\nt = {after}\n"
    if "remove" in then:
        assert [change.operation for change in result.changes] == [Operation.DELETE]


def test_neighbouring_arguments_go_together(migrate_with) -> None:
    rules = [
        {"id": name, "match": {"argument": name, "of": "*.run"}, "then": {"remove": True}} for name in ("a", "b", "d")
    ]
    before = "run(0, a=1, b=2, c=3, d=4)\nrun(a=1, b=2)\n"
    assert text_of(migrate_with(rules, before), before) == "run(0, c=3)\nrun()\n"
    apart = "run(a=1,  # one\n    b=2, c=3)\n"
    assert text_of(migrate_with(rules, apart), apart) == "run(  # one\n    c=3)\n"


def test_arguments_by_position_and_the_white_list(migrate_with) -> None:
    rule = {
        "id": "p",
        "match": {"argument": 1, "of": "*.put", "unless": ["'keep'"]},
        "then": {"replace": "'npu'"},
    }
    before = "put(x, where)\nput(x, 'keep')\nput(x)\nput(*x, y)\nput(x, w=1)\n"
    after = "put(x, 'npu')\nput(x, 'keep')\nput(x)\nput(*x, y)\nput(x, w=1)\n"
    assert text_of(migrate_with([rule], before), before) == after


def test_a_keyword_of_any_call(migrate_with) -> None:
    rule = {
        "id": "attention",
        "match": {"argument": "attn", "of": "*", "value": "flash"},
        "then": {"report": {"kind": "review", "message": "Look."}},
    }
    result = migrate_with([rule], "load(1, attn='flash')\nload(attn='eager')\n")
    assert [(finding.span.start_line, finding.rule) for finding in result.findings] == [(1, "attention")]


def test_the_module_that_a_rule_needs_is_imported_without_torch_too(migrate_with) -> None:
    before = "import os\nimport house.gpu as hg\ny = hg.move(x, device=1)\n"
    rule = {**MOVE, "then": {"replace": "npukit.move({0})", "imports": "npukit"}}
    after = "import os\nimport npukit\nimport house.gpu as hg\ny = npukit.move(x)\n"
    assert text_of(migrate_with([rule], before), before) == after


def test_the_number_of_arguments_can_distinguish_two_calls(migrate_with) -> None:
    rule = {"id": "n", "match": {"call": "house.on", "arguments": 0}, "then": {"replace": "npu_on()"}}
    before = "import house\na = house.on()\nb = house.on('cpu')\n"
    assert text_of(migrate_with([rule], before), before) == "import house\na = npu_on()\nb = house.on('cpu')\n"


def test_a_function_that_is_bound_in_the_file_is_not_renamed_at_the_call_alone(migrate_with) -> None:
    rule = {"id": "r", "match": {"call": "*.gpu_info"}, "then": {"rename": "npu_info"}}
    for text in ("from lib import gpu_info\ngpu_info()\n", "def gpu_info(): ...\ngpu_info()\n"):
        result = migrate_with([rule], text)
        assert result.content is None
        assert [finding.rule for finding in result.findings] == ["r"]


def test_nothing_is_reported_of_what_a_rule_took_out(migrate_with) -> None:
    rule = {"id": "m", "match": {"argument": "mode", "of": "*.run"}, "then": {"remove": True}}
    result = migrate_with([rule], "run(1, mode='cuda')\n")
    assert (result.content, result.findings) == (b"run(1)\n", ())


def test_of_a_value_that_a_rule_is_about_nothing_else_is_reported(rulebook) -> None:
    text = b"import lightning\n\nlightning.Trainer(accelerator='cuda')\n"
    result = migrate_source(text, "train.py", rulebook, ProjectContext())
    assert [finding.rule for finding in result.findings] == ["lightning-accelerator-cuda"]


WITHOUT = {
    "by keyword": ("lib.scale(device=d)\n", 0),
    "by position": ("lib.scale(d)\n", 0),
    "unpacked": ("lib.scale(**d)\n", 0),
    "left to its default": ("lib.scale(power=2)\n", 1),
    "no argument": ("lib.scale()\n", 1),
}


@pytest.mark.parametrize(("call", "number"), WITHOUT.values(), ids=WITHOUT)
def test_a_call_without_an_argument(migrate_with, call: str, number: int) -> None:
    report = {"kind": "review", "message": "Say which."}
    rule = {"id": "r", "match": {"call": "lib.scale", "without": "device"}, "then": {"report": report}}
    assert len(migrate_with([rule], f"import lib\n\n{call}").findings) == number


AT_ONE = {
    "the one before it": ("lib.scale(x)\n", 1),
    "the one before it, by keyword": ("lib.scale(x=x)\n", 1),
    "by position": ("lib.scale(x, d)\n", 0),
    "by keyword": ("lib.scale(x, device=d)\n", 0),
    "unpacked": ("lib.scale(*x)\n", 0),
}


@pytest.mark.parametrize(("call", "number"), AT_ONE.values(), ids=AT_ONE)
def test_a_call_without_an_argument_of_a_position(migrate_with, call: str, number: int) -> None:
    report = {"kind": "review", "message": "Say which."}
    match = {"call": "lib.scale", "without": "device", "position": 1}
    rule = {"id": "r", "match": match, "then": {"report": report}}
    assert len(migrate_with([rule], f"import lib\n\n{call}").findings) == number


# In a template the name of a package is spelled as the file spells it; where nothing does, it is imported.
SPELLED = {
    "by itself": (
        "import torch\ntorch.is_autocast_enabled()\n",
        "import torch\nimport torch_npu\ntorch.npu.is_autocast_enabled()\n",
    ),
    "under another name": (
        "import torch as th\nif 1 + th.is_autocast_enabled(): ...\n",
        "import torch as th\nimport torch_npu\nif 1 + th.npu.is_autocast_enabled(): ...\n",
    ),
    "not at all": (
        "from torch import is_autocast_enabled\nis_autocast_enabled()\n",
        "from torch import is_autocast_enabled\nimport torch\nimport torch_npu\ntorch.npu.is_autocast_enabled()\n",
    ),
    "in another function": (
        "def f():\n    import torch\ndef g():\n    from torch import is_autocast_enabled\n    is_autocast_enabled()\n",
        "def f():\n    import torch\ndef g():\n    from torch import is_autocast_enabled\n    import torch\n"
        "    import torch_npu\n    torch.npu.is_autocast_enabled()\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), SPELLED.values(), ids=SPELLED)
def test_a_template_spells_names_that_are_bound(migrate, before: str, after: str) -> None:
    assert sorted(migrate(before).splitlines()) == sorted(after.splitlines())


def test_what_a_template_for_an_argument_spells_is_bound(migrate_with) -> None:
    match = {"argument": "device", "of": "torch.empty"}
    rule = {"id": "d", "match": match, "then": {"replace": "torch.device({value}, 'torch.x')"}}
    result = migrate_with([rule], "from torch import empty\nempty(3, device=place)\n")
    assert (
        text_of(result, "")
        == "from torch import empty\nimport torch\nempty(3, device=torch.device(place, 'torch.x'))\n"
    )


def test_an_argument_that_was_given_for_the_npu_stays(migrate) -> None:
    given = "experimental_config=torch_npu.profiler._ExperimentalConfig() if on_npu else None"
    before = f"import torch\nimport torch_npu\np = torch.profiler.profile({given})\n"
    assert migrate(before) == before.replace("torch.profiler.profile", "torch_npu.profiler.profile")


CARDS = {"id": "cards", "match": {"argument": "cards", "of": "house.Trainer"}, "then": {"replace": "npus={value}"}}


@pytest.mark.parametrize(
    "text",
    [
        "class Ours(Trainer):\n    def __init__(self):\n        super().__init__(1, cards=2)\n",
        "class Ours(Trainer):\n    def __init__(self):\n        super(Ours, self).__init__(cards=2)\n",
        "class Ours(Trainer):\n    def __init__(self):\n        Trainer.__init__(self, cards=2)\n",
        "class Ours(ABC, Trainer[int]):\n    def __init__(self):\n        super().__init__(cards=2)\n",
        "class Base(Trainer): ...\nclass Ours(Base):\n    def __init__(self):\n        super().__init__(cards=2)\n",
        "class Ours(Trainer): ...\nOurs(cards=2)\n",
    ],
)
def test_a_class_is_given_arguments_through_its_subclasses(migrate_with, text: str) -> None:
    before = f"from abc import ABC\nfrom house import Trainer\n{text}"
    assert text_of(migrate_with([CARDS], before), before) == before.replace("cards=", "npus=")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class Ours(Trainer):\n    def __init__(self, cards): ...\nOurs(cards=2)\n", 0),
        (
            "class Base(Trainer):\n    def __init__(self, cards): ...\n"
            "class Ours(Base):\n    def __init__(self):\n        super().__init__(cards=2)\n",
            0,
        ),
        ("class Ours(Other, Trainer):\n    def __init__(self):\n        super().__init__(cards=2)\n", 1),
        (
            "class Ours(Trainer):\n    def __init__(self, **more):\n        super().__init__(**more)\nOurs(cards=2)\n",
            1,
        ),
        ("class Ours(Trainer):\n    def __init__(self):\n        super().__init__(**{'cards': 2})\n", 1),
    ],
)
def test_an_argument_that_may_be_handed_on_is_reported(migrate_with, text: str, found: int) -> None:
    before = f"from house import Trainer\nfrom others import Other\n{text}"
    result = migrate_with([CARDS], before)
    assert result.content is None
    assert [finding.rule for finding in result.findings] == ["cards"] * found


@pytest.mark.parametrize(
    "text",
    [
        "options = {'cards': 2}\n",
        "options = {**{'cards': 2}}\n",
        "options = dict(cards=2)\n",
        "options = {}\noptions['cards'] = 2\n",
        "options = {}\nif x:\n    options = {'cards': 2}\n",
        "options = {}\noptions.update(cards=2)\n",
        "options = {}\noptions.update({'cards': 2})\n",
        "options = {}\noptions.setdefault('cards', 2)\n",
    ],
)
def test_what_a_call_unpacks_is_reported_where_it_stands(migrate_with, text: str) -> None:
    before = f"from house import Trainer\n{text}Trainer(**options)\n"
    result = migrate_with([CARDS], before)
    lines = before.split("\n")
    assert [lines[finding.span.start_line - 1] for finding in result.findings] == [
        line for line in lines if "cards" in line
    ]
    assert result.content is None


def test_another_dictionary_of_the_name_is_not_reported(migrate_with) -> None:
    before = (
        "from house import Trainer\n\n\ndef f(options):\n    options['cards'] = 2\n\n\n"
        "def g(options):\n    Trainer(**options)\n"
    )
    assert migrate_with([CARDS], before).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        "options.pop('cards', 2)",
        "options.setdefault('cards')",
        "options.setdefault(key, 'cards')",
        "options.defaults('cards', 2)",
        "options.update",
        "other['cards'] = 2",
        "options[0] = 'cards'",
        "x = options['cards']",
        "del options['cards']",
        "def f(options):\n    options['cards'] = 2",
        "Trainer(options)",
    ],
)
def test_what_gives_a_dictionary_no_key_is_not_reported(migrate_with, text: str) -> None:
    result = migrate_with([CARDS], f"from house import Trainer\noptions = load()\n{text}\nTrainer(**options)\n")
    assert (result.content, result.findings) == (None, ())
