"""SARIF links to a rule's page where the metadata of the installed gpu2npu says where its documentation is."""

import importlib.metadata
import json
import sys
from email.message import Message

import pytest

from gpu2npu.cli.main import main


@pytest.mark.parametrize(
    ("urls", "options", "address"),
    [
        (["Documentation, https://example.org/docs"], [], "https://example.org/docs/rules/"),
        (["Homepage, https://example.org", "no comma"], [], None),
        ([], [], None),
        (
            ["Documentation, https://example.org/docs"],
            ["--docs-url", "https://other.org/{page}.html"],
            "https://other.org/rules/",
        ),
    ],
)
def test_help_uri(tmp_path, monkeypatch, capfd, urls, options, address):
    metadata = Message()
    for url in urls:
        metadata["Project-URL"] = url
    monkeypatch.setattr(importlib.metadata, "metadata", lambda name: metadata)
    monkeypatch.delenv("GPU2NPU_DOCS_URL", raising=False)
    (tmp_path / "a.py").write_text("import torch\ntorch.cuda.nosuch()\n")
    arguments = ["gpu2npu", "check", str(tmp_path), "--format", "sarif", "-q", "-v", "2.7.1", *options]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit):
        main()
    (rule,) = json.loads(capfd.readouterr().out)["runs"][0]["tool"]["driver"]["rules"]
    assert rule["help"]["markdown"]
    assert (rule.get("helpUri") is None) if address is None else rule["helpUri"].startswith(address)
