import pytest
from torch_npu.profiler import communication
from torch_npu.profiler.recording import CollectiveEvent, Recording

MS = 1_000_000  # nanoseconds


@pytest.fixture
def recording():
    """Rank 1 of three: two allreduce of 3 MB, and a message to rank 2."""
    events = [
        CollectiveEvent("allreduce", "hccl_0", 1, (0, 1, 2), (3_000_000,) * 3, 1, 4, 0, 2 * MS, 8 * MS),
        CollectiveEvent("allreduce", "hccl_0", 1, (0, 1, 2), (3_000_000,) * 3, 1, 4, 10 * MS, 10 * MS, 12 * MS),
        CollectiveEvent("send", "hccl_0", 1, (0, 1, 2), (0, 0, 500_000), 1, 5, 20 * MS, 20 * MS, 21 * MS),
    ]
    return Recording(collectives=events)


def test_a_collective_waits_for_the_last_rank_and_then_transmits(recording):
    step = communication.times(recording)["step4"]["collective"]
    first, second = (info for name, info in step.items() if name != "Total Op Info")
    assert first["Communication Time Info"]["Wait Time(ms)"] == 2
    assert first["Communication Time Info"]["Transit Time(ms)"] == 6
    assert first["Communication Time Info"]["Elapse Time(ms)"] == 8
    assert first["Communication Time Info"]["Wait Time Ratio"] == 0.25
    assert first["Communication Bandwidth Info"]["SDMA"]["Bandwidth(GB/s)"] == 1  # 6 MB for the others in 6 ms
    assert second["Communication Bandwidth Info"]["RDMA"]["Transit Size(MB)"] == 0
    total = step["Total Op Info"]
    assert total["Communication Time Info"]["Transit Time(ms)"] == 8
    assert total["Communication Bandwidth Info"]["SDMA"]["Transit Size(MB)"] == 12


def test_names_carry_the_groups_hash_and_count_its_collectives(recording):
    number = communication.group_hash("hccl_0")
    suffix = f"{number % 1000:03d}"
    names = communication.kernel_names(recording)
    assert names == [f"hcom_allReduce__{suffix}_0_1", f"hcom_allReduce__{suffix}_1_1", f"hcom_send__{suffix}_2_1"]
    assert all(name.endswith(f"@{number}") for name in communication.matrix(recording)["step4"]["collective"])
    assert communication.group_hash("ab") == ((97 * 29 + 98) << 32) | (97 * 131 + 98)


def test_links_go_from_this_rank_to_each_other(recording):
    steps = communication.matrix(recording)
    (links,) = steps["step4"]["collective"].values()
    assert {name: link["Transit Size(MB)"] for name, link in links.items()} == {"1-0": 6, "1-1": 6, "1-2": 6}
    assert links["1-1"]["Transport Type"] == "LOCAL"
    assert links["1-2"]["Bandwidth(GB/s)"] == 0.75
    (links,) = steps["step5"]["p2p"].values()
    assert links["1-2"]["Transit Size(MB)"] == 0.5


def test_groups_are_described_for_the_tools(recording):
    assert communication.groups(recording) == {
        "hccl_0": {"group_name": "default_group", "group_rank": 1, "global_ranks": [0, 1, 2]}
    }
