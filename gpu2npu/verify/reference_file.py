"""A reference that travels: what the original did on one machine, in one file, to be compared with on another.

The file is a zip of `reference.json` and, for each rank, the lines of the recording, its rows of tensors, the
tolerances of the place of every tensor, float32, and, if asked for, the tensors of one step as NumPy's files. Without
these it holds names, numbers of lines, statistics and a few elements of each tensor: no code and no pickle. Nothing in
it is executed.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gpu2npu import __version__
from gpu2npu.verify.comparing.tolerance import Tolerance
from gpu2npu.verify.recording.format import EVENTS, TENSORS
from gpu2npu.verify.recording.records import Key, Recording, RecordingError, recording_of, rows_of
from gpu2npu.verify.verdict import Array, ReferenceRun

FORMAT = "gpu2npu reference"
VERSION = 4  # of the file; a reader refuses others
_ABOUT, _WHOLE = "reference.json", "whole"
# The tolerances of each tensor's place: of its distance, its norm and its update; NaN where there is none.
_TOLERANCE, _NORMS, _UPDATES = "tolerance.f32", "norms.f32", "updates.f32"
_MOST = 1 << 31  # bytes that a file may hold, unpacked


def write_reference(file: Path, reference: ReferenceRun) -> None:
    """Write a reference that was just recorded; to a file beside `file`, which then takes its name.

    Raises:
        OSError: The file cannot be written.
    """
    about = {
        "format": FORMAT,
        "version": VERSION,
        "gpu2npu": __version__,
        "steps": reference.steps,
        "coarse": list(reference.ranks[0][1].coarse),
        "ranks": len(reference.ranks),
        "gpus": reference.gpus,
        "evaluation": reference.evaluation,
        "whole": bool(reference.whole),
        "numbers": [_numbers(recording, tolerance) for recording, tolerance in reference.ranks],
        "lengths": [list(tolerance.lengths.items()) for _, tolerance in reference.ranks],
    }
    temporary = file.with_name(f".{file.name}.part")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_ABOUT, json.dumps(about, indent=1))
            for rank, (recording, tolerance) in enumerate(reference.ranks):
                _add(archive, rank, recording, tolerance)
            for rank, tensors in enumerate(reference.whole):
                _add_whole(archive, rank, tensors)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, rank: int, recording: Recording, tolerance: Tolerance) -> None:
    assert recording.folder is not None
    archive.write(recording.folder / EVENTS, f"{rank}/{EVENTS}")
    archive.write(recording.folder / TENSORS, f"{rank}/{TENSORS}")
    places = _places(recording)
    for name, shares, missing in _tables(tolerance):
        listed = [shares.get(key, missing) for key in places]
        archive.writestr(f"{rank}/{name}", np.asarray(listed, np.float32).tobytes())


def _numbers(recording: Recording, tolerance: Tolerance) -> list[tuple[Key, float]]:
    """The tolerances of what is a number."""
    keys = [event.key for event in recording.events if event.value is not None and event.key in tolerance.relative]
    return [(key, tolerance.relative[key]) for key in keys]


def _tables(tolerance: Tolerance) -> tuple[tuple[str, dict[Key, float], float], ...]:
    """The numbers of a tolerance by place, each with its file and what is written of a place that has none."""
    return (
        (_TOLERANCE, tolerance.relative, 0.0),
        (_NORMS, tolerance.norms, math.nan),
        (_UPDATES, tolerance.updates, math.nan),
    )


def _add_whole(archive: zipfile.ZipFile, rank: int, tensors: Mapping[Key, Array]) -> None:
    archive.writestr(f"{rank}/{_WHOLE}.json", json.dumps(list(tensors)))
    for number, tensor in enumerate(tensors.values()):
        content = io.BytesIO()
        np.save(content, tensor, allow_pickle=False)
        archive.writestr(f"{rank}/{_WHOLE}/{number}.npy", content.getvalue())


def _whole(archive: zipfile.ZipFile, rank: int) -> dict[Key, Array]:
    found: dict[Key, Array] = {}
    for number, key in enumerate(json.loads(archive.read(f"{rank}/{_WHOLE}.json"))):
        found[_key(key)] = np.load(io.BytesIO(archive.read(f"{rank}/{_WHOLE}/{number}.npy")), allow_pickle=False)
    return found


def _key(listed: list[Any]) -> Key:
    """The key of an event, which JSON has as a list."""
    step, kind, name, call, part = listed
    return int(step), str(kind), str(name), int(call), int(part)


def read_reference(file: Path) -> ReferenceRun:
    """Read a reference.

    Raises:
        RecordingError: The file cannot be read, is none, is damaged, or is of another version.
    """
    with _refusing(file), zipfile.ZipFile(file) as archive:
        if sum(each.file_size for each in archive.infolist()) > _MOST:
            raise ValueError("it unpacks to more than 2 GB")
        about = json.loads(archive.read(_ABOUT))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}")
        if about["version"] > VERSION:
            raise RecordingError(
                f"{file} is of version {about['version']}, and this gpu2npu reads up to {VERSION}: install gpu2npu "
                f"{about['gpu2npu']} or newer, or record it again"
            )
        if about["version"] < VERSION:
            raise RecordingError(
                f"{file} was recorded by gpu2npu {about['gpu2npu']}, in a format that is no longer read: record it "
                "again"
            )
        if about["ranks"] < 1:
            raise ValueError("it holds no rank")
        coarse = tuple(map(str, about["coarse"]))
        ranks = tuple(_rank(archive, rank, coarse, about["lengths"][rank], str(file)) for rank in range(about["ranks"]))
        for (_, tolerance), numbers in zip(ranks, about.get("numbers", ()), strict=False):
            tolerance.relative.update((_key(key), float(share)) for key, share in numbers)
        whole = tuple(_whole(archive, rank) for rank in range(about["ranks"])) if about["whole"] else ()
        evaluation = bool(about["evaluation"])
        return ReferenceRun(ranks, int(about["steps"]), int(about.get("gpus", len(ranks))), whole, evaluation)


def _rank(
    archive: zipfile.ZipFile, rank: int, coarse: tuple[str, ...], lengths: list[list[float]], where: str
) -> tuple[Recording, Tolerance]:
    lines = io.StringIO(archive.read(f"{rank}/{EVENTS}").decode())
    recording = recording_of(lines, rows_of(archive.read(f"{rank}/{TENSORS}")), where)
    tolerance = Tolerance({}, coarse, lengths={int(step): float(share) for step, share in lengths})
    places = _places(recording)
    for name, shares, _ in _tables(tolerance):
        listed = np.frombuffer(archive.read(f"{rank}/{name}"), np.float32)
        shares |= {key: share for key, share in zip(places, listed.tolist(), strict=True) if not math.isnan(share)}
    return recording, tolerance


def _places(recording: Recording) -> list[Key]:
    """The keys of all tensors, in order."""
    return [event.key for event in recording.events if event.tensor is not None]


@contextmanager
def _refusing(file: Path) -> Iterator[None]:
    """Say in one sentence what is wrong with a file."""
    try:
        yield
    except OSError as error:
        raise RecordingError(f"{file}: {error.strerror or error}") from None
    except RecordingError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ArithmeticError) as error:
        raise RecordingError(f"{file} is damaged, or no reference of `gpu2npu verify record`: {error}") from None
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise RecordingError(f"{file} is damaged: {type(error).__name__}: {error}; record it again") from None
