"""Settings that make training wait: one row for each cause in a project, with the line to write."""

import pytest

from gpu2npu.analysis.affinity.settings import SETTINGS, settings_advice
from gpu2npu.records import MigratedFile
from gpu2npu.report.tables import performance_rows

HEAD = "import torch\nfrom torch.utils.data import DataLoader\nfrom torch.nn.parallel import DistributedDataParallel\n"
LOOP = "def train(model, loader: DataLoader, device):\n    for x, y in loader:\n{}        model(x).sum().backward()\n"
DDP = (
    "DistributedDataParallel(m, bucket_cap_mb=50, static_graph=True, gradient_as_bucket_view=True, "
    "broadcast_buffers=False)\n"
)
MAIN = 'if __name__ == "__main__":\n    train()\n'


def found(parse, text: str, version: str = "2.7.1", chip: str = "910B") -> dict[str, tuple[int, str]]:
    advice = settings_advice(parse(HEAD + text), version, [chip])
    return {each.rule: (each.span.start_line, each.message) for each in advice}


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("DataLoader(d, 8)\n", {"loader-workers", "loader-pinned"}),
        ("DataLoader(d, 8, True)\n", {"loader-workers", "loader-pinned", "loader-last-batch"}),
        ("DataLoader(d, 8, sampler=s)\n", {"loader-workers", "loader-pinned", "loader-last-batch"}),
        ("DataLoader(d, 8, shuffle=on)\n", {"loader-workers", "loader-pinned", "loader-last-batch"}),
        ("DataLoader(d, 8, shuffle=False)\n", {"loader-workers", "loader-pinned"}),
        (
            "self.data = DataLoader(d, 8, num_workers=0, pin_memory=True)\n"
            "for i, x in enumerate(self.data):\n    f(x).backward()\n",
            {"loader-last-batch"},
        ),
        (
            "data = DataLoader(d, 8, num_workers=0, pin_memory=True)\nfor x in data:\n    f(x)\n",
            set(),
        ),
        ("for x in DataLoader(d, 8, num_workers=0, pin_memory=True):\n    f(x).backward()\n", {"loader-last-batch"}),
        (
            "DataLoader(d, 8, num_workers=4, pin_memory=True, drop_last=True)\n",
            {"loader-persistent", "loader-prefetch"},
        ),
        ("DataLoader(d, 8, num_workers=0, pin_memory=True, drop_last=True)\n", set()),
        ("DataLoader(d, batch_sampler=s, num_workers=0, pin_memory=True)\n", set()),
        ("DataLoader(d, batch_size=None, num_workers=0, pin_memory=True)\n", set()),
        ("DataLoader(d, None, num_workers=0, pin_memory=True)\n", set()),
        ("DataLoader(d, **options)\n", set()),
        ("DistributedDataParallel(m)\n", {"ddp-views", "ddp-static", "ddp-bucket", "ddp-buffers"}),
        (
            "DistributedDataParallel(m, bucket_cap_mb=50, static_graph=True)\n",
            {"ddp-views", "ddp-buffers"},
        ),
        (DDP + LOOP.format("") + "        if i % 4 == 0:\n            opt.step()\n", {"ddp-no-sync"}),
        (DDP + LOOP.format("") + "        opt.step()\n", set()),
        (DDP + LOOP.format("        model.no_sync()\n") + "        if i % 4 == 0:\n            opt.step()\n", set()),
        ("torch.distributed.init_process_group('hccl')\n", {"hccl-timeouts"}),
        ("torch.autograd.set_detect_anomaly(True)\n", {"detect-anomaly"}),
        ("with torch.autograd.detect_anomaly():\n    f()\n", {"detect-anomaly"}),
        ("torch.autograd.set_detect_anomaly(False)\n", set()),
        (LOOP.format("        x = x.to(device)\n"), {"copy-waits"}),
        (LOOP.format("        x = x.to(device, non_blocking=True)\n"), set()),
        (LOOP.format("        x = x.to(torch.float32)\n        y = y.to(x.dtype)\n"), set()),
        (LOOP.format("        total = x.mean().item()\n"), {"host-waits"}),
        (LOOP.format("        if step % 10 == 0:\n            total = x.mean().item()\n"), set()),
        ("def test(x):\n    for y in x:\n        print(y.sum().item())\n", set()),
        (LOOP.format("        t = torch.ones(3)\n        if t.sum() > 1:\n            pass\n"), {"host-branches"}),
        (
            LOOP.format("") + MAIN,
            {"task-queue", "cpu-affinity", "expandable-segments", "hf32"},
        ),
        ("y = torch.ones(2) * torch.tensor([0.5, 1], dtype=torch.float64)\n", {"float64-constant"}),
        ("y = torch.ones(2) * torch.tensor([0.5, 1])  # float64\n", set()),
        ("y = torch.ones(2).double() * torch.tensor(2, dtype=torch.float64)\n", set()),
    ],
)
def test_causes(parse, text: str, rules: set[str]) -> None:
    assert set(found(parse, text)) == rules


@pytest.mark.parametrize(
    ("version", "chip", "is_advised"), [("2.7.1", "910A", True), ("1.11.0", "910B", True), ("2.7.1", "910B", False)]
)
def test_operators_are_compiled_for_new_shapes_on_old_chips_and_by_old_cann(parse, version, chip, is_advised) -> None:
    text = "from torch.nn.utils.rnn import pad_sequence\nx = pad_sequence(parts)\n"
    assert set(found(parse, text, version, chip)) == ({"jit-compile"} if is_advised else set())
    drawn = LOOP.format("        side = random.choice([24, 32])\n        x = F.interpolate(x, size=(side, side))\n")
    assert set(found(parse, drawn, version, chip)) == ({"jit-compile"} if is_advised else set())
    fixed = drawn.replace("random.choice([24, 32])", "max(24, 32)")
    assert not found(parse, fixed, version, chip)
    named = drawn.replace("size=(side, side)", "size=pair").replace(
        "        x = F", "        pair = [side, 32]\n        x = F"
    )
    assert set(found(parse, named, version, chip)) == ({"jit-compile"} if is_advised else set())
    assert not found(
        parse, f"import random\nside = random.choice([24, 32])\n{fixed}".replace("max(24, 32)", "side"), version, chip
    )


@pytest.mark.parametrize(
    ("text", "version", "is_advised"),
    [
        ("num_workers=0, pin_memory=True", "2.6.0", True),
        ("num_workers=0, pin_memory=on", "2.1.0", True),
        ("num_workers=0, pin_memory=True", "2.7.1", False),
        ("num_workers=0, pin_memory=False", "2.6.0", False),
        ("num_workers=0, pin_memory=True, pin_memory_device='npu'", "2.6.0", False),
    ],
)
def test_a_loader_pins_memory_for_cuda_alone_before_a_release(parse, text, version, is_advised) -> None:
    advised = found(parse, f"DataLoader(d, 8, drop_last=True, {text})\n", version)
    assert ("loader-pinned-device" in advised) is is_advised


def test_one_row_for_each_cause_in_a_project(parse) -> None:
    text = LOOP.format("        a = x.mean().item()\n        b = y.cpu()\n")
    files = [
        MigratedFile(path, advice=tuple(settings_advice(parse(HEAD + text), "2.7.1", ["910B"])))
        for path in ("b.py", "a.py")
    ]
    assert [row[:4] for row in performance_rows(files)] == [("a.py", 6, 6, SETTINGS["host-waits"].line)]
    assert str(performance_rows(files)[0][4]).endswith("at once. 4 places in 2 files.")
    assert str(performance_rows(files[:1])[0][4]).endswith("at once. 2 places.")


def test_what_is_set_is_not_advised(parse) -> None:
    text = LOOP.format("") + MAIN + 'os.environ["TASK_QUEUE_ENABLE"] = "2"\ntorch.npu.matmul.allow_hf32 = False\n'
    assert set(found(parse, text)) == {"cpu-affinity", "expandable-segments"}


def test_each_has_a_reason_and_a_line() -> None:
    for setting in SETTINGS.values():
        assert setting.why.endswith(".") and setting.line
