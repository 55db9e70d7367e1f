import sqlite3
from contextlib import closing

import pytest
import torch
import torch_npu
from torch_npu.profiler import database
from torch_npu.profiler.recording import CollectiveEvent, Recording

MS = 1_000_000  # nanoseconds


def read(path, query):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Two steps of a training, profiled into databases."""
    folder = tmp_path_factory.mktemp("profile")
    profiler = torch_npu.profiler
    with profiler.profile(
        schedule=profiler.schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=profiler.tensorboard_trace_handler(str(folder)),
        profile_memory=True,
        with_stack=True,
        experimental_config=profiler._ExperimentalConfig(
            profiler_level=profiler.ProfilerLevel.Level1, export_type=profiler.ExportType.Db
        ),
    ) as profile:
        for _ in range(3):
            x = torch.ones(4, 4).npu().requires_grad_()
            (x @ x).sum().backward()
            profile.step()
    (path,) = folder.iterdir()
    return path / "ASCEND_PROFILER_OUTPUT"


def test_a_database_stands_in_place_of_the_text(output):
    assert {each.name for each in output.iterdir()} == {"ascend_pytorch_profiler.db", "analysis.db"}
    assert (output.parent / "profiler_info.json").exists()


def test_an_operator_leads_to_its_kernels(output):
    found = read(
        output / "ascend_pytorch_profiler.db",
        """
        SELECT name.value, kind.value, unit.value, shapes.value, task.endNs > task.startNs FROM PYTORCH_API AS api
        JOIN ENUM_API_TYPE ON ENUM_API_TYPE.id = api.type AND ENUM_API_TYPE.name = 'op'
        JOIN CONNECTION_IDS AS link ON link.id = api.connectionId
        JOIN CANN_API AS call ON call.connectionId = link.connectionId
        JOIN TASK AS task ON task.connectionId = call.connectionId
        JOIN COMPUTE_TASK_INFO AS info ON info.globalTaskId = task.globalTaskId
        JOIN STRING_IDS AS name ON name.id = api.name
        JOIN STRING_IDS AS kind ON kind.id = info.opType
        JOIN STRING_IDS AS unit ON unit.id = task.taskType
        JOIN STRING_IDS AS shapes ON shapes.id = info.inputShapes
        """,
    )
    assert found.count(("aten::mm", "MatMulV2", "KERNEL_AICORE", "4,4;4,4", 1)) == 6
    assert found.count(("aten::sum", "Sum", "KERNEL_AIVEC", "4,4", 1)) == 2


def test_stacks_and_pairs_of_forward_and_backward(output):
    path = output / "ascend_pytorch_profiler.db"
    (stack,) = read(
        path,
        """
        SELECT DISTINCT line.value FROM PYTORCH_API AS api
        JOIN STRING_IDS AS name ON name.id = api.name AND name.value = 'aten::sum'
        JOIN PYTORCH_CALLCHAINS AS chain ON chain.id = api.callchainId AND chain.stackDepth = 0
        JOIN STRING_IDS AS line ON line.id = chain.stack
        """,
    )
    assert "test_profiler_database.py" in stack[0]
    pairs = read(
        path,
        """
        SELECT group_concat(name.value) FROM PYTORCH_API AS api
        JOIN CONNECTION_IDS AS link ON link.id = api.connectionId AND link.connectionId >= 1 << 28
        JOIN STRING_IDS AS name ON name.id = api.name GROUP BY link.connectionId
        """,
    )
    assert len(pairs) >= 4
    assert all(sum("Backward" in name for name in pair.split(",")) == 1 for (pair,) in pairs)


def test_steps_and_copies_and_memory(output):
    path = output / "ascend_pytorch_profiler.db"
    assert [row[0] for row in read(path, "SELECT id FROM STEP_TIME WHERE endNs > startNs")] == [1, 2]
    assert read(path, "SELECT size, memcpyOperation FROM MEMCPY_INFO") == [(64, 1), (64, 1)]
    made = read(path, "SELECT value FROM OP_MEMORY JOIN STRING_IDS ON STRING_IDS.id = name WHERE allocationTime > 0")
    assert ("aten::mm",) in made
    steps = read(output / "analysis.db", "SELECT step, computing, computing + free - stage FROM StepTraceTime")
    assert [step for step, _, _ in steps] == ["1", "2"]
    for _, computing, difference in steps:
        assert computing > 0
        assert difference == pytest.approx(0, abs=0.01)


def test_collectives(tmp_path):
    group = CollectiveEvent("allreduce", "hccl_0", 1, (0, 1, 2), (3_000_000,) * 3, 1, 4, 0, 2 * MS, 8 * MS)
    database.write_all(tmp_path, Recording(collectives=[group]), 1, {"parallel_group_info": {}}, memory=False)
    path = tmp_path / "ascend_pytorch_profiler_1.db"
    assert read(path, "SELECT rankId, deviceId FROM RANK_DEVICE_MAP") == [(1, 1)]
    assert read(path, "SELECT value FROM META_DATA WHERE name = 'parallel_group_info'") == [("{}",)]
    assert read(path, "SELECT value, count FROM COMMUNICATION_OP JOIN STRING_IDS ON id = opType") == [
        ("hcom_allReduce_", 9_000_000)
    ]
    parts = read(
        path,
        """
        SELECT value, TASK.startNs, TASK.endNs, srcRank, dstRank, size, bandwidth FROM COMMUNICATION_TASK_INFO AS part
        JOIN TASK ON TASK.globalTaskId = part.globalTaskId JOIN STRING_IDS ON id = part.taskType
        """,
    )
    assert parts == [
        ("Notify_Wait", 0, 2 * MS, 1, 0, 0, 0),
        ("Memcpy", 2 * MS, 8 * MS, 1, 0, 3_000_000, 5e8),
        ("Memcpy", 2 * MS, 8 * MS, 1, 2, 3_000_000, 5e8),
    ]
    analysis = tmp_path / "analysis.db"
    times = "elapse_time, transit_time, wait_time, idle_time, step, type"
    assert read(analysis, f"SELECT {times} FROM CommAnalyzerTime") == [(8, 6, 2, 0, "step4", "collective")]
    sizes = read(analysis, "SELECT transport_type, transit_size, count FROM CommAnalyzerBandwidth")
    assert sizes == [("HCCS", 6, 1), ("SDMA", 6, 1)]
    links = read(analysis, "SELECT src_rank, dst_rank, transit_size, op_name FROM CommAnalyzerMatrix")
    assert links == [("1", str(rank), 3, "allReduce") for rank in range(3)]


def test_both_kinds_and_a_kind_that_does_not_exist(tmp_path):
    profiler = torch_npu.profiler
    both = profiler._ExperimentalConfig(export_type=[profiler.ExportType.Text, profiler.ExportType.Db])
    handler = profiler.tensorboard_trace_handler(str(tmp_path))
    with profiler.profile(on_trace_ready=handler, experimental_config=both):
        torch.ones(2).npu() + 1
    (path,) = tmp_path.iterdir()
    names = {each.name for each in (path / "ASCEND_PROFILER_OUTPUT").iterdir()}
    assert {"trace_view.json", "analysis.db"} <= names
    with pytest.warns(UserWarning, match="Invalid parameter export_type"):
        assert profiler._ExperimentalConfig(export_type="xml").options["_export_type"] == ["text"]
