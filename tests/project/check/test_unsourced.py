"""The note about shell scripts that start a training and never source CANN's environment."""

import pytest

from gpu2npu.project.check.notes import unsourced_scripts

SET_ENV = b"source /usr/local/Ascend/cann/set_env.sh\n"


@pytest.mark.parametrize(
    ("script", "is_noted"),
    [
        (b"nohup torchrun --nproc_per_node 8 main.py &", True),
        (b"OMP_NUM_THREADS=1 python -m torch.distributed.run main.py", True),
        (b"if true; then\n  python3 tools/train_net.py\nfi", True),
        (b"accelerate launch main.py", True),
        (b"python prepare.py", False),
        (b"echo torchrun main.py; pip install deepspeed", False),
        (b"# python train.py", False),
        (SET_ENV + b"python train.py", False),
        (b'. "$ASCEND_HOME_PATH/bin/setenv.bash"; python train.py', False),
        (b"source ../cluster/environment.sh; python train.py", False),
        (b"source env.sh; python train.py", True),
        (b"source cann.sh; python train.py", False),
    ],
)
def test_a_script_that_starts_a_training(script, is_noted):
    files = {"run.sh": script, "env.sh": b"export A=1\n", "cann.sh": SET_ENV, "train.py": b"torchrun = 1\n"}
    notes = list(unsourced_scripts(files))
    assert bool(notes) is is_noted
    assert all(note.path == "run.sh" and not note.failed and "set_env.sh" in note.reason for note in notes)


def test_several_scripts_are_one_note():
    (note,) = unsourced_scripts({f"{name}.sh": b"torchrun main.py" for name in "cab"})
    assert note.path == "a.sh" and "(and 2 other scripts)" in note.reason
