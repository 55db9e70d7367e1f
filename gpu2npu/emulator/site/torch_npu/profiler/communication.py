"""communication.json and communication_matrix.json: how long collectives took, and what went from rank to rank.

A collective waits from its call until every rank has called it, and transmits from then on. Bytes are those that the
rank hands over for each other rank; how a real ring or mesh would split them is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .recording import CollectiveEvent, Recording

# What HCCL calls them.
_NAMES = {
    "allreduce": "allReduce",
    "allreduce_coalesced": "allReduce",
    "allgather": "allGather",
    "allgather_into_tensor": "allGather",
    "_allgather_base": "allGather",
    "reduce_scatter": "reduceScatter",
    "reduce_scatter_tensor": "reduceScatter",
    "_reduce_scatter_base": "reduceScatter",
    "alltoall": "alltoall",
    "alltoall_base": "alltoallv",
}
_TRANSPORTS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
_USED = ("HCCS", "SDMA")  # between the NPUs of one server
_LARGE = 1 << 20  # bytes; msprof-analyze looks for packets that are smaller


def group_hash(communicator: str) -> int:
    """The number under which HCCL's tools know a communicator: two polynomial hashes of 32 bits, side by side."""
    halves = []
    for prime in (29, 131):
        value = 0
        for letter in communicator:
            value = (value * prime + ord(letter)) & 0xFFFFFFFF
        halves.append(value)
    return (halves[0] << 32) | halves[1]


def hccl_name(event: CollectiveEvent) -> str:
    """HCCL's name of the collective, such as allReduce."""
    return _NAMES.get(event.name, event.name)


def kernel_names(recording: Recording) -> list[str]:
    """The name of each collective's kernel, numbered by group: hcom_allReduce__403_0_1."""
    counts: dict[str, int] = {}
    names = []
    for event in recording.collectives:
        number = counts.get(event.group, 0)
        counts[event.group] = number + 1
        names.append(f"hcom_{hccl_name(event)}__{group_hash(event.group) % 1000:03d}_{number}_1")
    return names


def _milliseconds(nanoseconds: int) -> float:
    return round(nanoseconds / 1e6, 6)


def _others(event: CollectiveEvent) -> int:
    """Bytes for the other ranks."""
    return sum(size for rank, size in enumerate(event.sent) if rank != event.rank)


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0


def _description(events: Iterable[CollectiveEvent], start: float) -> dict[str, Any]:
    """Times and bandwidths of some collectives together."""
    events = list(events)
    wait = sum(event.begun - event.start for event in events)
    transit = sum(event.end - event.begun for event in events)
    size = sum(map(_others, events)) / 1e6
    sizes: dict[str, list[float]] = {}
    for event in events:
        entry = sizes.setdefault(str(_others(event) / 1e6), [0, 0.0])
        entry[0], entry[1] = entry[0] + 1, entry[1] + _milliseconds(event.end - event.begun)
    large = sum(_others(event) >= _LARGE for event in events)
    used: dict[str, Any] = {
        "Transit Size(MB)": size,
        "Transit Time(ms)": _milliseconds(transit),
        "Bandwidth(GB/s)": _ratio(size, _milliseconds(transit)),
        "Large Packet Ratio": _ratio(large, len(events)),
        "Size Distribution": sizes,
    }
    unused: dict[str, Any] = {name: {} if isinstance(value, dict) else 0 for name, value in used.items()}
    return {
        "Communication Time Info": {
            "Start Timestamp(us)": start,
            "Elapse Time(ms)": _milliseconds(wait + transit),
            "Transit Time(ms)": _milliseconds(transit),
            "Wait Time(ms)": _milliseconds(wait),
            "Synchronization Time(ms)": _milliseconds(wait),
            "Idle Time(ms)": 0,
            "Wait Time Ratio": _ratio(wait, wait + transit),
            "Synchronization Time Ratio": _ratio(wait, wait + transit),
        },
        "Communication Bandwidth Info": {name: used if name in _USED else unused for name in _TRANSPORTS},
    }


def _links(name: str, events: Iterable[CollectiveEvent]) -> dict[str, dict[str, Any]]:
    """Sum up what went over each link from this rank, by the ranks' numbers in the group."""
    links: dict[str, dict[str, Any]] = {}
    for event in events:
        for peer, size in enumerate(event.sent):
            link = links.setdefault(
                f"{event.rank}-{peer}",
                {
                    "Transport Type": "LOCAL" if peer == event.rank else "HCCS",
                    "Transit Time(ms)": 0.0,
                    "Transit Size(MB)": 0.0,
                    "Op Name": name,
                },
            )
            link["Transit Time(ms)"] += _milliseconds(event.end - event.begun)
            link["Transit Size(MB)"] += size / 1e6
    for link in links.values():
        link["Bandwidth(GB/s)"] = _ratio(link["Transit Size(MB)"], link["Transit Time(ms)"])
    return links


def _step(event: CollectiveEvent) -> str:
    return "step" if event.step is None else f"step{event.step}"


def _sort(event: CollectiveEvent) -> str:
    return "p2p" if event.is_message else "collective"


def times(recording: Recording) -> dict[str, Any]:
    """communication.json: by step, sort and collective."""
    result: dict[str, Any] = {}
    sorted_events: dict[tuple[str, str], list[CollectiveEvent]] = {}
    for event, name in zip(recording.collectives, kernel_names(recording), strict=True):
        step = result.setdefault(_step(event), {"p2p": {}, "collective": {}})
        key = f"{name}@{group_hash(event.group)}"
        step[_sort(event)][key] = _description([event], event.start / 1000)
        sorted_events.setdefault((_step(event), _sort(event)), []).append(event)
    for (step_name, sort), events in sorted_events.items():
        result[step_name][sort]["Total Op Info"] = _description(events, 0)
    return result


def matrix(recording: Recording) -> dict[str, Any]:
    """communication_matrix.json: by step, sort and kind of collective, the links from this rank."""
    events: dict[tuple[str, str, str], list[CollectiveEvent]] = {}
    for event in recording.collectives:
        key = f"{hccl_name(event)}-total@{group_hash(event.group)}"
        events.setdefault((_step(event), _sort(event), key), []).append(event)
    result: dict[str, Any] = {}
    for (step, sort, key), same in events.items():
        step_links = result.setdefault(step, {"p2p": {}, "collective": {}})
        step_links[sort][key] = _links(key.partition("-")[0], same)
    return result


def groups(recording: Recording) -> dict[str, Any]:
    """The process groups, as profiler_metadata.json describes them (`parallel_group_info`)."""
    described = {}
    for event in recording.collectives:
        is_world = event.ranks == tuple(range(len(event.ranks)))
        described[event.group] = {
            "group_name": "default_group" if is_world else event.group,
            "group_rank": event.rank,
            "global_ranks": list(event.ranks),
        }
    return described
