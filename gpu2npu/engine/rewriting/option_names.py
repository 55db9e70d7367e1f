"""Options of a program whose names rules write anew, while the code that reads them keeps the old name."""

from __future__ import annotations

import ast

from gpu2npu.engine.matches import Matches
from gpu2npu.engine.strings.forms import CLICK, FLAGS
from gpu2npu.python.text.offsets import holds
from gpu2npu.python.tree.file import PythonFile
from gpu2npu.python.tree.syntax import last_name, string_value
from gpu2npu.records import FindingKind, Found


def report_option_names(file: PythonFile, matches: Matches) -> None:
    """Report each option whose name an edit changes: `add_argument("--gpus")` is read as `args.gpus` elsewhere."""
    edits = [edit for edit in matches.edits if "--" in file.text[edit.place[0] : edit.place[1]]]
    for node, _ in file.uses if edits else ():
        if not isinstance(node, ast.Call) or last_name(node.func) not in FLAGS:
            continue
        option = next((each for each in node.args if (string_value(each) or "").startswith("--")), None)
        is_named = any((string_value(each) or "-").isidentifier() for each in node.args)
        if option is None or is_named or any(keyword.arg == "dest" for keyword in node.keywords):
            continue
        place, name = file.bounds(option), _attribute(string_value(option) or "")
        for edit in edits:
            written = "".join(each if isinstance(each, str) else "" for each in edit.pieces)
            new = file.text[place[0] : edit.place[0]] + written + file.text[edit.place[1] : place[1]]
            if not holds(place, edit.place) or _attribute(new) == name:
                continue
            is_click = last_name(node.func) == CLICK
            reads, given = (
                (f"takes this option as the parameter `{name}`", repr(name))
                if is_click
                else (f"reads this option as `.{name}`", f"dest={name!r}")
            )
            message = f"The program {reads}: give the call {given}, or rename what reads it."
            matches.report(Found(edit.place, edit.rule, FindingKind.REVIEW, string_value(option) or "", message))


def _attribute(option: str) -> str:
    """The attribute under which argparse keeps an option."""
    return option.strip("\"'").lstrip("-").replace("-", "_")
