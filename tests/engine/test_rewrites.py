"""A codemod's edits beside the rules' edits: all go by the source, and become one text and one list of changes."""

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.records import Edit, FileRewrite, FindingKind, Found, Operation, Span
from gpu2npu.rulebook import load_rulebook

SOURCE = b"""import torch
from torch import nn

device = torch.device('cuda')
model = nn.DataParallel(Net()).cuda()
x = torch.ones(3).cuda()
"""
TEXT = SOURCE.decode()


def bounds(code):
    start = TEXT.index(code)
    return start, start + len(code)


def edit(old, new, message="m", **more):
    return Edit(bounds(old), new, "data-parallel", message, **more)


def migrate(*edits, found=()):
    return migrate_source(SOURCE, "a.py", load_rulebook(), ProjectContext(), FileRewrite(edits, found))


WRAPPED = edit(
    "nn.DataParallel(Net()).cuda()",
    ("nn.parallel.DistributedDataParallel(\n    ", bounds("Net()"), (bounds(".cuda()\nx")[0], bounds("\nx")[0]), "\n)"),
)


def test_rules_migrate_the_code_that_codemods_keep():
    start = TEXT.index("device = ")
    migrated = migrate(
        WRAPPED, Edit((start, start), "torch.npu.set_device(0)\n", "data-parallel", "m", needs=("torch_npu",))
    )
    assert migrated.content.decode() == (
        "import torch\nimport torch_npu\nfrom torch import nn\n\n"
        "torch.npu.set_device(0)\ndevice = torch.device('npu')\n"
        "model = nn.parallel.DistributedDataParallel(\n    Net().npu()\n)\nx = torch.ones(3).npu()\n"
    )
    rows = [(change.span.start_line, change.before, change.after) for change in migrated.changes]
    assert rows == [
        (1, "", "import torch_npu"),
        (4, "", "torch.npu.set_device(0)\n"),
        (4, "'cuda'", "'npu'"),
        (5, "nn.DataParallel(Net()).cuda()", "nn.parallel.DistributedDataParallel(\n    Net().npu()\n)"),
        (6, "cuda", "npu"),
    ]


def test_findings_about_code_that_is_replaced_are_gone():
    assert any(finding.rule == "data-parallel" for finding in migrate().findings)
    assert not any(finding.rule == "data-parallel" for finding in migrate(WRAPPED).findings)


def test_findings_about_code_that_a_replacement_has_stay():
    source = "import torch\nx = wrap(torch.cuda.cudart(), torch.cuda.cudart())\n"
    start, argument = source.index("wrap"), (source.index("torch.cuda"), source.index(", "))
    edit = Edit((start, len(source) - 1), ("own(", argument, ")"), "r", "m")
    migrated = migrate_source(source.encode(), "a.py", load_rulebook(), ProjectContext(), FileRewrite((edit,)))
    assert [finding.span.start_column for finding in migrated.findings] == [len("x = wrap(")]


def test_new_code_alone_needs_its_import():
    at = TEXT.index("model = ")
    source = b"import torch\nx = 1\n"
    new = Edit((13, 13), "torch.npu.set_device(0)\n", "r", "m", needs=("torch_npu",))
    migrated = migrate_source(source, "a.py", load_rulebook(), ProjectContext(), FileRewrite((new,)))
    assert migrated.content == b"import torch\nimport torch_npu\ntorch.npu.set_device(0)\nx = 1\n"
    own = Edit((at, at), "import torch_npu\n", "r", "m", imports=("torch_npu",))
    assert migrate(own).content.decode().count("import torch_npu") == 1


def test_what_is_put_in_is_an_insertion():
    start = TEXT.index("device = ")
    (change,) = [
        change
        for change in migrate(Edit((start, start), "torch.npu.set_device(0)\n", "data-parallel", "m")).changes
        if change.rule == "data-parallel"
    ]
    assert change.operation is Operation.INSERT
    assert (change.span.start_line, change.before, change.after) == (4, "", "torch.npu.set_device(0)\n")


def test_a_codemods_finding_takes_the_place_of_the_rules():
    found = Found(
        bounds("nn.DataParallel"), "data-parallel", FindingKind.UNSUPPORTED, "torch.nn.DataParallel", "by hand"
    )
    (finding,) = [each for each in migrate(found=(found,)).findings if each.rule == "data-parallel"]
    assert (finding.span, finding.message) == (Span(5, 8, 5, 23), "by hand")


def test_a_file_that_no_rule_is_for_is_rewritten_all_the_same():
    rewrite = FileRewrite((Edit((4, 5), "2", "r", "m"),))
    migrated = migrate_source(b"x = 1\n", "a.py", load_rulebook(), ProjectContext(), rewrite)
    assert migrated.content == b"x = 2\n"
    assert [(change.before, change.after) for change in migrated.changes] == [("1", "2")]


def test_a_codemod_that_writes_no_python_changes_nothing():
    rewrite = FileRewrite((Edit((4, 5), "2 +", "r", "m"),))
    migrated = migrate_source(b"x = 1\n", "a.py", load_rulebook(), ProjectContext(), rewrite)
    assert (migrated.content, migrated.changes) == (None, ())
    assert [(found.rule, found.api) for found in migrated.findings] == [("r", "2 +")]
    assert "cannot be written here" in migrated.findings[0].message


def test_lines_that_move_to_the_right_are_one_change():
    whole = TEXT.index("model = "), len(TEXT)
    migrated = migrate(Edit(whole, ("if first:", whole), "r", "m", is_block=True))
    assert migrated.content.decode().endswith(
        "if first:\n    model = nn.DataParallel(Net()).npu()\n    x = torch.ones(3).npu()\n"
    )
    (change,) = [change for change in migrated.changes if change.rule == "r"]
    assert (change.span.start_line, change.span.end_line) == (5, 6)
    assert change.before == "model = nn.DataParallel(Net()).cuda()\nx = torch.ones(3).cuda()"
    assert change.after == ("if first:\n    model = nn.DataParallel(Net()).npu()\n    x = torch.ones(3).npu()")
