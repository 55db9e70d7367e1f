import csv
import dataclasses
import json

import pytest
import torch
import torch_npu
from torch_npu.profiler import ProfilerAction, ProfilerActivity
from torch_npu.utils import profiler as older

OUTPUT = "ASCEND_PROFILER_OUTPUT"


def step():
    x = torch.randn(4, 4, device="npu", requires_grad=True)
    with torch.npu.mstx.annotate("product"):
        y = torch_npu.npu_rms_norm(x @ x, torch.ones(4, device="npu"))[0]
    y.sum().backward()


def rows(path, name):
    with (path / OUTPUT / name).open() as file:
        return list(csv.DictReader(file))


@pytest.fixture
def profiled(tmp_path):
    with torch_npu.profiler.profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.NPU],
        schedule=torch_npu.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1),
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(str(tmp_path), worker_name="me"),
        record_shapes=True,
        profile_memory=True,
        experimental_config=torch_npu.profiler._ExperimentalConfig(
            profiler_level=torch_npu.profiler.ProfilerLevel.Level1,
            aic_metrics=torch_npu.profiler.AiCMetrics.PipeUtilization,
        ),
    ) as prof:
        prof.add_metadata("model", "tiny")
        prof.add_metadata_json("sizes", "[1, 2]")
        for _ in range(10):
            step()
            prof.step()
    return sorted(tmp_path.iterdir())


def test_files_lie_as_torch_npus_do(profiled):
    assert len(profiled) == 2  # two cycles
    for path in profiled:
        assert path.name.startswith("me_")
        assert path.name.endswith("_ascend_pt")
        assert {each.name for each in (path / OUTPUT).iterdir()} == {
            "kernel_details.csv",
            "memory_record.csv",
            "op_statistic.csv",
            "operator_details.csv",
            "operator_memory.csv",
            "step_trace_time.csv",
            "trace_view.json",
        }
        assert json.loads((path / "profiler_metadata.json").read_text()) == {"model": "tiny", "sizes": [1, 2]}
    info = json.loads((profiled[0] / "profiler_info.json").read_text())
    assert info["config"]["experimental_config"]["_profiler_level"] == "Level1"


def test_the_tables_hold_the_operators_of_the_active_steps(profiled):
    first, second = profiled
    assert [row["Step"] for row in rows(first, "step_trace_time.csv")] == ["3", "4"]
    assert [row["Step"] for row in rows(second, "step_trace_time.csv")] == ["7", "8"]
    names = [row["Name"] for row in rows(first, "operator_details.csv")]
    assert names.count("npu::npu_rms_norm") == names.count("npu::npu_rms_norm_backward") == 2
    assert names.count("aten::mm") == 6  # forward, and two for each backward
    kernel = next(row for row in rows(first, "kernel_details.csv") if row["Type"] == "MatMulV2")
    assert (kernel["Name"], kernel["Accelerator Core"]) == ("aclnnMm_MatMulV2AiCore_MatMulV2", "AI_CORE")
    assert (kernel["Input Shapes"], kernel["OP State"], kernel["Step Id"]) == ('"4,4;4,4"', "static", "3")
    assert kernel["Input Data Types"] == "FLOAT;FLOAT"
    statistic = {row["OP Type"]: row for row in rows(first, "op_statistic.csv")}
    assert statistic["MatMulV2"]["Count"] == "6"
    assert sum(float(row["Ratio(%)"]) for row in statistic.values()) == pytest.approx(100, abs=0.1)
    for row in rows(first, "step_trace_time.csv"):
        assert float(row["Computing"]) > 0


def test_the_trace_is_a_chrome_trace(profiled):
    events = json.loads((profiled[0] / OUTPUT / "trace_view.json").read_text())
    assert {"ProfilerStep#3", "ProfilerStep#4", "aten::mm", "aclnnMm_MatMulV2AiCore_MatMulV2"} <= {
        event["name"] for event in events
    }
    marks = [event for event in events if event.get("cat") == "mstx"]
    assert [mark["name"] for mark in marks] == ["product", "product"]
    assert all(mark["dur"] > 0 for mark in marks)
    assert all("ts" in event for event in events if event["ph"] == "X")


def profiled_once(tmp_path, work, **options):
    """The folder of a profile without a schedule, and the profile."""
    with torch_npu.profiler.profile(
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(str(tmp_path / "profile")), **options
    ) as prof:
        work()
    (path,) = (tmp_path / "profile").iterdir()
    return path, prof


def test_the_lanes_are_those_that_tools_look_for(profiled):
    """And every event is one of the trace format: what viewers need of each phase is there."""
    events = json.loads((profiled[0] / OUTPUT / "trace_view.json").read_text())
    lanes = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert set(lanes) == {"Python", "CANN", "Ascend Hardware", "Overlap Analysis"}
    needed = {"X": {"name", "pid", "tid", "ts", "dur"}, "M": {"name", "pid", "args"}}
    needed |= {phase: {"id", "cat", "name", "pid", "tid", "ts"} for phase in "sf"}
    for event in events:
        assert needed[event["ph"]] <= event.keys()
        assert float(event.get("ts", 0)) >= 0
        assert event.get("dur", 0) >= 0
    arrows = {phase: {e["id"] for e in events if e["ph"] == phase and e["cat"] == "async_npu"} for phase in "sf"}
    assert arrows["s"] == arrows["f"] != set()
    callers = {(e["ts"], e["tid"]) for e in events if e.get("cat") == "cpu_op"}
    assert all((e["ts"], e["tid"]) in callers for e in events if e["ph"] == "s" and e["cat"] == "async_npu")


def test_overlap_analysis_adds_up(profiled):
    events = json.loads((profiled[0] / OUTPUT / "trace_view.json").read_text())
    (lane,) = {e["pid"] for e in events if e["name"] == "process_name" and e["args"]["name"] == "Overlap Analysis"}
    spans = [e for e in events if e["pid"] == lane and e["ph"] == "X"]
    computed = sum(e["dur"] for e in spans if e["name"] == "Computing")
    free = sum(e["dur"] for e in spans if e["name"] == "Free")
    first, last = min(float(e["ts"]) for e in spans), max(float(e["ts"]) + e["dur"] for e in spans)
    assert computed + free == pytest.approx(last - first, rel=1e-3)
    for row in rows(profiled[0], "step_trace_time.csv"):
        parts = [float(row[name]) for name in ("Computing", "Communication(Not Overlapped)", "Free")]
        assert sum(parts) == pytest.approx(float(row["Stage"]), rel=1e-6)


def test_the_hosts_operators_hold_their_kernels(profiled):
    product = next(row for row in rows(profiled[0], "operator_details.csv") if row["Name"] == "aten::matmul")
    host, device = float(product["Host Total Duration(us)"]), float(product["Device Total Duration(us)"])
    assert 0 < device <= host
    assert float(product["Device Total Duration With AICore(us)"]) == device
    assert float(product["Device Self Duration(us)"]) == 0  # its kernel is that of aten::mm, which it calls


def test_copies_between_host_and_device(tmp_path):
    x = torch.ones(1 << 18)
    path, prof = profiled_once(tmp_path, lambda: x.npu().sum().item())
    copies = [(copy.to_device, copy.size) for copy in prof._recording.copies]
    assert copies == [(True, 1 << 20), (False, 4)]
    assert [event.name for event in prof.events()] == ["aten::sum"]
    trace = json.loads((path / OUTPUT / "trace_view.json").read_text())
    moved = [event for event in trace if event["name"] == "MEMCPY_ASYNC"]
    assert [event["args"]["Task Type"] for event in moved] == ["PCIE_DMA_SQE"] * 2
    assert any(event["name"].startswith("AscendCL@aclrtSynchronizeStream") for event in trace)


def test_blocks_of_memory_live_from_their_allocation_to_their_release(tmp_path):
    def work():
        held.append(torch.ones(1 << 18, device="npu"))
        _ = torch.ones(1 << 16, device="npu") + 1

    held = []
    path, _ = profiled_once(tmp_path, work, profile_memory=True)
    blocks = rows(path, "operator_memory.csv")
    sizes = [(float(row["Size(KB)"]), row["Release Time(us)"] != "") for row in blocks]
    assert (1024.5, False) in sizes
    assert sizes.count((256.5, True)) == 2
    assert all(float(row["Duration(us)"]) > 0 for row in blocks if row["Release Time(us)"])
    totals = [float(row["Total Allocated(MB)"]) for row in rows(path, "memory_record.csv")]
    assert totals[-1] - totals[0] == pytest.approx(0, abs=1e-3)
    assert max(totals) == pytest.approx(totals[0] + 0.5, abs=1e-3)


def test_call_stacks_end_in_the_script(tmp_path):
    path, prof = profiled_once(tmp_path, step, with_stack=True)
    trace = json.loads((path / OUTPUT / "trace_view.json").read_text())
    stacks = {event["name"]: event["args"]["Call stack"] for event in trace if "Call stack" in event.get("args", {})}
    assert f"{__file__}(" in stacks["aten::mm"].split(";\r\n")[0]
    assert stacks["aten::mm"].split(";\r\n")[0].endswith(": step")
    assert "emulator" not in stacks["aten::mm"].replace(__file__, "")
    prof.export_stacks(str(tmp_path / "stacks.txt"))
    assert any("aten::mm" in line for line in (tmp_path / "stacks.txt").read_text().splitlines())


def test_floating_point_operations(tmp_path):
    x = torch.ones(16, 32, device="npu")
    path, _ = profiled_once(tmp_path, lambda: x @ x.t(), with_flops=True, record_shapes=True)
    trace = json.loads((path / OUTPUT / "trace_view.json").read_text())
    assert [e["args"]["flops"] for e in trace if e["name"] == "aten::mm"] == [2 * 16 * 32 * 16]


def test_an_operator_that_the_npu_lacks_is_one_of_the_cpu(tmp_path, monkeypatch):
    from torch_npu.profiler import observing

    kind = observing._kind(torch.ops.aten.exp.default)
    lacking = dataclasses.replace(kind, on_cpu=True)
    monkeypatch.setattr(observing, "_kind", lambda func: lacking if "exp" in func.name() else None)
    x = torch.ones(4, device="npu")
    path, _ = profiled_once(tmp_path, lambda: x.exp())
    assert [row["Accelerator Core"] for row in rows(path, "kernel_details.csv")] == ["AI_CPU"]


def test_profiling_leaves_no_trace_in_operators(tmp_path):
    from gpu2npu.emulator.device.memory import memory

    profiled_once(tmp_path, step, profile_memory=True)
    assert type(memory.blocks) is memory._Blocks
    assert not torch._C._autograd._profiler_enabled()


def test_without_a_schedule_the_whole_block_is_recorded(tmp_path):
    ready = []
    with torch_npu.profiler.profile(on_trace_ready=ready.append) as prof:
        step()
    assert ready == [prof]
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert any(event["name"] == "aten::mm" for event in json.loads((tmp_path / "trace.json").read_text()))
    assert all(event.name != "aten::t" for event in prof.events())  # views are no work
    prof.start()
    step()
    prof.stop()
    assert len(ready) == 2


def test_schedules_agree_with_pytorchs():
    theirs = torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=2, skip_first=4)
    ours = torch_npu.profiler.schedule(wait=2, warmup=1, active=3, repeat=2, skip_first=4)
    assert [ours(i).name for i in range(30)] == [theirs(i).name for i in range(30)]
    with pytest.warns(UserWarning, match="Invalid parameter active"):
        assert torch_npu.profiler.schedule(wait=0, active=0)(0) is ProfilerAction.RECORD_AND_SAVE


def test_what_is_not_written_says_so():
    prof = torch_npu.profiler.profile()
    with pytest.raises(RuntimeError, match="requires with_stack=True"):
        prof.export_stacks("stacks.txt")
    with pytest.warns(UserWarning, match="is not JSON"):
        prof.add_metadata_json("a", "{")


@pytest.mark.parametrize("kind", ["TORCH", "ASCEND_PROFILER"])
def test_the_older_profile_records_one_step_and_ends_the_script(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(older, "_the_profile", [])
    profile = older.Profile(start_step=2, save_path=str(tmp_path / "out"), profile_type=kind, with_stack=False)
    assert older.Profile() is profile
    profile.start()
    with pytest.raises(RuntimeError, match="only be called once"):
        profile.start()
    profile.end()
    with pytest.raises(RuntimeError, match="before end"):
        profile.end()
    profile.start()
    step()
    with pytest.raises(SystemExit):
        profile.end()
    (written,) = (tmp_path / "out").iterdir()
    trace = written if kind == "TORCH" else written / OUTPUT / "trace_view.json"
    assert "aten::mm" in trace.read_text()


def test_the_older_profile_without_a_known_type_does_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(older, "_the_profile", [])
    profile = older.Profile(start_step=1, save_path=str(tmp_path / "out"))
    profile.start()
    profile.end()
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(older, "_the_profile", [])
    with pytest.raises(ValueError, match="ASCEND_PROFILER takes no config"):
        older.Profile(profile_type="ASCEND_PROFILER", config=1)
