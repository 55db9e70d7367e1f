"""Tests of `gpu2npu.emulator.shapes.overlay`: a program sees what it did, and files from before it are as they were."""

import subprocess
import sys
from pathlib import Path

BEFORE = {
    "old.pt": "trained",
    "old.csv": "1,2",
    "dir/a.pt": "A",
    "dir/b.txt": "B",
    "ck-1/w.pt": "W1",
    "ck-2/w.pt": "W2",
}
# Prints what it sees after each of its steps; `save` stands for torch.save.
PROGRAM = """
import glob, os, shutil, sys, tempfile
from pathlib import Path

if len(sys.argv) > 1:
    from gpu2npu.emulator.shapes.file_calls import install
    over = install(sys.argv[1], os.stat(sys.argv[2]).st_ctime_ns)
    save = lambda path, text: over.write(path, text.encode())
else:
    save = lambda path, text: Path(path).write_text(text)

def attempt(call, *args):
    try:
        print(call.__name__, args, call(*args))
    except OSError as error:
        print(call.__name__, args, error.errno)

def tree():
    print(sorted(os.path.join(at, name) for at, folders, names in os.walk(".") for name in folders + names))

def cat(*paths):
    for path in paths:
        print(path, Path(path).read_text() if os.path.exists(path) else None)

save("tmp.pt", "new")
os.replace("tmp.pt", "old.pt")
cat("old.pt", "tmp.pt")
print(sorted(glob.glob("*.pt")), sorted(map(str, Path(".").rglob("*.pt"))))
os.makedirs("out/ck.tmp")
save("out/ck.tmp/w.pt", "w")
Path("out/ck.tmp/c.json").write_text("c")
os.rename("out/ck.tmp", "out/ck")
tree()
cat("out/ck/w.pt", "out/ck/c.json")
shutil.rmtree("out/ck")
tree()
os.mkdir("out/ck")
save("out/ck/w.pt", "w2")
print(os.path.getsize("out/ck/w.pt"))
os.remove("out/ck/w.pt")
attempt(os.remove, "out/ck/w.pt")
attempt(os.stat, "out/ck/w.pt")
os.rmdir("out/ck")
shutil.rmtree("ck-1")
tree()
os.mkdir("ck-1")
save("ck-1/w.pt", "W1b")
cat("ck-1/w.pt")
Path("ck-1/z.json").write_text("z")
tree()
shutil.rmtree(Path("ck-1"))
attempt(os.listdir, "ck-1")
shutil.move("ck-2", "best")
tree()
cat("best/w.pt")
attempt(os.rename, "ck-2", "x")
save("best/w.pt", "W3")
cat("best/w.pt")
os.rename("dir/a.pt", "dir/a.bak")
cat("dir/a.bak", "dir/a.pt")
open("dir/a.bak", "a").write("+")
cat("dir/a.bak")
open("old.csv", "w").write("0,0")
open("old.csv", "a").write(",3")
cat("old.csv")
attempt(open, "old.csv", "x")
open("new.csv", "w").write("0")
os.rename("new.csv", "old.csv")
cat("old.csv", "new.csv")
os.remove("latest")
print(os.path.lexists("latest"))
os.makedirs("ck-3")
save("ck-3/w.pt", "W3")
os.symlink("ck-3", "latest")
cat("latest/w.pt")
print(os.path.islink("latest"))
shutil.copy("ck-3/w.pt", "copy.pt")
os.link("ck-3/w.pt", "hard.pt")
cat("copy.pt", "hard.pt")
shutil.copytree("ck-3", "ck-4")
for each in os.scandir("ck-3"):
    print(each.name, each.path, each.is_file(), each.is_dir(), each.stat().st_size)
folder = os.open("ck-3", os.O_RDONLY)
print(os.listdir(folder))
Path("dir/b.txt").unlink()
attempt(os.rmdir, "dir")
os.remove("dir/a.bak")
attempt(os.rmdir, "dir")
with tempfile.TemporaryDirectory(dir=".") as temporary:
    save(os.path.join(temporary, "q.pt"), "q")
    print(os.listdir(temporary))
tree()
os.chdir("ck-3")
print(os.listdir())
cat("w.pt")
os.chdir("..")
attempt(os.access, "copy.pt", os.R_OK)
attempt(os.access, "dir/b.txt", os.R_OK)
Path("deep/er").mkdir(parents=True)
save("deep/er/m.pt", "m")
Path("deep/er/m.pt").rename("deep/m.pt")
Path("deep").rename("deeper")
os.truncate("deeper/m.pt", 0)
cat("deeper/m.pt")
tree()
"""


def _run(folder: Path, *args: str, program: str = PROGRAM) -> str:
    for name, text in BEFORE.items():
        path = folder / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "work/latest").symlink_to("ck-1")
    (folder / "begun").touch()
    command = [sys.executable, "-c", program, *args]
    done = subprocess.run(command, cwd=folder / "work", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_sees_what_it_did_and_earlier_files_are_not_changed(tmp_path):
    plain = _run(tmp_path / "plain")
    assert _run(tmp_path / "over", str(tmp_path / "checkpoints"), "../begun") == plain
    work = tmp_path / "over/work"
    assert {name: (work / name).read_text(encoding="utf-8") for name in BEFORE} == BEFORE
    assert (work / "latest").readlink() == Path("ck-1")


CHANGING = (
    PROGRAM[: PROGRAM.index('save("tmp.pt", "new")')]
    + """
os.rename("old.pt", "moved.pt")
print(os.path.islink("moved.pt"), os.path.realpath("moved.pt") == os.path.abspath("moved.pt"))
os.remove("latest")
os.makedirs("ck-3")
save("ck-3/w.pt", "W3")
os.symlink("ck-3", "latest")
os.symlink("latest", "again")
print(os.readlink("latest"), os.readlink(b"again"), os.path.relpath(os.path.realpath("again/w.pt")))
cat("moved.pt", "again/w.pt")
print(sorted(os.listdir(b"ck-3")), sorted(entry.path for entry in os.scandir(b"ck-3")), sorted(os.listdir(b".")))
os.remove("dir/a.pt")
print(os.listdir(b"dir"))
shutil.copymode("ck-1/w.pt", "old.csv")
os.chmod("old.csv", 0o600)
os.utime("old.csv", (1, 1))
open("old.csv", "a").close()
print(oct(os.stat("old.csv").st_mode & 0o777), os.stat("old.csv").st_mtime)
os.chmod("moved.pt", 0o640)
print(oct(os.stat("moved.pt").st_mode & 0o777))
cat("old.csv", "moved.pt")
"""
)


def test_links_names_in_bytes_modes_and_times_are_those_of_the_program(tmp_path):
    plain = _run(tmp_path / "plain", program=CHANGING)
    assert _run(tmp_path / "over", str(tmp_path / "checkpoints"), "../begun", program=CHANGING) == plain
    work = tmp_path / "over/work"
    assert {name: (work / name).read_text(encoding="utf-8") for name in BEFORE} == BEFORE
    assert all((work / name).stat().st_mtime > 1 and (work / name).stat().st_mode & 0o777 == 0o644 for name in BEFORE)


TOUCHING = """
import os, shutil, sys
from gpu2npu.emulator.shapes.file_calls import install
install(sys.argv[1], os.stat(sys.argv[2]).st_ctime_ns)
os.utime("old.pt")
open("old.pt", "w").write("new")
os.chmod("old.csv", 0o600)
os.remove("old.csv")
os.link("dir/a.pt", "dir/a.bak")
open("dir/a.bak", "a").write("+")
os.chmod("ck-1/w.pt", 0o644)
shutil.rmtree("ck-1")
print(os.path.exists("old.csv"), os.path.exists("ck-1"), open("old.pt").read(), open("dir/a.bak").read())
"""


def test_files_whose_times_the_program_changes_are_still_earlier_ones(tmp_path):
    assert _run(tmp_path, str(tmp_path / "checkpoints"), "../begun", program=TOUCHING) == "False False new A+\n"
    assert {name: (tmp_path / "work" / name).read_text() for name in BEFORE} == BEFORE


FOLDERS = """
import os, shutil, sys
if len(sys.argv) > 1:
    from gpu2npu.emulator.shapes.file_calls import install
    install(sys.argv[1], os.stat(sys.argv[2]).st_ctime_ns)
def state(path):
    found = os.stat(path)
    return oct(found.st_mode & 0o777), int(found.st_mtime), sorted(os.listdir(path)), os.path.samefile(path, path)
os.chmod("dir", 0o700)
print(state("dir"))
os.utime("ck-1", (5, 5))
os.mkdir("own")
shutil.copystat("ck-1", "own")
print(state("ck-1"), state("own"), sorted(os.listdir()), os.path.exists("ck-1/w.pt"))
os.chmod("own", 0o750)
open("dir/new.txt", "w").close()
os.chmod("dir", 0o755)
print(state("own")[0], state("dir")[0], state("dir")[2], oct(os.lstat(b"dir").st_mode & 0o777))
"""


def test_modes_and_times_of_earlier_folders_are_the_programs_alone(tmp_path):
    plain = _run(tmp_path / "plain", program=FOLDERS)
    work = tmp_path / "over/work"
    found = _run(tmp_path / "over", str(tmp_path / "checkpoints"), "../begun", program=FOLDERS)
    assert [line.split()[0] for line in found.splitlines()] == [line.split()[0] for line in plain.splitlines()]
    assert found.splitlines()[1:] == plain.splitlines()[1:]
    assert (work / "dir").stat().st_mode & 0o777 == 0o755
    assert (work / "ck-1").stat().st_mtime > 5
    assert (work / "own").stat().st_mode & 0o777 == 0o750
