import pickle
import re

import pytest
import torch
from torch.cuda import _memory_viz

from gpu2npu.emulator.device.memory import memory

MIB = 1 << 20


@pytest.fixture
def recorded():
    """Recording of memory, ended afterwards."""
    torch.npu.memory._record_memory_history()
    yield
    torch.npu.memory._record_memory_history(enabled=None)
    assert type(memory.blocks) is memory._Blocks


def keep(size):
    return torch.ones(size, dtype=torch.uint8, device="npu:1")


def test_a_snapshot_tells_who_holds_what_and_what_was_freed(recorded):
    held = keep(3 * MIB)
    gone = keep(MIB).data_ptr()
    snapshot = torch.npu.memory._snapshot()
    (segment,) = (each for each in snapshot["segments"] if each["address"] == held.data_ptr())
    assert (segment["device"], segment["total_size"], segment["segment_type"]) == (1, 3 * MIB + 512, "large")
    (frame, *_) = segment["blocks"][0]["frames"]
    assert (frame["filename"], frame["name"]) == (__file__, "keep")
    trace = [(entry["action"], entry["addr"]) for entry in snapshot["device_traces"][1]]
    assert ("alloc", held.data_ptr()) in trace
    assert trace[-3:] == [("alloc", gone), ("free_requested", gone), ("free_completed", gone)]
    assert len(snapshot["device_traces"]) == torch.npu.device_count()


def test_the_last_entries_are_stored():
    torch.npu.memory._record_memory_history(max_entries=2, context=None)
    keep(MIB)
    trace = torch.npu.memory._snapshot()["device_traces"][1]
    torch.npu.memory._record_memory_history(enabled=None)
    assert [(entry["action"], entry["frames"]) for entry in trace] == [("free_requested", []), ("free_completed", [])]
    assert torch.npu.memory._snapshot()["device_traces"][1] == []


@pytest.mark.parametrize("options", [{"enabled": "some"}, {"context": "none"}, {"stacks": "java"}])
def test_options_that_do_not_exist(options):
    with pytest.raises(RuntimeError, match=f"expected {next(iter(options))} to be one of"):
        torch.npu.memory._record_memory_history(**options)


def test_pytorchs_visualiser_reads_the_pickle(recorded, tmp_path):
    held = keep(3 * MIB)  # of which it knows the segment
    path = tmp_path / "snapshot.pickle"
    torch.npu.memory._dump_snapshot(str(path))
    snapshot = pickle.loads(path.read_bytes())
    assert held.nbytes == 3 * MIB
    assert re.search(r"seg_\d+\[0:3\.0MiB\]", _memory_viz.trace(snapshot))  # other tests may hold memory too
    for plot in (_memory_viz.trace_plot, _memory_viz.segment_plot):
        assert "MemoryViz.js" in plot(snapshot)


def test_statistics_have_every_name_that_pytorchs_allocators_have():
    before = torch.npu.memory_stats(2)
    parts = [f"{pool}.{metric}" for pool in ("all", "large_pool", "small_pool") for metric in METRICS]
    names = {f"{name}.{part}" for name in COUNTERS for part in parts}
    names |= {f"{name}.{metric}" for name in ("oversize_allocations", "oversize_segments") for metric in METRICS}
    names |= {"num_alloc_retries", "num_ooms", "max_split_size", "num_sync_all_streams"}
    assert before.keys() == names | {"num_device_alloc", "num_device_free"}
    large = torch.ones(3 * MIB, dtype=torch.uint8, device="npu:2")
    _ = torch.ones(600, dtype=torch.uint8, device="npu:2")
    after = torch.npu.memory_stats(2)
    change = {name: after[name] - before[name] for name in after}
    for each in ("current", "allocated"):
        assert change[f"allocated_bytes.large_pool.{each}"] == 3 * MIB + 512
    assert change["allocation.small_pool.allocated"] == 1
    assert change["allocated_bytes.all.allocated"] == 3 * MIB + 512 + 1024
    del large
    torch.npu.empty_cache()
    last = torch.npu.memory_stats(2)
    for name, value in last.items():
        stem, _, metric = name.rpartition(".")
        if metric == "current":
            assert value == last[f"{stem}.allocated"] - last[f"{stem}.freed"]
            assert value <= last[f"{stem}.peak"]


METRICS = ("current", "peak", "allocated", "freed")
COUNTERS = (
    "allocation",
    "segment",
    "active",
    "inactive_split",
    "allocated_bytes",
    "reserved_bytes",
    "active_bytes",
    "inactive_split_bytes",
    "requested_bytes",
)
