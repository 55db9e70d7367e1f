import pytest

from gpu2npu.formats.dispatch import unexported_variables

VARIABLES = [
    ("export CUDA_VISIBLE_DEVICES=0,1", "export ASCEND_RT_VISIBLE_DEVICES=0,1"),
    ("CUDA_VISIBLE_DEVICES=$i python t.py", "ASCEND_RT_VISIBLE_DEVICES=$i python t.py"),
    ("env -u X CUDA_VISIBLE_DEVICES=0 python t.py", "env -u X ASCEND_RT_VISIBLE_DEVICES=0 python t.py"),
    ("unset CUDA_VISIBLE_DEVICES", "unset ASCEND_RT_VISIBLE_DEVICES"),
    ('n=${#CUDA_VISIBLE_DEVICES}; echo "${CUDA_VISIBLE_DEVICES//,/ }"', None),
    ('[ -z "${CUDA_VISIBLE_DEVICES+x}" ] || echo $((CUDA + $CUDA_VISIBLE_DEVICES))', None),
    ("docker run -e CUDA_VISIBLE_DEVICES=0 img", "docker run -e ASCEND_RT_VISIBLE_DEVICES=0 img"),
    ("mpirun -x NCCL_SOCKET_IFNAME=eth0 -np 2 a", "mpirun -x HCCL_SOCKET_IFNAME=eth0 -np 2 a"),
    ("srun --export=ALL,CUDA_LAUNCH_BLOCKING=1 a", "srun --export=ALL,ASCEND_LAUNCH_BLOCKING=1 a"),
    ("x=`echo $CUDA_VISIBLE_DEVICES`", "x=`echo $ASCEND_RT_VISIBLE_DEVICES`"),
    ("cat <<EOF\n$CUDA_VISIBLE_DEVICES\nEOF", "cat <<EOF\n$ASCEND_RT_VISIBLE_DEVICES\nEOF"),
    ("if true; then\n\texport CUDA_LAUNCH_BLOCKING=1\nfi", "if true; then\n\texport ASCEND_LAUNCH_BLOCKING=1\nfi"),
    ("echo 'export CUDA_LAUNCH_BLOCKING=1' >> a.sh", "echo 'export ASCEND_LAUNCH_BLOCKING=1' >> a.sh"),
    ('AFFINITY="CUDA_VISIBLE_DEVICES"; env "$AFFINITY=0" a', None),
    ('eval "CUDA_VISIBLE_DEVICES=0 a --name \\"\\$CUDA_VISIBLE_DEVICES\\""', None),
    ("cat <<EOF > j.sh\nexport CUDA_VISIBLE_DEVICES=\\$SLURM_LOCALID\nEOF", None),
    ("mpirun -H a:1 -x CUDA_VISIBLE_DEVICES -np 2 a", "mpirun -H a:1 -x ASCEND_RT_VISIBLE_DEVICES -np 2 a"),
]


@pytest.mark.parametrize(("before", "after"), VARIABLES)
def test_variables(migrated, before: str, after: str | None) -> None:
    expected = after or before.replace("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
    assert migrated(before + "\n", "run.sh") == expected + "\n"


UNCHANGED = [
    "# CUDA_VISIBLE_DEVICES=0 picks a card, nvidia-smi shows it",
    "echo 'use $CUDA_VISIBLE_DEVICES'",
    r'echo "use \$CUDA_VISIBLE_DEVICES"',
    "cat <<'EOF'\n$CUDA_VISIBLE_DEVICES\nEOF",
    "echo training on cuda with nccl",
    "cat <<EOF >&2\nusage: --device cuda, or cpu\nEOF",
    "cd csrc/cuda && make cuda",
    "MY_CUDA_VISIBLE_DEVICES=1 ./a",
    "python train.py --no-cuda --config configs/cuda.yaml --name cuda_run",
    'MESSAGE="the device is cuda today"',
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_unchanged(migrated, text: str) -> None:
    assert migrated(text + "\n", "run.sh") == text + "\n"


VALUES = [
    ("python t.py --device cuda --dist-backend=nccl", "python t.py --device npu --dist-backend=hccl"),
    ("python t.py --device cuda:$RANK data", "python t.py --device npu:$RANK data"),
    ("python t.py --device 'cuda:0' \\\n  --backend \"nccl\"", "python t.py --device 'npu:0' \\\n  --backend \"hccl\""),
    ("python t.py trainer.device=cuda +backend=nccl", "python t.py trainer.device=npu +backend=hccl"),
    ("python t.py --devices cuda:0,cuda:1", "python t.py --devices npu:0,npu:1"),
    ("DEVICE=${1:-cuda}", "DEVICE=${1:-npu}"),
    ("DEVICE=cuda; run ${DEVICE:-cuda}", "DEVICE=npu; run ${DEVICE:-npu}"),
    ('ARGS="--backend nccl --device cuda"', 'ARGS="--backend hccl --device npu"'),
    ('ARGS="--device=cuda"', 'ARGS="--device=npu"'),
    ('CMD="t.py --device cuda --name \\"a b\\""', 'CMD="t.py --device npu --name \\"a b\\""'),
    ('sbatch --wrap="t.py --device cuda"', 'sbatch --wrap="t.py --device npu"'),
    ("ARGS=(\"--backend=nccl\" 'm.device=cuda:0')", "ARGS=(\"--backend=hccl\" 'm.device=npu:0')"),
    ('DEVICES="cuda cpu"; a ${DEVICES:-cuda cpu}', 'DEVICES="npu cpu"; a ${DEVICES:-npu cpu}'),
    ("ARGS=(\n  --backend nccl # it\n)", "ARGS=(\n  --backend hccl # it\n)"),
    ('if [ "$DEVICE" = "cuda" ]; then :; fi', 'if [ "$DEVICE" = "npu" ]; then :; fi'),
    ("[[ $device == cuda* ]] && run", "[[ $device == npu* ]] && run"),
    ("case $DEVICE in\n  cuda|cuda:0) a ;;\n  *) b ;;\nesac", "case $DEVICE in\n  npu|npu:0) a ;;\n  *) b ;;\nesac"),
    ('bash -c "python t.py --device cuda"', 'bash -c "python t.py --device npu"'),
    ("cat > job.sh <<'EOF'\npython t.py --device cuda\nEOF", "cat > job.sh <<'EOF'\npython t.py --device npu\nEOF"),
    ("x=$(python t.py --device cuda | tail -1)", "x=$(python t.py --device npu | tail -1)"),
    ('A="--out "./b" --backend nccl --c"; t $A', 'A="--out "./b" --backend hccl --c"; t $A'),
    ("B=nccl\nD='cuda'\nt --backend $B --device=\"${D}\"", "B=hccl\nD='npu'\nt --backend $B --device=\"${D}\""),
]


@pytest.mark.parametrize(("before", "after"), VALUES)
def test_values(migrated, before: str, after: str) -> None:
    assert migrated(before + "\n", "run.sh") == after + "\n"


FINDINGS = [
    ("nvidia-smi --query-gpu=name", "command-nvidia-smi"),
    ("free=$(nvidia-smi | grep MiB | awk '{print $9}')", "command-nvidia-smi"),
    ("nsys profile python t.py", "command-nsys"),
    ('DEVICE=$([ -n "$GPU" ] && echo cuda || echo cpu)', "device-string"),
    ("$CUDA_HOME/bin/nvcc a.cu", "command-nvcc"),
    ("#SBATCH --gpus-per-node=8", "slurm-gpus-per-node"),
    ("srun --gres=gpu:1 python t.py", "slurm-gres"),
    ("srun -p ${PARTITION} \\\n  --gres=gpu:4 python t.py", "slurm-gres"),
    ("cat <<EOF > job\n#!/bin/sh -l\n#SBATCH --gres=gpu:1\necho \\$HOME\nEOF", "slurm-gres"),
    ("docker run --gpus all img", "docker-gpus"),
    ("srun --container-image nvcr.io#nvidia/pytorch:20.12-py3 sh -c t", "image-nvidia"),
    ("module load CUDA/11.7.0", "module-cuda"),
    ("export NCCL_IB_DISABLE=1", "env-nccl"),
    ("python -c 'import torch; torch.zeros(1).to(\"cuda\")'", "device-string"),
    ("python <<EOF\nmodel.to('cuda')\nEOF", "device-string"),
    ('python -c "import torch; assert torch.cuda.device_count() > 1"', "device-string"),
    ("docker exec c python3 -c 'torch.cuda.init()'", "device-string"),
    ('$python_bin -c "torch.cuda.init()"', "device-string"),
    ("x=$(cat <<EOF\npython -c 'torch.cuda.init()'\nEOF\n)", "device-string"),
    ("cat > c.yaml <<EOF\ndevice: cuda\nEOF", "device-string"),
    ("python t.py --mode cuda", "device-string"),
    ("pip install flash-attn", "package-flash-attn"),
    ("pip install git+https://github.com/NVIDIA/apex", "package-apex"),
    ("python -m pip install torch", "torch-npu-requirement"),
    ("export CUDA_VISIBLE_DEVICES=$ASCEND_RT_VISIBLE_DEVICES", "env-cuda-visible-devices"),
    ("python t.py --device cuda --name 'unclosed", "device-string"),
    ("N=gpu\ntorchrun --nproc_per_node=$N t.py", "nproc-gpu"),
    ("D=cuda\necho $D\npython t.py --device $D", "device-string"),
]


@pytest.mark.parametrize(("text", "rule"), FINDINGS)
def test_reported_and_unchanged(migrate, text: str, rule: str) -> None:
    result = migrate(text + "\n", "run.sh")
    assert result.content is None
    assert rule in {finding.rule for finding in result.findings}


def test_commands(migrated) -> None:
    before = "nvidia-smi\nwatch -n 1 nvidia-smi | tee log\nx=$(nvidia-smi)\nwhich nvidia-smi && command -v nvidia-smi\n"
    after = "npu-smi info\nwatch -n 1 npu-smi info | tee log\nx=$(npu-smi info)\nwhich npu-smi && command -v npu-smi\n"
    assert migrated(before, "run.sh") == after


def test_skip_comments(migrated) -> None:
    text = "nvidia-smi  # gpu2npu: skip\nnvidia-smi\n"
    assert migrated(text, "run.sh") == "nvidia-smi  # gpu2npu: skip\nnpu-smi info\n"
    assert migrated("# gpu2npu: skip=command-nvidia-smi\nnvidia-smi\n", "run.sh").endswith("\nnvidia-smi\n")


def test_a_backend_makes_a_program_one_for_several_cards(migrate) -> None:
    assert migrate("torchrun t.py --backend nccl\n", "run.sh").traits == {"multi-card"}


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("CUDA_FLAG=--cuda\npython a.py $CUDA_FLAG\n", {"CUDA_FLAG"}),
        ("CUDA_ARGS = --cuda --gpu\nrun:\n\tpython a.py\n", {"CUDA_ARGS"}),
        ("CUDA_A=1 # why\nCUDA_B='x y'\nCUDA_C=\"$D e\"\n", {"CUDA_A", "CUDA_B", "CUDA_C"}),
        ("export CUDA_A=1\n", set()),
        ("CUDA_A=1\nexport CUDA_A\n", set()),
        ("CUDA_A=1 python a.py\n", set()),
        ("CUDA_A=1; python a.py\n", set()),
        ("set -a\nCUDA_A=1\n", set()),
        ("CUDA_A=1\nmpirun -x CUDA_A python a.py\n", set()),
    ],
)
def test_variables_that_a_script_has_for_itself(text: str, own: set[str]) -> None:
    assert unexported_variables(text) == own
