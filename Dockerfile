# The migrator, and the emulated NPU beside it:
#   docker build -t gpu2npu .                        with the emulator (PyTorch's CPU build)
#   docker build -t gpu2npu --target migrator .      without
#   docker run --rm -v "$PWD:/work" gpu2npu check . -v 2.7.1
FROM python:3.11-slim AS migrator
COPY . /src
RUN pip install --no-cache-dir "/src[tables]"
WORKDIR /work
ENTRYPOINT ["gpu2npu"]

FROM migrator
RUN pip install --no-cache-dir --constraint /src/constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu "/src[emulator]"
