import sqlite3
from pathlib import Path

import msgspec
import pytest

from gpu2npu.codemods import CodemodChoice, part_plan
from gpu2npu.project.cache.store import Store, content_digests
from gpu2npu.project.migrator import Migrator
from gpu2npu.project.planning import PartPlanning, StoredPlans
from gpu2npu.project.settings import RuleChoice

FILES = {
    "train.py": b"import torch\nfrom net import Net\n\n\ndef main():\n    model = torch.nn.DataParallel(Net().cuda())\n"
    b"    model(torch.ones(2).cuda()).backward()\n\n\nif __name__ == '__main__':\n    main()\n",
    "net.py": b"import torch\nfrom torch import cuda\n\n\nclass Net(torch.nn.Module):\n    def cuda(self):\n"
    b"        return self\n",
    "paths.py": b"import moxing\nopen('/cache/\xe9')\n# -*- coding: latin-1 -*-\n",
    "uses.py": b"from net import cuda\n",
}


def load(root: Path, files: dict[str, bytes] = FILES, **choice: object) -> Migrator:
    planning = PartPlanning(stored=StoredPlans(Store(root / "cache"), content_digests(files)))
    codemods = CodemodChoice(**choice)  # type: ignore[arg-type]
    return Migrator.load(RuleChoice(), "2.1.0", root, files, codemods, planning)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets the plan of each part made from now on, and not those taken from the folder."""
    plans: list[object] = []
    plan = part_plan.plan_part

    def recording(*arguments):
        plans.append(plan(*arguments))
        return plans[-1]

    monkeypatch.setattr(part_plan, "plan_part", recording)
    return plans


def test_what_was_collected_is_the_same_the_next_time(tmp_path: Path, planned: list[object]) -> None:
    first, second = load(tmp_path), load(tmp_path)
    assert len(planned) == 1
    assert first.plan.rewrites
    assert first.context.project_members["cuda"] == {"net.py"}
    assert (second.plan, second.context) == (first.plan, first.context)


def test_new_files_are_stored(tmp_path: Path, planned: list[object]) -> None:
    files = FILES | {"train.py": b"import torch\ntorch.load('s3://bucket/a')\nopen('/cache/a')\n"}
    first, second = (load(tmp_path, files, options={"modelarts": True}) for _ in range(2))
    assert len(planned) == 1
    assert first.plan.new_files
    assert second.plan == first.plan


@pytest.mark.parametrize(
    ("files", "choice"),
    [
        (FILES | {"net.py": b"import torch\n"}, {}),
        ({path: source for path, source in FILES.items() if path != "net.py"}, {}),
        (FILES, {"options": {"specify_device": True}}),
        (FILES, {"excluded": frozenset({"net.py"})}),
    ],
)
def test_another_project_or_choice_is_collected_anew(
    tmp_path: Path, planned: list[object], files: dict[str, bytes], choice: dict[str, object]
) -> None:
    load(tmp_path)
    load(tmp_path, files, **choice)
    assert len(planned) == 2


def test_a_part_whose_files_did_not_change_is_not_planned_again(tmp_path: Path, planned: list[object]) -> None:
    first = load(tmp_path)
    second = load(tmp_path, FILES | {"paths.py": b"import moxing\n"})
    assert len(planned) == 1 and second.plan == first.plan


def test_what_is_of_another_kind_is_collected_anew(tmp_path: Path, planned: list[object]) -> None:
    plan = load(tmp_path).plan
    with sqlite3.connect(Store(tmp_path / "cache").file) as connection:
        connection.execute("UPDATE records SET content = ?", (msgspec.msgpack.encode({"rewrites": {"a": 1}}),))
    connection.close()
    assert load(tmp_path).plan == plan
    assert len(planned) == 2
