"""Checks of what is below torch_npu: CANN and its environment, driver, firmware, and the NPUs themselves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu2npu.doctor.machine import CheckLine, Machine, error, fields, ok, warning
from gpu2npu.doctor.python_packages import numbers
from gpu2npu.support.cann import cann_key, drivers_of, known_cann

_DOWNLOAD = "https://www.hiascend.com/cann/download"
_HDK = "https://www.hiascend.com/hardware/firmware-drivers/community"
# Devices that every program on an NPU opens beside /dev/davinciN.
_SHARED = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_GROUP = "HwHiAiUser"  # that the driver makes, whose members may open the devices
# The default of RHEL's and openEuler's /etc/security/limits.d/20-nproc.conf, which eight ranks with their threads and
# data loaders reach.
_FEW_PROCESSES = 4096


def ascend_lines(machine: Machine) -> Iterator[CheckLine]:
    """Yield the lines about CANN, its environment, the driver and the NPUs."""
    yield _toolkit(machine)
    yield from _kernels(machine)
    yield from _environment(machine)
    yield _driver(machine)
    yield from _firmware(machine)
    yield _npu_smi(machine)
    yield _devices(machine)
    yield _visible(machine)
    yield _processes(machine)


def _toolkit(machine: Machine) -> CheckLine:
    toolkit, home = machine.toolkit, machine.environment.get("ASCEND_HOME_PATH", "")
    if toolkit is None and home:
        others = ", ".join(machine.shown(each.home) for each in machine.toolkits)
        return error(
            "cann",
            f"ASCEND_HOME_PATH is {home}, where there is no CANN" + (f"; there is one in {others}" if others else ""),
            _source(machine) or f"install CANN: {_DOWNLOAD}",
        )
    if toolkit is None:
        return error(
            "cann",
            "CANN is in none of /usr/local/Ascend, /opt/Ascend and $HOME/Ascend",
            f"install CANN: {_DOWNLOAD} (in a container, take an image of quay.io/ascend/cann)",
        )
    where = f"CANN {toolkit.version or 'of an unknown version'} in {machine.shown(toolkit.home)}"
    if toolkit.architecture and toolkit.architecture != machine.architecture:
        return error(
            "cann",
            f"{where} is for {toolkit.architecture}, and this machine is {machine.architecture}",
            f"install CANN for {machine.architecture}: {_DOWNLOAD}",
        )
    if not toolkit.version:
        return warning("cann", f"{where}: no version.info states it", f"install CANN again: {_DOWNLOAD}")
    newer = [each for each in machine.toolkits if each.version and _newer(each.version, toolkit.version)]
    if newer and home:
        return warning(
            "cann",
            f"{where} is used, and {machine.shown(newer[0].home)} has the newer {newer[0].version}",
            f"source {machine.shown(newer[0].set_env)}",
        )
    return ok("cann", where)


def _newer(one: str, other: str) -> bool:
    try:
        return cann_key(one) > cann_key(other)
    except ValueError:
        return False


def _kernels(machine: Machine) -> Iterator[CheckLine]:
    toolkit = machine.toolkit
    if toolkit is None:
        return
    package = f"Ascend-cann-kernels-CHIP_{toolkit.version}_linux-{machine.architecture}.run"
    if known_cann(toolkit.version) and not _newer("8.5.0", toolkit.version):
        package = package.replace("kernels-CHIP", "CHIP-ops")
    remedy = f"bash {package} --install  # CHIP is 910b or another; from {_DOWNLOAD}"
    if toolkit.kernels is None:
        yield error("kernels", f"{machine.shown(toolkit.home)} has no kernels of operators (opp_kernel)", remedy)
    elif toolkit.kernels and toolkit.version and known_cann(toolkit.kernels) != known_cann(toolkit.version):
        yield error(
            "kernels", f"the kernels are those of CANN {toolkit.kernels}, and the toolkit is {toolkit.version}", remedy
        )
    else:
        yield ok("kernels", f"kernels of operators {toolkit.kernels or toolkit.version}")


def _source(machine: Machine) -> str:
    """The command that sets the environment of the newest CANN; "" where there is none."""
    return f"source {machine.shown(machine.toolkits[0].set_env)}" if machine.toolkits else ""


def _environment(machine: Machine) -> Iterator[CheckLine]:
    """The line about set_env.sh: whether it was sourced, and whether all of it is in force."""
    home = machine.environment.get("ASCEND_HOME_PATH", "")
    toolkit = machine.toolkit
    if toolkit is None:
        return
    if not home:
        yield error(
            "set_env.sh",
            "CANN's environment is not set (ASCEND_HOME_PATH): `import torch_npu` fails with libhccl.so not found",
            _source(machine),
        )
        return
    source = f"source {machine.shown(toolkit.set_env)}"
    opp = machine.environment.get("ASCEND_OPP_PATH", "")
    libraries = machine.environment.get("LD_LIBRARY_PATH", "").split(":")
    if opp and not opp.startswith(home.rstrip("/")):
        yield error(
            "set_env.sh", f"two CANNs are mixed: ASCEND_HOME_PATH is {home}, and ASCEND_OPP_PATH is {opp}", source
        )
    elif not machine.is_emulated and not any(each.startswith(home.rstrip("/")) for each in libraries):
        yield error("set_env.sh", f"ASCEND_HOME_PATH is set, but LD_LIBRARY_PATH has no folder of {home}", source)
    else:
        yield ok("set_env.sh", f"sourced, from {home}")


def _driver_folder(machine: Machine) -> Path:
    """The folder of the driver: /etc/ascend_install.info states where it is installed."""
    stated = fields(machine.at("/etc/ascend_install.info")).get("driver_install_path_param")
    return machine.at(stated or "/usr/local/Ascend") / "driver"


def _driver_version(machine: Machine) -> str:
    version = fields(_driver_folder(machine) / "version.info")
    return version.get("package_version") or version.get("version", "")


def _driver(machine: Machine) -> CheckLine:
    version = _driver_version(machine)
    if not version:
        return error(
            "driver",
            f"{machine.shown(_driver_folder(machine))}/version.info is not there: the NPU's driver is not installed,"
            " or not shown to this container",
            f"docker run -v /usr/local/Ascend/driver:/usr/local/Ascend/driver ...  # on the host: {_HDK}",
        )
    cann = known_cann(machine.toolkit.version) if machine.toolkit is not None else None
    listed = drivers_of(cann) if cann is not None else ()
    if listed and not machine.is_emulated and _newer(listed[0], version):
        return warning(
            "driver",
            f"driver {version} is older than {' or '.join(listed)}, which CANN {cann}'s documents name",
            f"install Ascend HDK {listed[-1]}: {_HDK}",
        )
    return ok("driver", f"driver {version}")


def _firmware(machine: Machine) -> Iterator[CheckLine]:
    """The line about the firmware: whether the driver takes it, by the versions that the driver's file states."""
    driver = fields(_driver_folder(machine) / "version.info")
    firmware = fields(_driver_folder(machine).parent / "firmware/version.info")
    version = firmware.get("version", "")
    if not driver or not version:
        return  # a container has the driver's folder alone
    bounds = re.findall(r"\d+(?:\.\d+)+", driver.get("compatible_version_fw", ""))
    if len(bounds) == 2 and not numbers(bounds[0]) <= numbers(version) <= numbers(bounds[1]):
        yield error(
            "firmware",
            f"firmware {version} is not one that driver {_driver_version(machine)} takes ({bounds[0]} to {bounds[1]})",
            f"install driver and firmware of one Ascend HDK: {_HDK}",
        )
    else:
        yield ok("firmware", f"firmware {version}")


def _npu_smi(machine: Machine) -> CheckLine:
    answer = machine.npu_smi
    if answer is None:
        return error(
            "npu-smi",
            "npu-smi is not on PATH",
            "docker run -v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi ...  # or: export PATH=$PATH:/usr/local/sbin",
        )
    if answer.code is None:
        return error("npu-smi", "`npu-smi info` does not end: the driver hangs", "sudo reboot")
    if answer.code != 0 or not answer.chips:
        last = ([line.strip() for line in answer.output.splitlines() if line.strip()] or ["nothing"])[-1]
        return error(
            "npu-smi",
            f"`npu-smi info` exits with {answer.code} and shows no NPU: {last[:120]}",
            "sudo lsmod | grep drv_davinci; dmesg | tail",
        )
    ill = [f"{number} ({health})" for number, _, health in answer.chips if health != "OK"]
    if ill:
        return error(
            "npu-smi", f"these NPUs are not healthy: {', '.join(ill)}", f"npu-smi info -t health -i {ill[0].split()[0]}"
        )
    return ok("npu-smi", f"{len(answer.chips)} cards: {', '.join(dict.fromkeys(name for _, name, _ in answer.chips))}")


def _devices(machine: Machine) -> CheckLine:
    if machine.is_emulated:
        return ok("devices", "emulated: /dev has none")
    found = _davinci(machine)
    if not found:
        return error(
            "devices",
            "there is no /dev/davinci0: the driver is not loaded, or the container does not get the devices",
            f"docker run --device /dev/davinci0 {' '.join(f'--device {each}' for each in _SHARED)} ...",
        )
    missing = [each for each in _SHARED if not machine.at(each).exists()]
    if missing:
        return error(
            "devices",
            f"{', '.join(missing)} not there",
            f"docker run {' '.join(f'--device {each}' for each in missing)} ...",
        )
    closed = [
        each
        for each in (*(machine.at(f"/dev/davinci{n}") for n in found), *map(machine.at, _SHARED))
        if not os.access(each, os.R_OK | os.W_OK)
    ]
    if closed:
        return error(
            "devices",
            f"{machine.user} may not open {', '.join(machine.shown(each) for each in closed)}",
            f"sudo usermod -a -G {_GROUP} {machine.user}  # then log in again",
        )
    return ok("devices", f"{len(found)} of /dev/davinci*, all open to {machine.user}")


def _davinci(machine: Machine) -> Sequence[int]:
    names = (re.fullmatch(r"davinci(\d+)", each.name) for each in machine.at("/dev").glob("davinci*"))
    return sorted(int(name[1]) for name in names if name is not None)


def _visible(machine: Machine) -> CheckLine:
    value = machine.environment.get("ASCEND_RT_VISIBLE_DEVICES")
    if value is None:
        return ok("visible devices", "all (ASCEND_RT_VISIBLE_DEVICES is not set)")
    installed = range(int(machine.environment["GPU2NPU_NPUS"])) if machine.is_emulated else _davinci(machine)
    wanted = [each.strip() for each in value.split(",")]
    wrong = [each for each in wanted if not each.isdigit() or int(each) not in installed]
    if wrong:
        return error(
            "visible devices",
            f"ASCEND_RT_VISIBLE_DEVICES is {value!r}, and there is no NPU {', '.join(wrong) or '(empty)'}",
            "unset ASCEND_RT_VISIBLE_DEVICES",
        )
    return ok("visible devices", f"{', '.join(wanted)} (ASCEND_RT_VISIBLE_DEVICES)")


def _processes(machine: Machine) -> CheckLine:
    limit = machine.processes
    if limit is not None and limit <= _FEW_PROCESSES:
        return warning(
            "ulimit -u",
            f'at most {limit} processes and threads: many ranks fail with "can\'t start new thread"',
            "ulimit -u 65535",
        )
    return ok("ulimit -u", str(limit) if limit is not None else "unlimited")
