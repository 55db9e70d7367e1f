"""A check as SARIF 2.1.0 (OASIS, errata 01), as code scanning services read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpu2npu.language import shown
from gpu2npu.records import Finding, FindingKind
from gpu2npu.report.check.causes import group_of
from gpu2npu.report.check.result import CheckedFile, CheckedFinding, CheckResult, RuleNote
from gpu2npu.report.text import encodable
from gpu2npu.support.behaviour import row

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# The name under which fingerprints are published; another number when they are made otherwise.
FINGERPRINT = "gpu2npu/v1"
_ROOT = "%SRCROOT%"
_LEVELS = {
    FindingKind.UNSUPPORTED: "error",
    FindingKind.UNKNOWN: "warning",
    FindingKind.FALLBACK: "warning",
    FindingKind.REVIEW: "note",
}


def sarif_report(result: CheckResult, docs_url: str = "") -> str:
    """Findings that a baseline has are there, marked as unchanged and suppressed. `docs_url` is where the pages of
    docs/ are, which rules link to; "" for no links. What the page says of a rule is in the report itself."""
    found = [(file, one) for file in result.files for one in file.findings]
    rules = {rule.id: index for index, rule in enumerate(result.rules)}
    run = {
        "tool": {"driver": _driver(result, docs_url)},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": Path(result.root or "/").as_uri().rstrip("/") + "/"}},
        "invocations": [_invocation(result)],
        "results": [_result(file, one, rules) for file, one in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _driver(result: CheckResult, docs_url: str) -> dict[str, Any]:
    return {
        "name": "gpu2npu",
        "semanticVersion": result.tool_version,
        "rules": [_rule(rule, docs_url) for rule in result.rules],
    }


def _rule(rule: RuleNote, docs_url: str) -> dict[str, Any]:
    why = encodable(shown(rule.why))
    described: dict[str, Any] = {
        "id": rule.id,
        "shortDescription": {"text": why},
        "fullDescription": {"text": why},
        "help": {"text": f"{why} {shown('`gpu2npu rules explain FILE:LINE` shows the source of a finding.')}"},
    }
    section = encodable(rule.section)
    if docs_url and rule.page:
        described["helpUri"] = _address(docs_url, rule.page)
        section = f"{section or why} [{shown('About this rule')}]({described['helpUri']})"
    if section:  # which services show in place of the text
        described["help"]["markdown"] = section
    return described


def _address(docs_url: str, page: str) -> str:
    """The address of a rule, whose `page` is `rules/FILE.md#ID`; a site's own form of it has `{page}`."""
    if "{page}" not in docs_url:
        return f"{docs_url.rstrip('/')}/{page}"
    path, _, rule = page.partition("#")
    return f"{docs_url.replace('{page}', path.removesuffix('.md'))}#{rule}"


def _invocation(result: CheckResult) -> dict[str, Any]:
    notifications = [
        {
            "level": "error",
            "message": {"text": encodable(shown(f"not checked: {reason}"))},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(path)}}],
        }
        for path, reason in result.failures
    ]
    return {"executionSuccessful": True, "toolExecutionNotifications": notifications}


def _result(file: CheckedFile, found: CheckedFinding, rules: dict[str, int]) -> dict[str, Any]:
    finding = found.finding
    region: dict[str, Any] = {"startLine": found.line, "snippet": {"text": encodable(found.source)}}
    if not finding.span.cell:  # in a notebook, columns are those of a cell
        region["startColumn"] = finding.span.start_column + 1
        region["endLine"] = found.line + finding.span.end_line - finding.span.start_line
        region["endColumn"] = finding.span.end_column + 1
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(file.path), "region": region}}
    if found.scope:
        location["logicalLocations"] = [{"fullyQualifiedName": found.scope}]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": _LEVELS[finding.kind],
        "message": {"text": encodable(f"{finding.api}: {shown(finding.message)}")},
        "locations": [location],
        "partialFingerprints": {FINGERPRINT: found.fingerprint},
        "properties": _properties(finding),
    }
    if finding.rule in rules:
        result["ruleIndex"] = rules[finding.rule]
    if found.known:
        result["baselineState"] = "unchanged"
        result["suppressions"] = [{"kind": "external", "justification": "in the baseline"}]
    return result


def _properties(finding: Finding) -> dict[str, str]:
    costs = {"kind": finding.kind.value, "severity": finding.severity.value, "group": group_of(finding)}
    of_table = row(finding.row)
    source = {"row": of_table.id, "source": encodable(of_table.source)} if of_table is not None else {}
    return {**costs, "api": encodable(finding.api), **source}


def _artifact(path: str) -> dict[str, str]:
    """A relative reference by RFC 3986; the bytes of a path that is not Unicode are escaped one by one."""
    return {"uri": quote(path.encode("utf-8", "surrogateescape"), safe="/"), "uriBaseId": _ROOT}
