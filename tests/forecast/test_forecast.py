"""`gpu2npu run --shapes-only` from its start to the plan."""

import json
import subprocess
import sys
from importlib.resources import files

import jsonschema
import pytest

from gpu2npu.forecast import variants
from gpu2npu.forecast.plan import GUESSES, WAITS, make
from gpu2npu.forecast.runs import page
from gpu2npu.forecast.text import lines

SCHEMA = json.loads((files("gpu2npu.forecast") / "plan.schema.json").read_text(encoding="utf-8"))
WIDTH, LAYERS = 1024, 12
PROGRAM = f"""
import argparse, torch, torch_npu
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--gradient-checkpointing", action="store_true")
args = parser.parse_args()
model = torch.nn.Sequential(*[torch.nn.Linear({WIDTH}, {WIDTH}, bias=False) for _ in range({LAYERS})]).npu()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(2):
    x = torch.ones(args.batch_size, {WIDTH}, device="npu")
    for layer in model:
        if args.gradient_checkpointing:
            x = torch.utils.checkpoint.checkpoint(lambda v: layer(v).exp().exp().exp(), x, use_reentrant=False)
        else:
            x = layer(x).exp().exp().exp()
    loss = x.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
torch.save(dict(epoch=7, model=model.state_dict(), optimizer=optimizer.state_dict()), "last.pt")
found = torch.load("last.pt", map_location="cpu")
assert found["epoch"] == 7 and found["model"]["0.weight"].shape == (1024, 1024), found["model"]["0.weight"]
assert found["model"]["0.weight"].device.type == "cpu" and found["optimizer"]["state"][0]["step"].item() == 2
assert loss.expand(99).double().dtype is torch.float32

import os, torch.distributed.checkpoint as dcp
dcp.save(dict(wide=model[0].weight, steps=torch.arange(5), epoch=7), checkpoint_id="trained")
found = dict(wide=model[0].weight, steps=torch.zeros(5, dtype=torch.long), epoch=0)
dcp.load(found, checkpoint_id="trained")
assert found["epoch"] == 7 and found["steps"].tolist() == [0, 1, 2, 3, 4]
from deepspeed.runtime.engine import DeepSpeedEngine
DeepSpeedEngine().save_checkpoint("trained", tag="step1")
assert DeepSpeedEngine().load_checkpoint(load_dir="trained") == "step1"
assert DeepSpeedEngine().load_checkpoint("earlier") == "step9"
os.rename("trained", "moved")
dcp.load(found, checkpoint_id="moved")
assert sorted(os.listdir("moved")) == [".metadata", "__0_0.distcp", "latest", "step1"]
with open("best.pt", "wb") as file:
    torch.save(model.state_dict(), file)
torch.save(loss, "loss.tmp")
os.replace("loss.tmp", "loss.pt")
assert torch.load("loss.pt").shape == ()
for name in ("old.csv", "new.csv"):
    with open(name, "w") as file:
        file.write("0.0")
try:
    torch.linalg.vector_norm(torch.ones(3, dtype=torch.float64, device="npu"))
except RuntimeError as error:
    assert "EZ1001" in str(error)
torch.jit.save(torch.jit.script(torch.nn.ReLU()), "old.ts")
assert torch.jit.load("old.ts")(x).shape == x.shape
"""
# What each sample takes is 4 MiB, or 1.
GROWING = """
import argparse, torch, torch_npu
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--gradient-checkpointing", action="store_true")
args = parser.parse_args()
kept = [torch.ones(args.batch_size, 1 << 18, device="npu") for _ in range(1 if args.gradient_checkpointing else 4)]
"""
# The module, the class and the methods that DeepSpeed has.
ENGINE = """
import os, torch
class DeepSpeedEngine:
    def save_checkpoint(self, save_dir, tag=None):
        torch.save([torch.ones(2)], f"{save_dir}/{tag}")
        with open(f"{save_dir}/latest", "w") as file:
            file.write(tag)
    def load_checkpoint(self, load_dir):
        with open(f"{load_dir}/latest") as file:
            return file.read()
    save_16bit_model = save_checkpoint
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """The plan of a small training, and what the command printed."""
    folder = tmp_path_factory.mktemp("forecast")
    (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "deepspeed/runtime").mkdir(parents=True)
    (folder / "deepspeed/runtime/engine.py").write_text(ENGINE, encoding="utf-8")
    for name, tag in {"trained": "step8", "earlier": "step9"}.items():
        (folder / name).mkdir()
        (folder / name / "latest").write_text(tag, encoding="utf-8")
    (folder / "old.csv").write_text("0.125", encoding="utf-8")
    (folder / "old.ts").write_text("trained", encoding="utf-8")
    done = run(folder, "--batch-size", "4096")
    assert done.stdout == "0.0\n"
    return json.loads((folder / "plan.json").read_text(encoding="utf-8")), done.stderr, folder


def run(folder, *arguments, options=()):
    """The finished process of a forecast of train.py, whose plan is plan.json."""
    options = ["--shapes-only", "--soc", "Ascend910B4", *options, "--plan", "plan.json"]
    command = [sys.executable, "-m", "gpu2npu", "run", *options, "train.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_the_plan_is_as_its_schema_says(plan):
    jsonschema.validate(plan[0], SCHEMA)
    assert plan[0]["exit_code"] == 0
    assert plan[0]["fits"]


def test_static_parts_are_those_of_the_formulas(plan):
    parts = plan[0]["ranks"][0]["parts"]
    weights = WIDTH * WIDTH * LAYERS * 4
    assert parts["parameters"] == pytest.approx(weights, rel=0.01)
    assert parts["gradients"] == pytest.approx(weights, rel=0.3)  # the peak is before the last of them here
    assert parts["optimizer"] == pytest.approx(2 * weights, rel=0.01)
    assert parts["activations"] > 4096 * WIDTH * 4 * 3 * LAYERS * 0.9


def test_gradients_are_those_of_the_formula_where_the_peak_is_in_the_optimizer(tmp_path):
    program = PROGRAM.partition("torch.save(")[0]
    (tmp_path / "train.py").write_text(program, encoding="utf-8")
    run(tmp_path, "--batch-size", "1")
    rank = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["ranks"][0]
    assert "optimizer.step()" in program.splitlines()[int(rank["line"].partition(":")[2]) - 1]
    assert rank["parts"]["gradients"] == pytest.approx(WIDTH * WIDTH * LAYERS * 4, rel=0.01)


def test_the_peak_names_its_line_and_its_largest_tensors(plan):
    rank = plan[0]["ranks"][0]
    assert rank["line"].startswith("train.py:")
    assert len(rank["largest"]) == 10
    assert rank["largest"][0]["shape"] == [4096, WIDTH]
    assert rank["largest"][0]["size"] == 4096 * WIDTH * 4 + 512
    assert rank["reserved"] >= rank["allocated"]


def test_what_the_host_read_is_listed(plan):
    value = {"kind": "value", "what": "float32", "line": "train.py:20", "count": 1}
    copy = {"kind": "copy", "what": f"float32[{WIDTH}, {WIDTH}]", "line": "train.py:28", "count": 1}
    assert plan[0]["guesses"] == [value, copy]


def test_checkpoints_are_not_written_but_listed(plan):
    size = 3 * WIDTH * WIDTH * LAYERS * 4 + LAYERS * 4
    distributed = {"path": "trained/__0_0.distcp", "bytes": WIDTH * WIDTH * 4 + 5 * 8, "line": "train.py:28"}
    deepspeed = {"path": "trained/step1", "bytes": 8, "line": "deepspeed/runtime/engine.py:5"}
    last = {"path": "last.pt", "bytes": size, "line": "train.py:21"}
    assert plan[0]["checkpoints"][:3] == [last, distributed, deepspeed]
    assert [each["path"] for each in plan[0]["checkpoints"][3:]] == ["loss.tmp", "best.pt"]
    assert not list(plan[2].glob("*.pt"))
    assert [(each.name, each.read_text()) for each in plan[2].joinpath("trained").iterdir()] == [("latest", "step8")]


def test_files_that_were_there_are_as_they_were_and_new_ones_are_named(plan):
    names = {"new.csv": True, "old.csv": False, "old.ts": False}
    assert plan[0]["files"] == [{"path": name, "written": is_written} for name, is_written in names.items()]
    assert plan[2].joinpath("old.ts").read_text(encoding="utf-8") == "trained"
    assert plan[2].joinpath("old.csv").read_text(encoding="utf-8") == "0.125"
    assert plan[2].joinpath("new.csv").read_text(encoding="utf-8") == "0.0"
    assert "  Not changed, since it was there before: old.csv" in plan[1].splitlines()


def test_where_the_host_waits_is_listed(plan):
    assert plan[0]["waits"] == [{"for": "value", "line": "train.py:20", "count": 1}]


def test_more_ranks_are_those_of_the_launcher():
    command = ("torchrun", "--nproc_per_node", "2", "train.py", "--nproc_per_node=9")
    found = variants.more_ranks(command, 4)
    assert [each.applied_to(command) for each in found] == [
        ("torchrun", "--nproc_per_node=4", "train.py", "--nproc_per_node=9")
    ]
    assert [each.ranks for each in variants.more_ranks(("torchrun", "--nproc-per-node=2"), 8)] == [4, 8]
    assert variants.more_ranks(("torchrun", "--nproc_per_node=gpu", "train.py"), 8) == []
    assert variants.more_ranks(("train.py",), 8) == []


def test_the_largest_batch_was_run_and_the_next_does_not_fit(tmp_path):
    (tmp_path / "train.py").write_text(GROWING, encoding="utf-8")
    done = run(tmp_path, "--batch-size", "1024", options=["--what-fits"])
    plan = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    jsonschema.validate(plan, SCHEMA)
    found = {tuple(each["words"]): each for each in plan["variants"]}
    checkpointing = found.pop(("--gradient-checkpointing",))
    assert checkpointing["name"] == "activation checkpointing"
    assert checkpointing["reserved"] < plan["ranks"][0]["reserved"] < found["--batch-size", "2048"]["reserved"]
    largest, too_large = plan["largest_batch"], plan["batch_too_large"]
    assert found["--batch-size", str(largest)]["fits"] is True
    assert found["--batch-size", str(too_large)]["fits"] is False
    assert largest < too_large <= largest * 1.01
    assert f"  Largest batch that fits: {largest} ({too_large} does not)" in done.stderr.splitlines()
    assert "\n".join(lines(plan)) in done.stderr


def test_the_step_is_modelled_by_compute_memory_and_launches(plan):
    step = plan[0]["step"]
    assert step["steps"] == 2
    assert step["operations"] == 3 * 2 * 4096 * WIDTH * WIDTH * LAYERS - 2 * 4096 * WIDTH * WIDTH
    assert step["seconds"] == pytest.approx(step["compute"] + step["memory"] + step["launch"] + step["collectives"])


def test_text_and_page_say_what_the_plan_says(plan):
    assert "\n".join(lines(plan[0])) in plan[1]
    assert plan[0]["operators"]["refused"] == {"aten::linalg_vector_norm": 1}
    assert "  The NPU refuses 1 operators as they are called: aten::linalg_vector_norm" in plan[1].splitlines()
    text = page(plan[0])
    assert "train.py:20" in text
    assert "<td>refuses</td><td>aten::linalg_vector_norm</td><td>1</td>" in text
    assert 'id="verdict">fits<' in text


def test_an_option_without_shapes_only_is_refused():
    command = [sys.executable, "-m", "gpu2npu", "run", "--plan", "plan.json", "train.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--plan is for runs with --shapes-only" in done.stderr


@pytest.mark.parametrize(("exit_code", "reserved", "fits"), [(0, 1, True), (0, 3, False), (1, 1, None), (1, 3, False)])
def test_whether_a_program_fits_that_failed_is_not_known(exit_code, reserved, fits):
    lists = {key: [] for key in ("guesses", "checkpoints", "files", "waits", "steps", "collectives", "operators")}
    npu = {"index": 0, "reserved": reserved}
    process = {
        "npus": [npu],
        "chip": {"usable": 2, "half": None, "bandwidth": None},
        "rank": 0,
        "refusal": None,
        "operators": [],
        "behaviour": {},
        **lists,
    }
    assert make(["train.py"], [process], exit_code)["fits"] is fits


def test_each_wait_and_guess_of_a_plan_has_its_words() -> None:
    properties = SCHEMA["properties"]
    assert WAITS.keys() == {*properties["waits"]["items"]["properties"]["for"]["enum"]}
    assert GUESSES.keys() == {*properties["guesses"]["items"]["properties"]["kind"]["enum"]}


# As FSDP frees gathered parameters and takes them back.
RESIZING = """
import torch, torch_npu
gathered = [torch.empty(1 << 24, dtype=torch.uint8, device="npu") for _ in range(2)]
for tensor in gathered:
    tensor.untyped_storage().resize_(0)
for step in range(6):
    tensor = gathered[step % 2]
    tensor.untyped_storage().resize_(1 << 24)
    products = tensor + 1
    tensor.untyped_storage().resize_(0)
    del products
"""


def test_a_storage_that_is_resized_to_nothing_takes_no_memory(tmp_path):
    (tmp_path / "train.py").write_text(RESIZING, encoding="utf-8")
    command = [sys.executable, "-m", "gpu2npu", "run", "--shapes-only", "--plan", "plan.json", "train.py"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=300)
    rank = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["ranks"][0]
    assert rank["allocated"] == sum(rank["parts"].values()) == (2 << 24) + 2 * 512
    assert rank["reserved"] <= 40 << 20
    assert rank["end"] == 0
