"""Broken machines, made as folders and fake commands: each is named by its check, with the command that mends it."""

import json
import os
import platform
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpu2npu.cli.doctor import examine
from gpu2npu.doctor import ascend
from gpu2npu.doctor.machine import MachineError, cxx11_abi, read_machine
from gpu2npu.emulator.machine.chips import chips
from gpu2npu.emulator.machine.info_table import info_table

ARCHITECTURE = platform.machine()
CANN = "usr/local/Ascend/ascend-toolkit/latest"
PACKAGES = {
    "torch": "2.7.1+cpu",
    "torch_npu": "2.7.1",
    "numpy": "1.26.4",
    **dict.fromkeys(("attrs", "decorator", "sympy", "cffi", "PyYAML", "psutil"), "1.0"),
    **dict.fromkeys(("protobuf", "scipy", "requests", "absl-py"), "1.0"),
}
OLD_STRING, NEW_STRING = b"..torchCheckFailEPKcS2_jRKSs..", b"..torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_string.."


class Built:
    """A machine below `root` that lacks nothing: an Atlas 800 with CANN 8.3.RC1 and torch_npu 2.7.1."""

    def __init__(self, root: Path) -> None:
        self.root, self.site, self.python = root, root / "site", root / "python"
        self.environment = {
            "PATH": f"{root}/usr/local/bin",
            "HOME": "/home/user",
            "ASCEND_HOME_PATH": f"/{CANN}",
            "ASCEND_OPP_PATH": f"/{CANN}/opp",
            "LD_LIBRARY_PATH": f"/{CANN}/lib64",
        }
        self.cann("8.3.RC1", CANN)
        self.write("usr/local/Ascend/ascend-toolkit/set_env.sh", "")
        self.write("usr/local/Ascend/driver/version.info", "Version=25.3.RC1\ncompatible_version_fw=[7.0.0,7.8.99]\n")
        self.write("usr/local/Ascend/firmware/version.info", "Version=7.8.0.2.212\n")
        for device in ("davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc"):
            self.write(f"dev/{device}", "")
        self.npu_smi("\n".join(info_table(chips()[:2])))
        for name, version in PACKAGES.items():
            self.install(name, version)
        self.runs("3.11.9")

    def write(self, path: str, content: str | bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(content if isinstance(content, bytes) else content.encode())

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def cann(self, version: str, home: str, kernels: str | None = None, architecture: str = ARCHITECTURE) -> None:
        self.write(
            f"{home}/{architecture}-linux/ascend_toolkit_install.info", f"version={version}\narch={architecture}\n"
        )
        self.write(f"{home}/opp_kernel/version.info", f"Version={kernels or version}\n")
        self.write(f"{home}/set_env.sh", "")

    def command(self, path: Path, script: str) -> None:
        self.write(str(path.relative_to(self.root)), f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def npu_smi(self, answer: str, code: int = 0) -> None:
        self.command(self.root / "usr/local/bin/npu-smi", f"/bin/cat <<'END'\n{answer}\nEND\nexit {code}")

    def runs(self, version: str) -> None:
        self.command(self.python, f"echo '{json.dumps([version, [str(self.site)]])}'")

    def install(self, name: str, version: str) -> None:
        for old in self.site.glob(f"{name}-[0-9]*.dist-info/METADATA"):
            old.unlink()
        self.write(
            f"site/{name}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )

    def read(self):
        return replace(read_machine(self.root, self.environment, self.python), user="user")


@pytest.fixture
def built(tmp_path, monkeypatch):
    monkeypatch.setenv("GPU2NPU_NPUS", "2")  # for the table of the fake npu-smi
    monkeypatch.setenv("GPU2NPU_SOC", "Ascend910B2")
    return Built(tmp_path)


def test_a_machine_that_lacks_nothing(built):
    lines = examine(built.read())
    assert [line for line in lines if line.level != "ok"] == []
    assert {line.check: line.message for line in lines}.items() >= {
        "npu-smi": "2 cards: 910B2",
        "versions": "torch_npu 2.7.1 belongs to CANN 8.3.RC1",
        "devices": "2 of /dev/davinci*, all open to user",
        "driver": "driver 25.3.RC1",
    }.items()


def without_cann(built):
    for file in (built.root / "usr/local/Ascend/ascend-toolkit").rglob("*"):
        if file.is_file():
            file.unlink()
    (built.root / "usr/local/Ascend/ascend-toolkit").rename(built.root / "gone")
    for name in [name for name in built.environment if name not in ("PATH", "HOME")]:
        del built.environment[name]


def not_sourced(built):
    for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH", "LD_LIBRARY_PATH"):
        del built.environment[name]


def torn_environment(built):
    built.cann("8.2.RC1", "home/user/Ascend/ascend-toolkit/8.2.RC1")
    built.environment["ASCEND_OPP_PATH"] = "/home/user/Ascend/ascend-toolkit/8.2.RC1/opp"


def abi(built):
    built.write("site/torch/lib/libc10.so", NEW_STRING)
    built.write("site/torch_npu/lib/libtorch_npu.so", OLD_STRING)


def older_cann_is_sourced(built):
    built.cann("8.2.RC1", "opt/Ascend/ascend-toolkit/8.2.RC1")
    built.environment |= dict.fromkeys(("ASCEND_HOME_PATH", "LD_LIBRARY_PATH"), "/opt/Ascend/ascend-toolkit/8.2.RC1")
    del built.environment["ASCEND_OPP_PATH"]


def numpy_2_of_old_torch(built):
    built.install("torch", "2.1.0")
    built.install("numpy", "2.0.1")


# What is broken; the check that names it and how badly; words of the message and of the remedy.
BROKEN = {
    "no CANN": (without_cann, "cann", "error", "in none of /usr/local/Ascend, /opt/Ascend", "hiascend.com/cann"),
    "a variable for a CANN that is gone": (
        lambda built: built.environment.update(ASCEND_HOME_PATH="/opt/Ascend/latest"),
        *("cann", "error", f"where there is no CANN; there is one in /{CANN}"),
        "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
    ),
    "set_env.sh is not sourced": (
        not_sourced,
        *("set_env.sh", "error", "libhccl.so", "source /usr/local/Ascend/ascend-toolkit/set_env.sh"),
    ),
    "two CANNs in one environment": (torn_environment, "set_env.sh", "error", "mixed", "source /usr/local/Ascend"),
    "libraries are not found": (
        lambda built: built.environment.update(LD_LIBRARY_PATH="/usr/lib"),
        *("set_env.sh", "error", "LD_LIBRARY_PATH has no folder of", "source /usr/local/Ascend"),
    ),
    "an older CANN is sourced": (older_cann_is_sourced, "cann", "warning", "newer 8.3.RC1", "source /usr/local/Ascend"),
    "no kernels": (
        lambda built: built.remove(f"{CANN}/opp_kernel/version.info"),
        *("kernels", "error", "no kernels", f"Ascend-cann-kernels-CHIP_8.3.RC1_linux-{ARCHITECTURE}.run --install"),
    ),
    "kernels of another CANN": (
        lambda built: built.cann("8.3.RC1", CANN, kernels="8.2.RC1"),
        *("kernels", "error", "CANN 8.2.RC1, and the toolkit is 8.3.RC1", "Ascend-cann-kernels-CHIP_8.3.RC1"),
    ),
    "CANN of another architecture": (
        lambda built: (
            built.remove(f"{CANN}/{ARCHITECTURE}-linux/ascend_toolkit_install.info"),
            built.cann("8.3.RC1", CANN, architecture="riscv64"),
        ),
        *("cann", "error", f"is for riscv64, and this machine is {ARCHITECTURE}", f"CANN for {ARCHITECTURE}"),
    ),
    "CANN is older than torch_npu's": (
        lambda built: built.cann("8.0.RC3", CANN),
        *("versions", "error", "torch_npu 2.7.1 is for CANN 8.3.RC1, and this machine has the older 8.0.RC3"),
        "install CANN 8.3.RC1",
    ),
    "CANN is newer than torch_npu's": (
        lambda built: built.cann("8.5.0", CANN),
        *(
            "versions",
            "warning",
            "torch_npu 2.7.1 is for CANN 8.3.RC1, and this machine has 8.5.0",
            "pip install torch-npu==2.7.1.post2 --no-deps",
        ),
    ),
    "torch_npu of another torch": (
        lambda built: built.install("torch", "2.6.0"),
        *(
            "torch_npu",
            "error",
            "torch_npu 2.7.1 is for torch 2.7.1, and torch is 2.6.0",
            "pip install torch-npu==2.6.0",
        ),
    ),
    "a torch_npu that there is not": (
        lambda built: built.install("torch_npu", "2.7.1.post99"),
        *("torch_npu", "warning", "there is no torch-npu 2.7.1.post99", "torch-npu==2.7.1"),
    ),
    "no torch_npu": (
        lambda built: built.remove("site/torch_npu-2.7.1.dist-info/METADATA"),
        *("torch_npu", "error", "not installed", "pip install torch==2.7.1 torch-npu==2.7.1"),
    ),
    "no torch": (
        lambda built: built.remove("site/torch-2.7.1+cpu.dist-info/METADATA"),
        *("torch", "error", "not installed", "pip install torch==2.8.0 torch-npu==2.8.0"),
    ),
    "torch for CUDA": (
        lambda built: built.install("torch", "2.7.1+cu126"),
        *("torch", "warning", "is a build for GPUs", "pip install torch==2.7.1 --force-reinstall"),
    ),
    "torch and torch_npu of different C++ ABIs": (abi, "c++ abi", "error", "ABI=1, torch_npu with 0", "whl/cpu"),
    "a Python without wheels": (
        lambda built: built.runs("3.13.1"),
        *("python", "error", "Python 3.13, but for 3.9, 3.10, 3.11", "conda create -n npu python=3.11"),
    ),
    "numpy 2 with an old torch": (numpy_2_of_old_torch, "numpy", "error", "against numpy 1", 'pip install "numpy<2"'),
    "numpy 2 with an old CANN": (
        lambda built: built.install("numpy", "2.1.0"),
        *("numpy", "warning", "from 9.0.0 on, and is 8.3.RC1", 'pip install "numpy<2"'),
    ),
    "CANN's packages are missing": (
        lambda built: built.remove("site/absl-py-1.0.dist-info/METADATA"),
        *("packages of CANN", "warning", "absl-py", "pip install absl-py"),
    ),
    "protobuf 4 with an old CANN": (
        lambda built: (built.cann("8.2.RC1", CANN), built.install("protobuf", "4.25.3")),
        *("protobuf", "warning", "CANN 8.2.RC1 names protobuf 3.20, and protobuf is 4.25.3", "protobuf==3.20"),
    ),
    "triton twice": (
        lambda built: (built.install("triton", "3.2.0"), built.install("triton_ascend", "3.2.0")),
        *("triton", "error", "both installed", "pip install triton-ascend"),
    ),
    "deepspeed that does not know NPUs": (
        lambda built: built.install("deepspeed", "0.9.5"),
        *("deepspeed", "error", "does not know NPUs", 'pip install "deepspeed>=0.10.1"'),
    ),
    "NVIDIA's apex": (
        lambda built: built.install("apex", "0.1"),
        *("apex", "warning", "NVIDIA's", "gitcode.com/Ascend/apex"),
    ),
    "no driver": (
        lambda built: built.remove("usr/local/Ascend/driver/version.info"),
        *("driver", "error", "not installed", "-v /usr/local/Ascend/driver"),
    ),
    "an old driver": (
        lambda built: built.write("usr/local/Ascend/driver/version.info", "Version=24.1.RC2\n"),
        *("driver", "warning", "24.1.RC2 is older than 25.3.RC1", "install Ascend HDK 25.3.RC1"),
    ),
    "firmware that the driver does not take": (
        lambda built: built.write("usr/local/Ascend/firmware/version.info", "Version=6.4.0\n"),
        *("firmware", "error", "firmware 6.4.0", "of one Ascend HDK"),
    ),
    "no npu-smi": (
        lambda built: built.remove("usr/local/bin/npu-smi"),
        *("npu-smi", "error", "not on PATH", "-v /usr/local/bin/npu-smi"),
    ),
    "the driver is not loaded": (
        lambda built: built.npu_smi("dcmi model initialized failed, because the device is used. ret is -8020", 255),
        *("npu-smi", "error", "exits with 255 and shows no NPU: dcmi model", "dmesg"),
    ),
    "an NPU is ill": (
        lambda built: built.npu_smi("| 0     910B2  | OK      |\n| 1     910B2  | Alarm   |"),
        *("npu-smi", "error", "1 (Alarm)", "npu-smi info -t health -i 1"),
    ),
    "no devices": (
        lambda built: (built.remove("dev/davinci0"), built.remove("dev/davinci1")),
        *("devices", "error", "no /dev/davinci0", "--device /dev/davinci0 --device /dev/davinci_manager"),
    ),
    "a shared device is missing": (
        lambda built: built.remove("dev/hisi_hdc"),
        *("devices", "error", "/dev/hisi_hdc not there", "docker run --device /dev/hisi_hdc"),
    ),
    "an NPU that is not there is chosen": (
        lambda built: built.environment.update(ASCEND_RT_VISIBLE_DEVICES="0,7"),
        *("visible devices", "error", "there is no NPU 7", "unset ASCEND_RT_VISIBLE_DEVICES"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_machine_is_named_with_its_remedy(name, built):
    breaks, check, level, message, remedy = BROKEN[name]
    breaks(built)
    lines = [line for line in examine(built.read()) if line.level != "ok"]
    (line,) = [line for line in lines if line.check == check]
    assert (line.level, message in line.message, remedy in line.remedy) == (level, True, True), line
    assert all(line.remedy for line in lines)


def test_devices_that_a_user_may_not_open(built, monkeypatch):
    machine = built.read()
    monkeypatch.setattr(ascend.os, "access", lambda path, mode: path.name != "davinci1")
    (line,) = [line for line in examine(machine) if line.level != "ok"]
    assert line.message == "user may not open /dev/davinci1"
    assert line.remedy.startswith("sudo usermod -a -G HwHiAiUser user")


def test_few_processes(built):
    (line,) = [line for line in examine(replace(built.read(), processes=4096)) if line.level != "ok"]
    assert (line.check, line.remedy) == ("ulimit -u", "ulimit -u 65535")


def test_an_npu_smi_that_hangs(built, monkeypatch):
    monkeypatch.setattr("gpu2npu.doctor.machine.NPU_SMI_SECONDS", 0.2)
    built.command(built.root / "usr/local/bin/npu-smi", "exec /bin/sleep 60")
    (line,) = [line for line in examine(built.read()) if line.check == "npu-smi"]
    assert (line.level, line.remedy) == ("error", "sudo reboot")


def test_a_python_that_is_none(built):
    built.command(built.python, "echo no")
    with pytest.raises(MachineError, match="does not run as a Python"):
        built.read()


def test_the_abi_of_torch_as_it_is_installed():
    torch = pytest.importorskip("torch")
    assert cxx11_abi(Path(torch.__file__).parent / "lib/libc10.so") is torch.compiled_with_cxx11_abi()


def test_a_user_without_a_name_and_a_folder_that_cannot_be_looked_into(
    built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that is started for a number: getuser() raises an error, and stat() for what others own."""
    monkeypatch.setattr("getpass.getuser", lambda: {}[0])
    built.environment["HOME"] = "/" + "a" * 300
    read = read_machine(built.root, built.environment)
    assert read.user == str(os.getuid()) and read.toolkit is not None
