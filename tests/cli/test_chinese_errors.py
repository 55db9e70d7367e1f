"""No command leaves English in what it answers to a mistake where the locale is Chinese; and what is printed was looked
up in the catalogue."""

import ast
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu2npu.cli import main as command
from tools.messages import APART, PACKAGE, ROOT, is_prose, template_of

# Words between which there is nothing but blanks, outside of what is quoted, of paths and of code.
_ENGLISH = re.compile(r"(?<![\w./:=<-])[a-z]{2,} (?:[a-z']+ )?[a-z]{2,}\b(?![./=(])")
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|`[^`]*`")
_PRINTING = {"print", "echo", "secho", "exit", "SystemExit"}

MISTAKES = """
-i ""
-i nothere -o out
-i empty -o out
-i words.txt -o out
-i link -o out
-i p -o p/out
-i p -o words.txt/x
-i p -o out -v 9.9
-i p -o out -v 2.7.1 --torch-npu 1.0
-i p -o out -v 2.7.1 --torch-npu 2.1.0
-i p -o out -r nothere.json
-i p -o out -r keys.json
-i p -o out -r spelling.json
-i p -o out -r broken.json
-i p -o out -r pack:no
-i p -o out -j 0
-i p -o out -j x
-i p -o out --affinity nosuch
-i p -o out --main nothere.py
-i p -o out --report pdf
-i p
--nosuch
-i unknown_key -o out
-i wrong_type -o out
-i no_toml -o out
nosuch
check nothere
check p -v 1.0
check p --format nosuch
check p --baseline nothere.json
check p --baseline list.json
check p --fail-on nosuch
check --repos names.txt
check --repos nothere.txt
check p --soc Ascend1
check p --watch --format json
analyse -i p -o out -v 2.7.1 --mode nosuch
analyse -i p -o p/x -v 2.7.1
distributed -i p -o out -v 2.7.1
distributed -i p -o out -v 2.7.1 -m nothere.py
distributed -i p -o out -v 2.7.1 -m a.py -t 1x
doctor extra
review -i p
rules explain nosuch
rules explain p/a.py:9999
rules explain p/nothere.py:1
rules test nothere.json
rules new "X y"
rules new x --match nosuch
rules list nosuch
rules learn p nothere -o x.json
run --npus 0 p/a.py
run --soc Ascend1 p/a.py
run --plan x.html p/a.py
run --shapes-only
verify -i p -v 2.7.1
verify -i nothere -v 2.7.1 -- a.py
verify -i p -v 2.7.1 -- nothere.py
verify -i p -v 2.7.1 --steps 0 -- a.py
verify -i p -v 2.7.1 --migrated nothere -- a.py
verify -i p -v 2.7.1 --html no/x.html -- a.py
verify record -o no/x --steps 1 -- a.py
verify record -o x.gpu2npu --hf32 foo -- a.py
verify -i p --reference nothere.gpu2npu -- a.py
versions --torch 9.9
versions --cann 1
server --log-level nosuch
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Projects, settings and lists, right and wrong ones."""
    made = tmp_path_factory.mktemp("mistakes")
    files = {
        "p/a.py": "import torch\nx = torch.ones(2).cuda()\n",
        "words.txt": "x",
        "names.txt": "https://github.com/a/b\n",
        "list.json": "[]",
        "keys.json": '{"rules": [{"id": "x"}]}',
        "spelling.json": '{"rules": [{"id": "X y", "why": "w", "match": {"nme": "a"}, "then": {"renam": "b"}}]}',
        "broken.json": '{"rules": [',
        "unknown_key/gpu2npu.toml": "versio = 1\n",
        "wrong_type/gpu2npu.toml": "jobs = 'x'\n",
        "no_toml/gpu2npu.toml": "lang = \n",
        **{f"{name}/a.py": "x = 1\n" for name in ("unknown_key", "wrong_type", "no_toml")},
    }
    (made / "empty").mkdir()
    for name, text in files.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    (made / "link").symlink_to("p")
    return made


@pytest.mark.parametrize("line", MISTAKES.strip().splitlines())
def test_a_mistake_is_answered_in_chinese(
    line: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.setattr(sys, "argv", ["gpu2npu", *shlex.split(line)])
    with pytest.raises(SystemExit) as ended:
        command.main()
    written = capfd.readouterr()
    shown = _QUOTED.sub("''", written.out + written.err)
    assert ended.value.code == 2 and re.search("[\u4e00-\u9fff]", shown), shown
    assert [each for each in shown.splitlines() if _ENGLISH.search(each)] == []


def _printed(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the prose that is given to print and its like, or written to a stream, as it is."""
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = call.args if name in (_PRINTING | {"write"}) else ()
        for text in (each for each in given if isinstance(each, (ast.Constant, ast.JoinedStr))):
            if is_prose(template_of(text) or ""):
                yield call.lineno, template_of(text) or ""


def test_what_is_printed_has_been_translated() -> None:
    """But by the emulated NPU and code for users' projects, which speak as the real ones do."""
    found = {
        f"{name}:{line}": text
        for path in sorted(PACKAGE.rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(APART)
        for line, text in _printed(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == {}
