BEFORE = """\
# syntax=docker/dockerfile:1
ARG CUDA=11.8
FROM nvidia/cuda:${CUDA}-devel AS base
ENV CUDA_VISIBLE_DEVICES=0 \\
    # a comment
    DEVICE=cuda
ENV CUDA_LAUNCH_BLOCKING 1
RUN apt-get update && \\
    # it's a comment, with a quote
    pip install torch==2.1.0 --index-url https://download.pytorch.org/whl/cu118 && \\
    echo $CUDA_VISIBLE_DEVICES
COPY csrc/cuda /cuda
RUN <<EOF
export CUDA_LAUNCH_BLOCKING=1
EOF
RUN --mount=type=cache,target=/root/.cache \\
    --network=host nvidia-smi && pip install a
HEALTHCHECK --interval=5m CMD nvidia-smi || exit 1
CMD ["python", "t.py", "--device", "cuda"]
ENTRYPOINT python t.py --device cuda
"""
AFTER = """\
# syntax=docker/dockerfile:1
ARG CUDA=11.8
FROM nvidia/cuda:${CUDA}-devel AS base
ENV ASCEND_RT_VISIBLE_DEVICES=0 \\
    # a comment
    DEVICE=npu
ENV ASCEND_LAUNCH_BLOCKING 1
RUN apt-get update && \\
    # it's a comment, with a quote
    pip install torch==2.1.0 --index-url https://download.pytorch.org/whl/cpu && \\
    echo $ASCEND_RT_VISIBLE_DEVICES
COPY csrc/cuda /cuda
RUN <<EOF
export ASCEND_LAUNCH_BLOCKING=1
EOF
RUN --mount=type=cache,target=/root/.cache \\
    --network=host npu-smi info && pip install a
HEALTHCHECK --interval=5m CMD npu-smi info || exit 1
CMD ["python", "t.py", "--device", "npu"]
ENTRYPOINT python t.py --device npu
"""


def test_a_dockerfile(migrated, migrate) -> None:
    assert migrated(BEFORE, "docker/Dockerfile.gpu") == AFTER
    findings = {finding.rule: finding.span.start_line for finding in migrate(BEFORE, "Dockerfile").findings}
    assert findings == {"image-nvidia": 3, "torch-npu-requirement": 10}
    assert migrated(BEFORE.replace("\n", "\r\n"), "gpu.dockerfile") == AFTER.replace("\n", "\r\n")
