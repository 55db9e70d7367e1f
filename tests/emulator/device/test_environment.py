import pytest

from gpu2npu.emulator.device.environment import check


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"TASK_QUEUE_ENABLE": "0"},
        {"TASK_QUEUE_ENABLE": "2"},
        {"TASK_QUEUE_ENABLE": "on"},  # strtol's 0
        {"TASK_QUEUE_ENABLE": "9", "ASCEND_LAUNCH_BLOCKING": "1"},  # then it is not read
        {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
        {"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:128, garbage_collection_threshold:0.8"},
        {"PYTORCH_NPU_ALLOC_CONF": "roundup_power2_divisions:[256:1,512:2,>:4],expandable_segments:False"},
    ],
)
def test_what_torch_npu_takes(environment):
    check(environment)


@pytest.mark.parametrize(
    ("environment", "error", "words"),
    [
        ({"TASK_QUEUE_ENABLE": "9"}, RuntimeError, "TASK_QUEUE_ENABLE should be 0, 1 or 2"),
        ({"TASK_QUEUE_ENABLE": "-1"}, RuntimeError, "TASK_QUEUE_ENABLE should be 0, 1 or 2"),
        ({"PYTORCH_NPU_ALLOC_CONF": "fast:True"}, ValueError, "Unrecognized key 'fast' in NPU allocator config"),
        ({"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:yes"}, RuntimeError, "Expected a single True/False argument"),
        ({"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb"}, RuntimeError, "expecting max_split_size_mb value"),
        (
            {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:64"},
            RuntimeError,
            "cannot be enabled with `expandable_segments`",
        ),
    ],
)
def test_what_torch_npu_refuses(environment, error, words):
    with pytest.raises(error, match=words):
        check(environment)
