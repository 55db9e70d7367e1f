"""Rules of a user's own in files that are not Python: command lines as lists of words, and environment variables."""

from __future__ import annotations

import pytest

from gpu2npu.engine import ProjectContext
from gpu2npu.formats.dispatch import migrate_file
from gpu2npu.records import MigratedFile
from gpu2npu.rulebook import Rulebook, load_rulebook

RULES = """{"rules": [
  {"id": "launch", "why": "It counts NPUs.", "match": {"command": "fastrun --gpus $N"},
   "then": {"rename": "fastrun --npus $N"}, "examples": [{"keep": ""}]},
  {"id": "variables", "why": "They name NPUs.", "match": {"environment": "FAST_GPU_$X"},
   "then": {"rename": "FAST_NPU_$X"}, "examples": [{"keep": ""}]},
  {"id": "engine", "why": "It is another.", "match": {"setting": "fast.engine", "values": ["gpu"]},
   "then": {"rename": "npu"}, "examples": [{"keep": ""}]}
]}"""


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Rulebook:
    file = tmp_path_factory.mktemp("rules") / "own.json"
    file.write_text(RULES, encoding="utf-8")
    return load_rulebook([file])


def migrate(text: str, path: str, rulebook: Rulebook) -> MigratedFile:
    result = migrate_file(text.encode(), path, rulebook, ProjectContext())
    assert result.failure is None
    return result


def after(text: str, path: str, rulebook: Rulebook) -> str:
    content = migrate(text, path, rulebook).content
    return text if content is None else content.decode()


LISTS = [
    ("Dockerfile", 'CMD ["fastrun", "--gpus", "8", "t.py"]\n'),
    ("Dockerfile", 'RUN ["bash", "-c", "fastrun --gpus 4 t.py"]\n'),
    ("Dockerfile", 'FROM a\nENTRYPOINT ["nohup", "fastrun"]\nENV A=1\nCMD ["--gpus", "8"]\n'),
    ("Dockerfile", 'FROM a\nCMD ["--gpus=8"]\nENTRYPOINT ["/opt/bin/fastrun"]\nFROM b\n'),
    ("Dockerfile", 'CMD ["fastrun", \\\n  # more\n  "--gpus", "4"]\n'),
    ("Dockerfile", '# escape=`\nFROM a\nCMD ["fastrun", `\n "--gpus", "4"]\n'),
    ("Dockerfile", "# escape=`\nFROM a\nRUN echo a && `\n fastrun --gpus 4\n"),
    ("Dockerfile", 'FROM a AS b\nENTRYPOINT ["fastrun"]\nFROM --platform=x b\nCMD ["--gpus", "8"]\n'),
    ("Dockerfile", "FROM a\nCOPY <<END /app/run.sh\nfastrun --gpus 4\nEND\n"),
    ("compose.yaml", 'a:\n  healthcheck: {test: ["CMD", "fastrun", "--gpus", "4"]}\n'),
    ("compose.yaml", 'a:\n  healthcheck: {test: ["CMD-SHELL", "fastrun --gpus 4 || exit 1"]}\n'),
    ("compose.yaml", 'a:\n  command: ["fastrun", "--gpus", 8, "it\'s"]\n'),
    ("compose.yaml", "a:\n  entrypoint: [tini, --, fastrun]\n  command: [--gpus, 8]\n"),
    ("compose.yaml", "a:\n  entrypoint: [fastrun]\n  command:\n    - t.py\n    - --gpus=8\n"),
    ("job.yaml", "- name: a\n  command: [fastrun]\n  args: ['--gpus', \"4\"]\n"),
    ("job.yaml", 'command: [sh, -c]\nargs: ["fastrun --gpus 4 && echo \\"done\\""]\n'),
    ("tasks.json", '{"command": "fastrun", "args": ["--gpus", "4"]}\n'),
    ("job.yaml", 'command: [bash, -c]\nargs:\n- |\n  set -e\n  echo "it\'s $HOME"\n  fastrun --gpus 4\n'),
    ("job.yaml", "command:\n- bash\n- -c\n- |\n  set -e\n  fastrun --gpus 4\n"),
    ("job.yaml", "command: >\n  fastrun\n  --gpus 4\n"),
    ("job.yaml", "command: [fastrun, --gpus, *n]\n".join(("n: &n 4\n", ""))),
    (".devcontainer.json", '{"postStartCommand": ["fastrun", "--gpus", "4"]}'),
    ("tox.toml", 'commands = [["fastrun", "--gpus", "4"], ["pytest"]]\n'),
]


@pytest.mark.parametrize(("path", "text"), LISTS)
def test_a_command_line_that_is_a_list_of_words(own: Rulebook, path: str, text: str) -> None:
    assert after(text, path, own) == text.replace("--gpus", "--npus")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("Dockerfile", 'FROM a\nENTRYPOINT ["fastrun"]\nFROM b\nCMD ["--gpus", "8"]\n'),
        ("Dockerfile", 'FROM a AS b\nCMD ["--gpus", "8"]\nFROM b\nENTRYPOINT ["fastrun"]\n'),
        ("job.yaml", "command: [other]\nargs: [--gpus, 4, fastrun]\n"),
        ("job.yaml", "args: [--gpus, 4]\nnames: [fastrun, --gpus, 4]\n"),
        ("job.yaml", "script:\n  - fastrun t.py\n  - --gpus 4\n"),
    ],
)
def test_lists_of_other_words_stay(own: Rulebook, path: str, text: str) -> None:
    assert after(text, path, own) == text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("job.yaml", "command: [nvidia-smi]\n"),
        ("tox.toml", 'commands = [["nvidia-smi"]]\n'),
        ("tox.toml", 'commands = [["nvidia-smi", "-L"]]\n'),
        (".vscode/tasks.json", '{"type": "process", "command": "nvidia-smi"}\n'),
        (".vscode/tasks.json", '{"type": "process", "command": "nvidia-smi", "args": ["-l", "1"]}\n'),
    ],
)
def test_what_is_not_one_word_is_reported(own: Rulebook, path: str, text: str) -> None:
    result = migrate(text, path, own)
    assert result.content is None
    assert [finding.message.rpartition(": ")[2] for finding in result.findings] == ["change it by hand."]


@pytest.mark.parametrize(
    "text",
    [
        "a: {command: [fastrun], args: &a [--gpus, 4]}\nb: {command: [other], args: *a}\n",
        "a: &a\n  - --gpus\n  - 4\nb: {command: [fastrun], args: *a}\n",
        "a: &a --gpus\nb: {command: [fastrun, *a, 4]}\n",
    ],
)
def test_words_that_other_places_take_are_reported(own: Rulebook, text: str) -> None:
    result = migrate(text, "job.yaml", own)
    assert result.content is None
    assert [found.rule for found in result.findings if "*a: change it by hand" in found.message] == ["launch"]


def test_an_alias_is_not_reported_where_its_anchor_is_changed(own: Rulebook) -> None:
    result = migrate("a: &a [--device, cuda]\nb: {command: [python, t.py], args: *a}\n", "job.yaml", own)
    assert result.content == b"a: &a [--device, npu]\nb: {command: [python, t.py], args: *a}\n"
    assert not result.findings


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.sh", "env -u FAST_GPU_A --unset FAST_GPU_B FAST_GPU_C=1 train\n"),
        ("a.sh", "sudo -u root env FAST_GPU_A=1 train\n"),
        ("a.sh", "docker run -e FAST_GPU_A=1 -eFAST_GPU_B=2 --env FAST_GPU_C image\n"),
        ("a.sh", "cat > conf/.env <<END\nFAST_GPU_A=1\nEND\n"),
        ("a.sh", "export FAST_GPU_A=1\necho $((FAST_GPU_A + 1))\n(( FAST_GPU_A > 0 )) && x\n"),
        ("a.sh", "[[ -v FAST_GPU_A ]] && x\nprintf -v FAST_GPU_B %s 1\nread -r FAST_GPU_C\nexport FAST_GPU_A\n"),
        ("a.sh", "env -uFAST_GPU_A FAST_GPU_B=1 train\n"),
        ("tox.ini", "[testenv]\nsetenv =\n    FAST_GPU_A = 0\npassenv = FAST_GPU_A, FAST_GPU_B\n"),
        (".env", "FAST_GPU_A = 1\nexport FAST_GPU_B= 'x'  # x\n"),
        ("a.sh", "tee -a train.env <<EOF\nFAST_GPU_A=1\nEOF\n"),
        ("Dockerfile", "FROM a\nCOPY <<END /app/.env\nFAST_GPU_A=1\nEND\n"),
        (".devcontainer.json", '{"containerEnv": {"A": "${localEnv:FAST_GPU_A}"}}\n'),
        (".env", "FAST_GPU_A=1\n"),
        ("conf/.env.local", "FAST_GPU_A=1\nexport FAST_GPU_B='x'\n"),
        ("train.env", "FAST_GPU_A=1\n"),
        ("a.py", "import os\nos.environ[f'FAST_GPU_{name}_MB']\n"),
    ],
)
def test_variables(own: Rulebook, path: str, text: str) -> None:
    assert after(text, path, own) == text.replace("FAST_GPU_", "FAST_NPU_")


@pytest.mark.parametrize("text", ["f'{prefix}FAST_GPU_{name}'", "f'set FAST_GPU_{name} first'", "f'{x}' 'FAST_GPUS'"])
def test_f_strings_that_name_something_else_stay(own: Rulebook, text: str) -> None:
    assert after(f"a = {text}\n", "a.py", own) == f"a = {text}\n"


def test_variables_in_python_of_a_script_are_reported(own: Rulebook) -> None:
    result = migrate("python - <<END\nos.environ['FAST_GPU_A']\nEND\n", "a.sh", own)
    assert result.content is None
    assert [(found.api, found.rule) for found in result.findings] == [("FAST_GPU_A", "variables")]


def test_a_value_with_an_anchor_is_changed_where_nothing_else_takes_it(own: Rulebook) -> None:
    text = "fast:\n  engine: &e gpu\nother: &f 'gpu'\nlast: *f\n"
    assert after(text, "a.yaml", own) == text.replace("&e gpu", "&e npu")
    result = migrate(text + "first: *e\n", "a.yaml", own)
    assert result.content is None
    assert [found.message for found in result.findings if "*e" in found.message]
