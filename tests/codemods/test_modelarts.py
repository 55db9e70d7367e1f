"""`--modelarts`: paths are mapped, and the mapping finds files wherever they are."""

import subprocess
import sys

import pytest

from gpu2npu.codemods import CodemodChoice, plan_codemods
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

CASES = {
    "open": ("x = open(path)", "x = open(mapped(path))"),
    "a path of another call": (
        "x = open(join(d, os.listdir(d)[0]))",
        "x = open(mapped(join(d, os.listdir(mapped(d))[0])))",
    ),
    "a file that is given on": ("torch.load(open(path, 'rb'))", "torch.load(open(mapped(path), 'rb'))"),
    "writing": ("x = open('log.txt', 'a')", "x = open(mapped('log.txt', writes=True), 'a')"),
    "unknown mode": ("x = open('log.txt', mode=m)", "x = open(mapped('log.txt', writes=True), mode=m)"),
    "save": ("torch.save(model, f=name)", "torch.save(model, f=mapped(name, writes=True))"),
    "two paths": ("shutil.copy(a, b)", "shutil.copy(mapped(a), mapped(b, writes=True))"),
    "data": ("d = datasets.ImageFolder(root, t)", "d = datasets.ImageFolder(mapped(root), t)"),
}
HEAD = "import os, shutil\nimport torch\nfrom torchvision import datasets\n"
IMPORT = "from ascend_modelarts_function import mapped\n"


def plan(source):
    return plan_codemods({"train.py": source.encode()}, ProjectContext(), CodemodChoice(options={"modelarts": True}))


def after(source):
    rewrite = plan(source).rewrites.get("train.py")
    return source if rewrite is None else after_edits(source, rewrite.edits)


@pytest.mark.parametrize(("before", "expected"), CASES.values(), ids=CASES)
def test_paths_of_known_calls_are_mapped_once(before, expected):
    migrated = after(f"{HEAD}{before}\n")
    assert migrated == f"{HEAD}{IMPORT}{expected}\n"
    assert after(migrated) == migrated


@pytest.mark.parametrize(
    "line", ["x = open(0)", "x = mine.open(path)", "torch.save(*args)", "def open(p): ...\nopen(path)", "os.getcwd()"]
)
def test_other_calls_stay(line):
    assert after(f"{HEAD}{line}\n") == f"{HEAD}{line}\n"


MOXING = """
import os, shutil
ROOT = os.environ['FAKE_OBS']
class file:
    def _path(url): return url.replace('obs:/', ROOT)
    def exists(url): return os.path.exists(file._path(url))
    def is_directory(url): return os.path.isdir(file._path(url))
    def copy(a, b): shutil.copyfile(file._path(a), file._path(b))
    def copy_parallel(a, b): shutil.copytree(file._path(a), file._path(b), dirs_exist_ok=True)
"""
PROGRAM = """
import os
text = open('/data/set/words.txt').read()
assert open(__file__).read()
os.makedirs('out/deep')
with open('out/deep/result.txt', 'w') as file:
    file.write(text.upper())
with open('./table.csv', 'w') as file:
    file.write('1')
print(os.path.exists('/data/set/none.txt'), os.listdir('/data/set'), open('/single').read())
"""


@pytest.mark.parametrize("scheme", ["obs://bucket", ""], ids=["obs", "local"])
def test_a_program_reads_and_writes_where_the_configuration_says(tmp_path, scheme):
    store = tmp_path / "store" / "bucket"
    (store / "set").mkdir(parents=True)
    (store / "set" / "words.txt").write_text("abc")
    (store / "single.txt").write_text("one")
    (tmp_path / "moxing.py").write_text(MOXING)
    source = PROGRAM.lstrip()
    made = plan(source)
    for path, content in made.new_files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    base = scheme or str(store)
    mapping = {
        "/data/set/": f"{base}/set",
        "./out": f"{base}/out",
        "/single": f"{base}/single.txt",
        "table.csv": f"{base}/t.csv",
    }
    (tmp_path / "ascend_modelarts_function" / "path_mapping_config.py").write_text(
        f"PATH_MAPPING = {mapping!r}\nCACHE = {str(tmp_path / 'cache')!r}\n"
    )
    (tmp_path / "train.py").write_text(after_edits(source, made.rewrites["train.py"].edits))
    environment = {"FAKE_OBS": str(tmp_path / "store"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False ['words.txt'] one\n", "")
    assert (store / "out" / "deep" / "result.txt").read_text() == "ABC"
    assert (store / "t.csv").read_text() == "1"
    assert not (tmp_path / "out").exists()
