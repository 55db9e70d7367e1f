"""Tests of where a program makes its process group, and of where it ends it."""

import pytest

from gpu2npu.codemods import plan_codemods
from gpu2npu.codemods.choice import DEFAULT_CHOICE
from gpu2npu.engine import ProjectContext
from tests.codemods.edited import after_edits

HEAD = """import os
import torch
import torch.distributed as dist
from torch import nn

def main():
    nn.parallel.DataParallel(net.cuda())(x).backward()
"""
BEGIN = """if 'RANK' not in os.environ:  # started without a launcher: one process on one card
    os.environ.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT='0')
torch.npu.set_device(int(os.environ['LOCAL_RANK']))
dist.init_process_group('hccl')
"""
INSIDE = "".join(f"    {line}\n" for line in BEGIN.splitlines())


def edited(source):
    plan = plan_codemods({"a.py": source.encode()}, ProjectContext(files=frozenset({"a.py"})), DEFAULT_CHOICE)
    return after_edits(source, plan.rewrites["a.py"].edits)


def after(source):
    """The rewritten text below the function that wraps."""
    return edited(source).partition(".backward()")[2].lstrip("\r\n")


OPTIONS = """    parser = argparse.ArgumentParser()
    parser.add_argument('--lr')
    args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("guarded", "result"),
    [
        (f"{OPTIONS}    main()\n", f"{OPTIONS}{INSIDE}    main()\n    dist.destroy_process_group()\n"),
        (f"    main()\n{OPTIONS}", f"{INSIDE}    main()\n{OPTIONS}    dist.destroy_process_group()\n"),
        ("    main()\n", f"{INSIDE}    main()\n    dist.destroy_process_group()\n"),
        ("    main()", f"{INSIDE}    main()\n    dist.destroy_process_group()\n"),
        ("    # all\n    main()\n", f"{INSIDE}    # all\n    main()\n    dist.destroy_process_group()\n"),
        (
            "    sys.exit(main())\n",
            f"{INSIDE}    status = main()\n    dist.destroy_process_group()\n    sys.exit(status)\n",
        ),
        ("    main()\n    exit()\n", f"{INSIDE}    main()\n    dist.destroy_process_group()\n    exit()\n"),
        (
            "    try:\n        main()\n    finally:\n        end()\n",
            f"{INSIDE}    try:\n        main()\n    finally:\n        end()\n    dist.destroy_process_group()\n",
        ),
    ],
)
def test_in_the_main_guard(guarded, result):
    line = "if __name__ == '__main__':\n"
    assert after(f"{HEAD}\n{line}{guarded}") == line + result


PARSED = INSIDE + "    nn.parallel.DistributedDataParallel("
# What reads the command line in main(), and in what main() calls: the group is made below `args = ...`.
READERS = {
    "main": OPTIONS,
    "defaults": OPTIONS.replace("'--lr'", "'--lr', type=float, default=os.environ.get('LR', '1').strip()"),
    "seed": f"    print('options of', __file__)\n    torch.manual_seed(0)\n{OPTIONS}",
    "function": "    args = options()\n",
    "class": "    args = Options().parse()\n",
}
FUNCTIONS = (
    f"def options():\n{OPTIONS.replace('args =', 'return')}\n\n"
    "class Options:\n    def parse(self):\n        return self.read().parse_args()\n"
    "    def read(self):\n        return argparse.ArgumentParser()\n\n"
)


@pytest.mark.parametrize("reads", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    "start", ["main()", "x = main()", "sys.exit(main())", "try:\n        main()\n    finally:\n        end()"]
)
def test_below_the_options_that_main_reads(reads, start):
    head = f"import argparse, sys\n{HEAD}".replace("def main():\n", f"{FUNCTIONS}def main():\n{reads}")
    text = edited(f"{head}\nif __name__ == '__main__':\n    {start}\n")
    assert f"def main():\n{reads}{PARSED}" in text and text.count("init_process_group") == 1
    assert "    dist.destroy_process_group()" in text.partition("__main__")[2]


def test_below_the_options_that_a_function_reads_which_main_calls():
    head = f"import argparse\n{HEAD}".replace("def main():\n", f"def main():\n    work()\n\ndef work():\n{OPTIONS}")
    assert f"{OPTIONS}{PARSED}" in edited(f"{head}\nmain()\n")


@pytest.mark.parametrize("call", ["main(options())", "main(argparse.ArgumentParser().parse_args())"])
def test_at_the_start_of_the_function_that_takes_the_options(call):
    head = f"import argparse\n{HEAD}".replace("def main():\n", f"{FUNCTIONS}def main(args):\n")
    assert f"def main(args):\n{PARSED}" in edited(f"{head}\nif __name__ == '__main__':\n    {call}\n")


def test_at_the_start_of_a_function_whose_decorator_reads_the_options():
    head = f"import click\n{HEAD}".replace("def main():\n", "@click.command()\n@click.option('--lr')\ndef main(lr):\n")
    assert f"def main(lr):\n{PARSED}" in edited(f"{head}\nif __name__ == '__main__':\n    main()\n")


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (f"    net = nn.Linear(2, 2).cuda()\n{OPTIONS}", "    main()\n"),
        (f"    work()\n{OPTIONS}", "    main()\n"),
        (f"    if x:\n        return\n{OPTIONS}", "    main()\n"),
        (f"    import os\n{OPTIONS}", "    main()\n"),
        (OPTIONS, "    main()\n    main()\n"),
        (OPTIONS, "    for each in range(2):\n        main()\n"),
        (OPTIONS, "    if x:\n        main()\n    test()\n"),
    ],
)
def test_in_the_guard_if_main_may_need_the_group_before_its_options_or_not_come_to_them(begin, rest):
    head = f"import argparse\n{HEAD}".replace("def main():\n", f"def main():\n{begin}")
    assert f"if __name__ == '__main__':\n{INSIDE}" in edited(f"{head}\nif __name__ == '__main__':\n{rest}")


def test_in_a_main_guard_of_one_line():
    reading = f"import argparse\n{HEAD}".replace("def main():\n", f"def main():\n{OPTIONS}")
    for head in (HEAD, reading):
        result = after(f"{head}\nif __name__ == '__main__': main()\n")
        assert result == f"if __name__ == '__main__':\n{INSIDE}    main()\n    dist.destroy_process_group()\n"


def test_line_ends_stay():
    source = f"{HEAD}\nif __name__ == '__main__':\n    main()\n".replace("\n", "\r\n")
    assert after(source).count("\r\n") == after(source).count("\n") == 7


def test_a_script_without_a_guard_makes_the_group_below_its_imports():
    result = after(f"{HEAD}\nx = 1\nmain()\n")
    assert result == "x = 1\nmain()\n\ndist.destroy_process_group()\n"


def test_what_uses_the_card_outside_of_functions_comes_after_the_group():
    source = HEAD.replace("\ndef", "net = nn.Linear(2, 2).cuda()\n\ndef") + "\nif __name__ == '__main__':\n    main()\n"
    assert after(source) == "if __name__ == '__main__':\n    main()\n\ndist.destroy_process_group()\n"


def in_package(source, others=()):
    """The text of a package's module after the rewrite."""
    files = {"app/train.py": source, "app/__init__.py": "", **dict(others)}
    sources = {path: text.encode() for path, text in files.items()}
    plan = plan_codemods(sources, ProjectContext(files=frozenset(files)), DEFAULT_CHOICE)
    return after_edits(source, plan.rewrites["app/train.py"].edits)


GUARD = "\nif __name__ == '__main__':\n    main()\n"
DOCUMENTED = HEAD.replace("main():\n", "main():\n    '''Train.'''\n")


OF_COMMAND = (
    "    if not dist.is_initialized():\n"
    + "".join(f"    {line}\n" for line in INSIDE.splitlines())
    + "        atexit.register(dist.destroy_process_group)\n"
)


@pytest.mark.parametrize("head", [HEAD, DOCUMENTED])
@pytest.mark.parametrize("guard", [GUARD, GUARD.replace("main()", "sys.exit(main())")])
@pytest.mark.parametrize("last", ["", "    return 0\n", "    if x is None:\n        return None\n    return 1\n"])
def test_a_function_that_a_command_may_start_makes_the_group_unless_there_is_one(head, guard, last):
    text = in_package(head + last + guard)
    start = head.partition("    nn.")[0].removeprefix("import os\n")
    assert f"{start}{OF_COMMAND}    nn.parallel.DistributedDataParallel(" in text
    assert "import atexit\n" in text and text.endswith(f".backward()\n{last}{guard}")
    assert text.count("destroy_process_group") == 1


@pytest.mark.parametrize(
    ("guard", "others"),
    [
        (GUARD.replace("main()", "main(1)"), {}),
        (GUARD.replace("    main()", "    start()\n    main()"), {}),
        (f"\nagain = main\n{GUARD}", {}),
        (GUARD, {"app/more.py": "from app.train import main\n\ndef twice():\n    main()\n    main()\n"}),
    ],
)
def test_a_function_that_other_code_calls_as_well_does_not(guard, others):
    text = in_package(HEAD + guard, others)
    assert "dist.is_initialized()" not in text
    assert "dist.init_process_group('hccl')" in text


@pytest.mark.parametrize("other", ["", "from app import main\n"])
def test_below_the_options_of_a_main_of_another_file_that_nobody_else_takes(other):
    main = HEAD.replace("main():\n", f"main():\n{OPTIONS}").replace("import os\n", "import argparse\nimport os\n")
    files = {"app.py": main, "b.py": other, "a.py": "from app import main\nif __name__ == '__main__':\n    main()\n"}
    context = ProjectContext(files=frozenset(files))
    plan = plan_codemods({path: text.encode() for path, text in files.items()}, context, DEFAULT_CHOICE)
    app, start = (after_edits(files[path], plan.rewrites[path].edits) for path in ("app.py", "a.py"))
    assert (f"{OPTIONS}{INSIDE}" in app) != bool(other)
    assert ("init_process_group" in start) == bool(other)
    assert start.endswith("    main()\n    dist.destroy_process_group()\n")


@pytest.mark.parametrize("other", ["main()", "main(); main()", "main() or make()"])
def test_below_the_options_of_a_main_that_two_programs_share(other):
    main = HEAD.replace("main():\n", f"main():\n{OPTIONS}").replace("import os\n", "import argparse\nimport os\n")
    start = "from app import main\nif __name__ == '__main__':\n    "
    files = {"app.py": main, "a.py": f"{start}main()\n", "b.py": f"{start}{other}\n"}
    context = ProjectContext(files=frozenset(files))
    plan = plan_codemods({path: text.encode() for path, text in files.items()}, context, DEFAULT_CHOICE)
    app, *starts = (after_edits(files[path], plan.rewrites[path].edits) for path in ("app.py", "a.py", "b.py"))
    is_shared = other == "main()"
    assert app.count(f"{OPTIONS}{INSIDE}") == is_shared
    assert ["init_process_group" in text for text in starts] == [not is_shared] * 2
    assert all(text.count("destroy_process_group()") == 1 for text in starts)
