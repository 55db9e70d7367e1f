"""A codemod's edits under the rules' edits: one list of changes, told in places of the source."""

from gpu2npu.engine import ProjectContext, migrate_source
from gpu2npu.records import FileRewrite, Finding, FindingKind, Operation, Span, StructuralEdit
from gpu2npu.rulebook import load_rulebook

SOURCE = b"""import torch
from torch import nn

device = torch.device('cuda')
model = nn.DataParallel(Net()).cuda()
x = torch.ones(3).cuda()
"""


def edit(old, new, message="m"):
    start = SOURCE.decode().index(old)
    return StructuralEdit(start, start + len(old), new, "data-parallel", message)


def migrate(*edits, findings=()):
    return migrate_source(SOURCE, "a.py", load_rulebook(), ProjectContext(), FileRewrite(edits, findings))


def test_rules_migrate_the_codemods_code_and_their_changes_are_places_of_the_source():
    wrapped = edit("nn.DataParallel(Net()).cuda()", "nn.parallel.DistributedDataParallel(\n    Net().cuda()\n)")
    told = edit("device = ", "torch.cuda.set_device(0)\ndevice = ")
    migrated = migrate(wrapped, told)
    assert migrated.content.decode() == (
        "import torch\nimport torch_npu\nfrom torch import nn\n\n"
        "torch.npu.set_device(0)\ndevice = torch.device('npu')\n"
        "model = nn.parallel.DistributedDataParallel(\n    Net().npu()\n)\nx = torch.ones(3).npu()\n"
    )
    rows = [(change.span.start_line, change.before, change.after) for change in migrated.changes]
    assert rows == [
        (1, "", "import torch_npu"),
        (4, "device = ", "torch.npu.set_device(0)\ndevice = "),
        (4, "'cuda'", "'npu'"),
        (5, "nn.DataParallel(Net()).cuda()", "nn.parallel.DistributedDataParallel(\n    Net().npu()\n)"),
        (6, "cuda", "npu"),
    ]
    assert not any(finding.rule == "data-parallel" for finding in migrated.findings)


def test_what_is_put_in_is_an_insertion():
    start = SOURCE.decode().index("device = ")
    (change,) = [
        change
        for change in migrate(StructuralEdit(start, start, "torch.cuda.set_device(0)\n", "data-parallel", "m")).changes
        if change.rule == "data-parallel"
    ]
    assert change.operation is Operation.INSERT
    assert (change.span.start_line, change.before, change.after) == (4, "", "torch.npu.set_device(0)\n")


def test_a_codemods_finding_takes_the_place_of_the_rules():
    finding = Finding(Span(5, 8, 5, 23), "data-parallel", FindingKind.UNSUPPORTED, "torch.nn.DataParallel", "by hand")
    findings = [found for found in migrate(findings=(finding,)).findings if found.rule == "data-parallel"]
    assert findings == [finding]


def test_a_file_that_no_rule_is_for_is_rewritten_all_the_same():
    migrated = migrate_source(
        b"x = 1\n", "a.py", load_rulebook(), ProjectContext(), FileRewrite((StructuralEdit(4, 5, "2", "r", "m"),))
    )
    assert migrated.content == b"x = 2\n"
    assert [(change.before, change.after) for change in migrated.changes] == [("1", "2")]


def test_lines_that_move_to_the_right_are_one_change():
    at = [SOURCE.decode().index(word) for word in ("model = ", "x = ")]
    edits = (
        StructuralEdit(at[0], at[0], "if first:\n    ", "r", "m"),
        StructuralEdit(at[1], at[1], "    ", "r", "m"),
    )
    migrated = migrate(*edits)
    assert migrated.content.decode().endswith(
        "if first:\n    model = nn.DataParallel(Net()).npu()\n    x = torch.ones(3).npu()\n"
    )
    (change,) = [change for change in migrated.changes if change.rule == "r"]
    assert (change.span.start_line, change.span.end_line) == (5, 6)
    assert change.before == "model = nn.DataParallel(Net()).cuda()\nx = torch.ones(3).cuda()"
    assert change.after == ("if first:\n    model = nn.DataParallel(Net()).npu()\n    x = torch.ones(3).npu()")
