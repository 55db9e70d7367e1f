"""Profiles that a file starts while the program runs."""

import json
import os

import pytest
import torch
from torch_npu.profiler import dynamic_profile


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.setattr(dynamic_profile, "_dynamic", dynamic_profile._Dynamic())
    dynamic_profile.init(str(tmp_path))
    return tmp_path / "profiler_config.json"


def saved(path, **settings):
    path.write_text(json.dumps({**json.loads(path.read_text()), "prof_dir": str(path.parent / "profile"), **settings}))
    os.utime(path, ns=(1, path.stat().st_mtime_ns + 1))


def steps(count):
    x = torch.ones(3).npu()
    for _ in range(count):
        x = x + 1
        dynamic_profile.step()


def found(path):
    return sorted((path.parent / "profile").glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/kernel_details.csv"))


def test_a_saved_file_starts_a_profile_at_its_step(watched):
    steps(2)
    assert not found(watched)
    saved(watched, start_step=4, active=2)
    steps(1)
    assert dynamic_profile._dynamic.profile is None
    steps(1)
    assert dynamic_profile._dynamic.profile is not None
    steps(2)
    assert dynamic_profile._dynamic.profile is None
    (kernels,) = found(watched)
    assert kernels.read_text().count(",Add,") == 2
    steps(3)
    assert len(found(watched)) == 1


def test_at_once_and_too_late(watched):
    steps(3)
    saved(watched, start_step=2)
    with pytest.warns(UserWarning, match="start_step=2, current_step=4"):
        steps(1)
    saved(watched, start_step=-1)
    steps(2)
    assert len(found(watched)) == 1
    dynamic_profile.set_state({"cur_step": 99})
    saved(watched, start_step=100, is_rank=True, rank_list=[3])
    steps(1)
    assert dynamic_profile._dynamic.profile is None
    dynamic_profile.set_state({"cur_step": 99})
    saved(watched, start_step=100, is_rank=False)
    dynamic_profile.start(str(watched))
    assert dynamic_profile._dynamic.profile is not None
    with pytest.warns(UserWarning, match="already started"):
        dynamic_profile.start(str(watched))
    steps(1)
    assert dynamic_profile._dynamic.profile is None


def test_what_cannot_be_used_is_reported(watched, tmp_path):
    watched.write_text("{")
    with pytest.warns(UserWarning, match="Failed to read config"):
        steps(1)
    with pytest.warns(UserWarning, match="is invalid, and profiler will not be enabled"):
        dynamic_profile.init(str(tmp_path / "nowhere"))
    with pytest.warns(UserWarning, match="non-negative"):
        dynamic_profile.set_state({"cur_step": -1})
