"""Environment variables that no program for an NPU reads."""

from pathlib import Path

from gpu2npu.project.check.session import check_project
from gpu2npu.project.settings import Settings
from gpu2npu.records import FindingKind, Severity
from gpu2npu.report.check.causes import causes_of
from gpu2npu.report.check.result import Verdict


def test_variables_without_any_effect_are_one_note_each_and_cost_nothing(tmp_path: Path) -> None:
    nccl, others = "NCCL_P2P_DISABLE NCCL_NVLS_ENABLE", "CUBLAS_WORKSPACE_CONFIG CUDNN_LOGINFO_DBG NVIDIA_TF32_OVERRIDE"
    names = [*nccl.split(), *others.split(), "TORCH_CUDA_ARCH_LIST", "CUDA_DEVICE_ORDER", "CUDA_DEVICE_MAX_CONNECTIONS"]
    (tmp_path / "run.sh").write_text("".join(f"export {name}=1\n" for name in names) * 20)
    (tmp_path / "a.py").write_text("import os\n" + "".join(f"os.environ['{name}'] = '1'\n" for name in names))
    (tmp_path / "ci.yaml").write_text("env:\n" + "".join(f"  {name}: 1\n" for name in names))
    result, _ = check_project((tmp_path,), Settings("2.7.1"))
    causes = causes_of(result.places())
    assert sorted(name for cause in causes for name, _ in cause.names) == sorted(names)
    assert {(cause.severity, cause.kind) for cause in causes} == {(Severity.NOTE, FindingKind.REVIEW)}
    assert {places for cause in causes for _, places in cause.names} == {22}
    assert result.readiness.verdict is Verdict.READY and result.readiness.effort.high < 20
