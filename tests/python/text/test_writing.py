"""LibCST makes the edits of a file as changes of nodes."""

import ast

import libcst as cst
import pytest
from msgspec.structs import replace

from gpu2npu.python.text import changes
from gpu2npu.python.text.edits import Edited
from gpu2npu.python.text.source import SourceFile
from gpu2npu.python.text.statements import Statements
from gpu2npu.python.text.writing import rewritten
from gpu2npu.python.tree.file import PythonFile, read_file
from gpu2npu.records import Edit


def read(text: str) -> PythonFile:
    return read_file(SourceFile("a.py", text, "utf-8", b""))


def edit(text: str, old: str, new: str | tuple[str, ...], nth: int = 0) -> Edit:
    """An edit of the nth place of a text, or behind it where that ends with `|`; of a tuple, every second one is a part
    of the file."""
    word = old.replace("|", "")
    start = -1
    for _ in range(nth + 1):
        start = text.index(word, start + 1)
    at = start + old.index("|") if "|" in old else start
    end = at if "|" in old else start + len(word)
    if isinstance(new, str):
        return Edit((at, end), new, "r", "m")
    pieces = [
        each if index % 2 == 0 else (text.index(each), text.index(each) + len(each)) for index, each in enumerate(new)
    ]
    return Edit((at, end), tuple(pieces), "r", "m")


@pytest.mark.parametrize(
    ("text", "edits", "after"),
    [
        ("x = torch.cuda.f( 1 )  # c\n", [("cuda", "npu")], "x = torch.npu.f( 1 )  # c\n"),
        ("import torch.cuda as c\n", [("torch.cuda", "torch.npu")], "import torch.npu as c\n"),
        ("import torch.cuda\n", [("torch.cuda", "torch.npu as c")], "import torch.npu as c\n"),
        ("from a.b import (c,\n  d)\n", [("a.b", "e"), ("c", "f, c as g")], "from e import (f, c as g,\n  d)\n"),
        ("from a import b\n", [("b|", ", c")], "from a import b, c\n"),
        ("from a import b, c\n", [("from a import b, c", "from a import b\nfrom d import c")],
         "from a import b\nfrom d import c\n"),
        ('d = r"cuda:0" f"cuda{x:cuda}"\n', [("cuda", "npu"), ('cuda', "npu", 1), ("cuda", "npu", 2)],
         'd = r"npu:0" f"npu{x:npu}"\n'),
        ('d = """a\ncuda\ncuda\n"""\n', [("cuda", "n"), ("cuda", "npu", 1)], 'd = """a\nn\nnpu\n"""\n'),
        ("f(a, (b))\n", [("f(a, (b))", ("g(", "(b)", ", n=", "a", ")"))], "g((b), n=a)\n"),
        ("y = (f(cuda))\n", [("f(cuda)", ("g(", "cuda", ")")), ("cuda", "npu")], "y = (g(npu))\n"),
        ("y = (f(cuda), cuda)\n", [("f(cuda)", ("g(", "f(cuda)", ")")), ("cuda", "npu")],
         "y = (g(f(npu)), cuda)\n"),
        ("q = a\ny = f(g(q))\n", [("f(g(q))", ("h(", "g(q)", ", 1)")), ("g(q)", ("k(", "a", ", 2)"))],
         "q = a\ny = h(k(a, 2), 1)\n"),  # a part of another statement
        ("f(a, b=1)\n", [("a|", ".npu()"), ("b=1|", ", c=2")], "f(a.npu(), b=1, c=2)\n"),
        ("f(\n    a,\n    b,  # c\n)\n", [("b|", ", k=1")], "f(\n    a,\n    b, k=1,  # c\n)\n"),
        ("f()\n", [("f(|", "k=1")], "f(k=1)\n"),
        ("f(a, b, c)\n", [("b", "")], "f(a, c)\n"),
        ("x = (a, b, c)\n", [("a", "")], "x = (b, c)\n"),
        ("x = a, b, c\n", [("c", "")], "x = a, b\n"),
        ("x = (\n  a,  # d\n  b,  # e\n  c,\n)\n", [("b", "")], "x = (\n  a,  # d\n  # e\n  c,\n)\n"),
        ("x = (\n  a,  # d\n  b,\n  c,  # e\n)\n", [("c", "")], "x = (\n  a,  # d\n  b,\n  # e\n)\n"),
        ("f(a, b, c)\n", [("c", "")], "f(a, b)\n"),
        ("f(\n    a,\n    b\n)\n", [("b", "")], "f(\n    a\n)\n"),
        ("f(\n    a,  # x\n    b,\n)\n", [("b", "")], "f(\n    a,  # x\n)\n"),
        ("f(\n    a,  # x\n)\n", [("a", "")], "f(\n    # x\n)\n"),
        ("f(\n    a,\n)\n", [("a", "")], "f()\n"),
        ("f(a, b,  # x\n  c)\n", [("b", "")], "f(a,  # x\n  c)\n"),
        ("f(\n    a,  # x\n    # y\n    b,\n)\n", [("a", "")], "f(\n    # x\n    # y\n    b,\n)\n"),
        ("f(\n    a,  # x\n    b  # y\n)\n", [("b", "")], "f(\n    a,  # x\n    # y\n)\n"),
        ("f((a), b)\n", [("a", "")], "f(b)\n"),
        ("class A(B, C): pass\n", [("B", "D, B")], "class A(D, B, C): pass\n"),
        ("class A(B, C): pass\n", [("C", "")], "class A(B): pass\n"),
        ("class A(B): pass\n", [("B", "")], "class A: pass\n"),
        ("class A(B, m=C): pass\n", [("B", "")], "class A(m=C): pass\n"),
        ("from a import (\n    b,  # x\n    c\n)\n", [("c", "")], "from a import (\n    b,  # x\n)\n"),
        ("with a, b: c()\n", [("a", "")], "with b: c()\n"),
        ("class A:\n    # one\n    @b\n    # two\n    @c\n    def f(self): ...\n", [("@b", "")],
         "class A:\n    # one\n    # two\n    @c\n    def f(self): ...\n"),
        ("class A:\n    @b\n    def f(self): ...\n", [("    |@b", "@c\n    ")],
         "class A:\n    @c\n    @b\n    def f(self): ...\n"),
        ("def f(a: int = (1)) -> None: ...\n", [("(1)|", ", b=2"), ("int", "str")],
         "def f(a: str = (1), b=2) -> None: ...\n"),
        ("if x: a(); b()\n", [("a()|", "; c()"), ("b", "d")], "if x: a(); c(); d()\n"),
        ("if x: a(); b()\n", [("|a()", "c(); ")], "if x: c(); a(); b()\n"),
        ("a()", [("a()|", "\nb()")], "a()\nb()"),
        ("if x:\n\ta()\n", [("|a()", "b()\n\t")], "if x:\n\tb()\n\ta()\n"),
        ("if x:\n    a()  # a\n    b()\nc()\n", [("b()", "")], "if x:\n    a()  # a\nc()\n"),
        ("try: ...\nexcept E(a): ...\nelse:\n    f(a)\n", [("a", "b"), ("a", "b", 1)],
         "try: ...\nexcept E(b): ...\nelse:\n    f(b)\n"),
        ("if a: pass\nelif b:\n    pass\n", [("b", "c")], "if a: pass\nelif c:\n    pass\n"),
        ("match e:\n    case b if g:\n        d\n", [("e", "x"), ("g", "y"), ("d", "z")],
         "match x:\n    case b if y:\n        z\n"),
        ("é = f('ü', cuda)\n", [("cuda", "npu")], "é = f('ü', npu)\n"),
        ("f(\n    g(a),\n)\n", [("g(a)", "h(\n        b,\n    )")], "f(\n    h(\n        b,\n    ),\n)\n"),
        ("return_ = a.module.x\n", [(".module", "")], "return_ = a.x\n"),
    ],
)  # fmt: skip
def test_edits_are_changes_of_nodes(text: str, edits: list[tuple], after: str) -> None:
    file = read(text)
    edited = Edited(text, [edit(text, *each) for each in edits])
    written = rewritten(file, edited)
    assert (written.text, dict(written.refused)) == (after, {})
    ast.parse(written.text)


_LONG = """if x:
    # a
    a(
        1,
    )
    b('''
z''')
"""


@pytest.mark.parametrize(
    ("text", "place", "head", "after"),
    [
        (_LONG, _LONG[_LONG.index("    a(") :], "with c:",
         _LONG.replace("a(\n        1,\n    )\n    b", "with c:\n        a(\n            1,\n        )\n        d")),
        ("a(); b(); c()\n", "b()", "with c:", "a()\nwith c:\n    d()\nc()\n"),
        ("if x:\n\ty()\nb()", "b()", "with c:", "if x:\n\ty()\nwith c:\n\td()"),
        ("with e:\n    # g\n    b()\n    # h\ni\n", "with e:\n    # g\n    b()\n    # h\n", "", "# g\nd()\n# h\ni\n"),
        ("with e: b()\n", "with e: b()\n", "", "d()\n"),
    ],
)  # fmt: skip
def test_statements_get_a_head_or_lose_it(text: str, place: str, head: str, after: str) -> None:
    start = text.index(place)
    whole = start, start + len(place)
    new = (head, whole) if head else ((text.index("b("), whole[1]),)
    edits = [Edit(whole, new, "r", "m", is_block=True), edit(text, "b", "d")]
    written = rewritten(read(text), Edited(text, edits))
    assert (written.text, dict(written.refused)) == (after, {})


def test_what_is_no_change_of_a_node_is_not_made_and_says_why() -> None:
    text = "f(a + b)\nc(1)\n"
    edits = [edit(text, "+ b", "- b"), edit(text, "c", "d")]
    written = rewritten(read(text), Edited(text, edits))
    assert written.text == "f(a + b)\nd(1)\n"
    assert written.refused == {edits[0]: "no node begins and ends there"}


def test_what_is_not_made_takes_with_it_what_is_inside_of_it_or_made_for_it() -> None:
    text = "a()\nf(x + b)\nc(1)\n"
    at = text.index("f(")
    lines = Edit((at, at), "d = e e\n", "r", "m")  # no Python
    edits = [lines, edit(text, "x", "d"), edit(text, "c", "g"), replace(edit(text, "c", "g"), place=(0, 1), rule="s")]
    written = rewritten(read(text), Edited(text, edits))
    assert written.text == "g()\nf(x + b)\ng(1)\n" and written.refused.keys() == set(edits[:2])
    outer = edit(text, "+ b", "")
    outer = replace(outer, text=("- b if ", (outer.place[1] - 1, outer.place[1])))
    edits = [outer, edit(text, "b", "h")]
    written = rewritten(read(text), Edited(text, edits))
    assert written.text == text and written.refused.keys() == set(edits)


@pytest.mark.parametrize(
    ("text", "word", "fragment"),
    [
        ("a()\nb(); c()  # d\n", "c", "b(); c()  # d\n"),
        ("if a:  # b\n    c\n", "a", "if a:  # b\n"),
        ("if a:\n    c  # b\n", "c", "    c  # b\n"),
        ("if a: b\n", "b", "b\n"),
        ("@a\ndef f(b):\n    pass\n", "b", "@a\ndef f(b):\n"),
        ("x = [\n  a,\n]\ny\n", "a", "x = [\n  a,\n]\n"),
        ("try:\n    a\nexcept B:\n    c\n", "B", "except B:\n"),
    ],
)
def test_the_smallest_statement_or_head_is_written_anew(text: str, word: str, fragment: str) -> None:
    at = text.index(word)
    found = Statements(read(text)).fragment(at, at + 1)
    assert text[found.start : found.end] == fragment
    assert cst.parse_module(found.before + fragment + found.after)


def test_new_code_that_is_none_is_refused() -> None:
    assert changes.expression("a b") is None
    with pytest.raises(changes.NotCodeError, match="no arguments"):
        changes.arguments("a b")
    with pytest.raises(changes.NotCodeError, match="does not parse"):
        changes.lines("    if a\n")
