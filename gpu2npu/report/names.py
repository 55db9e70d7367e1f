"""The file names of the reports where the project has files of those names at its own root.

A report that an earlier migration wrote is replaced. A file of the project's own keeps its name, and the report is
written as `gpu2npu_<name>` beside it, so that nothing is lost.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping

from msgspec import Struct

from gpu2npu.report.launcher import LAUNCHER_NAME, launcher_bytes
from gpu2npu.report.log import LOG_LINE, LOG_NAME
from gpu2npu.report.tables import HEADERS, header_line

REPORTS = (*HEADERS, LOG_NAME, LAUNCHER_NAME)
# Bytes of a file that show whether it is a report of ours.
HEAD_BYTES = 256

_RENAMED = re.compile(r"^(?:gpu2npu_(?:\d+_)?)?(.+?)(?:\.\d+)?$")


class ReportNames(Struct, frozen=True):
    """`names` maps each report to its file name in the output's root. `replaced` are the project's files that an
    earlier migration wrote and that give way. `kept_launcher`: the project has the launcher, perhaps filled in.
    """

    names: Mapping[str, str]
    replaced: frozenset[str]
    retained_launcher: bool


def choose_names(root_names: Collection[str], heads: Mapping[str, bytes]) -> ReportNames:
    """`root_names` is everything at the project's root; `heads` holds the first HEAD_BYTES of its regular files that
    `may_be_report`."""
    ours = {name for name, head in heads.items() if _is_ours(name, head)}
    launchers = {name for name in ours if _report_of(name) == LAUNCHER_NAME}
    taken = set(root_names) - ours
    names = {report: next(name for name in _candidates(report) if name not in taken) for report in REPORTS}
    return ReportNames(names, frozenset(ours - launchers), bool(launchers))


def may_be_report(name: str) -> bool:
    """Return whether a file of this name at a project's root may be the work of an earlier migration."""
    return _report_of(name) in REPORTS


def _report_of(name: str) -> str:
    match = _RENAMED.match(name)
    return match[1] if match else name


def _candidates(report: str) -> itertools.chain[str]:
    return itertools.chain([report, f"gpu2npu_{report}"], (f"gpu2npu_{count}_{report}" for count in itertools.count(2)))


def _is_ours(name: str, head: bytes) -> bool:
    report = _report_of(name)
    if report == LAUNCHER_NAME:
        return head.split(b"\n")[:2] == launcher_bytes().split(b"\n")[:2]
    if report == LOG_NAME:
        return LOG_LINE.match(head) is not None
    return report in HEADERS and head.startswith(header_line(report))
