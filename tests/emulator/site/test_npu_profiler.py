import csv
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
    kernel = next(row for row in rows(first, "kernel_details.csv") if row["Type"] == "Mm")
    assert (kernel["Name"], kernel["Accelerator Core"], kernel["Input Shapes"]) == ("aclnnMm", "AI_CORE", "4,4;4,4")
    assert kernel["Input Data Types"] == "FLOAT;FLOAT"
    statistic = {row["OP Type"]: row for row in rows(first, "op_statistic.csv")}
    assert statistic["Mm"]["Count"] == "6"
    assert sum(float(row["Ratio(%)"]) for row in statistic.values()) == pytest.approx(100, abs=0.1)
    for row in rows(first, "step_trace_time.csv"):
        assert float(row["Computing"]) > 0


def test_the_trace_is_a_chrome_trace(profiled):
    events = json.loads((profiled[0] / OUTPUT / "trace_view.json").read_text())
    assert {"ProfilerStep#3", "ProfilerStep#4", "aten::mm", "aclnnMm"} <= {event["name"] for event in events}
    marks = [event for event in events if event.get("cat") == "mstx"]
    assert [mark["name"] for mark in marks] == ["product", "product"]
    assert all(mark["dur"] > 0 for mark in marks)
    assert all("ts" in event for event in events if event["ph"] == "X")


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
    with pytest.raises(NotImplementedError, match="writes no database"):
        torch_npu.profiler._ExperimentalConfig(export_type=torch_npu.profiler.ExportType.Db)
    prof = torch_npu.profiler.profile()
    with pytest.raises(NotImplementedError, match="records no call stacks"):
        prof.export_stacks("stacks.txt")
    with pytest.warns(UserWarning, match="is no JSON"):
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
