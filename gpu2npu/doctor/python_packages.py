"""Checks of Python and its packages: torch, torch_npu, and what belongs to them."""

from __future__ import annotations

from collections.abc import Iterator

from gpu2npu.doctor.machine import CheckLine, Machine, cxx11_abi, error, ok, warning
from gpu2npu.support.cann import Pairing, cann_for, cann_key, known_cann, pairings, pairings_for, pythons_of
from gpu2npu.support.releases import (
    VERSIONS,
    known_torch_npu,
    known_version,
    pytorch_of,
    unknown_torch_npu,
    wheel_version,
)

# The modules that CANN's compiler of operators imports ("Installing dependencies" of CANN's installation guide:
# pip3 install attrs cython numpy decorator sympy cffi pyyaml pathlib2 psutil protobuf scipy requests absl-py).
_OF_CANN = ("attrs", "decorator", "sympy", "cffi", "pyyaml", "psutil", "protobuf", "scipy", "requests", "absl-py")
_NUMPY_2_FROM = "9.0.0"  # release notes of CANN 9.0.0: "CANN supports numpy 2.x"
# The same guide, of CANN 8.2.RC1.alpha001 (softwareinst/instg/instg_0061.html): "protobuf==3.20". Code that an older
# protoc made cannot be imported with protobuf 4 ("Descriptors cannot be created directly").
_PROTOBUF_3_TO = "8.2.RC1"
_DEEPSPEED_FROM = (0, 10, 1)  # the first with accelerator/npu_accelerator.py


def package_lines(machine: Machine) -> Iterator[CheckLine]:
    """Yield the lines about Python and its packages."""
    yield _python(machine)
    yield _torch(machine)
    yield _torch_npu(machine)
    yield from _pair(machine)
    yield from _abi(machine)
    yield _numpy(machine)
    yield from _of_cann(machine)
    yield _triton(machine)
    yield _deepspeed(machine)
    yield _apex(machine)


def install_command(machine: Machine) -> str:
    """The command that installs the torch and torch_npu for this machine's CANN, for its torch if there is one."""
    cann = known_cann(machine.toolkit.version) if machine.toolkit is not None else None
    torch = machine.version_of("torch")
    if cann is None:
        newest = wheel_version(known_version(torch or VERSIONS[-1]) or "")
        return Pairing(torch or pytorch_of(newest), newest, "", pythons_of(newest), ()).install or "gpu2npu versions"
    fitting = pairings_for(cann, torch) or pairings_for(cann)
    return fitting[0].install if fitting else f"gpu2npu versions --cann {cann}"


def _python(machine: Machine) -> CheckLine:
    name = ".".join(machine.python.split(".")[:2])
    pythons = pythons_of(wheel_version(machine.torch_npu)) or tuple(
        dict.fromkeys(each for pair in pairings() for each in pair.pythons)
    )
    if name in pythons or machine.is_emulated:
        return ok("python", f"Python {machine.python}")
    for_what = f"torch_npu {machine.torch_npu}" if machine.torch_npu else "any torch_npu"
    return error(
        "python",
        f"PyPI has no wheel of {for_what} for Python {name}, but for {', '.join(pythons)}",
        f"conda create -n npu python={pythons[-1] if len(pythons) < 4 else pythons[len(pythons) // 2]}",
    )


def _torch(machine: Machine) -> CheckLine:
    if "torch" not in machine.packages:
        return error("torch", "torch is not installed", install_command(machine))
    version = machine.packages["torch"].version
    if "+cu" in version or "+rocm" in version:
        return warning(
            "torch",
            f"torch {version} is a build for GPUs, and torch_npu's wheels require the one for the CPU",
            f"pip install torch=={version.partition('+')[0]} --force-reinstall --no-deps"
            " --index-url https://download.pytorch.org/whl/cpu",
        )
    return ok("torch", f"torch {version}")


def _torch_npu(machine: Machine) -> CheckLine:
    version, torch = machine.torch_npu, machine.version_of("torch")
    if not version:
        return error("torch_npu", "torch_npu is not installed", install_command(machine))
    if machine.is_emulated:
        return ok("torch_npu", f"torch_npu {wheel_version(version)}, emulated by gpu2npu")
    wanted = pytorch_of(version)
    if torch and torch != wanted:
        fitting = [each for each in pairings() if each.torch == torch and each.install]
        remedy = f"pip install torch-npu=={fitting[-1].torch_npu} --no-deps" if fitting else install_command(machine)
        return error("torch_npu", f"torch_npu {version} is for torch {wanted}, and torch is {torch}", remedy)
    if known_torch_npu(version) is None:
        return warning("torch_npu", f"{unknown_torch_npu(version)}", install_command(machine))
    return ok("torch_npu", f"torch_npu {version}")


def _pair(machine: Machine) -> Iterator[CheckLine]:
    """The line about torch_npu and CANN, if both are there."""
    toolkit, version = machine.toolkit, wheel_version(machine.torch_npu)
    known = known_torch_npu(version)
    if toolkit is None or not toolkit.version or known is None:
        return
    if machine.is_emulated:
        yield ok("versions", "not compared: the emulated machine's CANN stands for that of any torch_npu")
        return
    cann, wanted = known_cann(toolkit.version), cann_for(known)
    remedy = _install_for(pairings_for(cann, machine.version_of("torch")) if cann else (), wanted.version)
    if cann == wanted.version:
        yield ok("versions", f"torch_npu {version} belongs to CANN {toolkit.version}")
    elif not wanted.is_listed:
        yield warning(
            "versions",
            f"no table names the CANN of torch_npu {version}; the one before it is for CANN {wanted.version},"
            f" and this machine has {toolkit.version}",
            remedy,
        )
    elif cann is None or cann_key(cann) > cann_key(wanted.version):
        yield warning(
            "versions",
            f"torch_npu {version} is for CANN {wanted.version}, and this machine has {toolkit.version}",
            remedy,
        )
    else:
        yield error(
            "versions",
            f"torch_npu {version} is for CANN {wanted.version}, and this machine has the older {toolkit.version}",
            remedy,
        )


def _install_for(fitting: tuple[Pairing, ...], cann: str) -> str:
    """Install the torch_npu for this CANN and torch, or else the CANN that the torch_npu is for."""
    if fitting:
        return f"pip install torch-npu=={fitting[0].torch_npu} --no-deps"
    return f"install CANN {cann}: https://www.hiascend.com/cann/download"


def _abi(machine: Machine) -> Iterator[CheckLine]:
    """The line about the std::string of C++ in torch's libraries and torch_npu's, if both can be read."""
    torch, torch_npu = machine.packages.get("torch"), machine.packages.get("torch-npu")
    if torch is None or torch_npu is None or machine.is_emulated:
        return
    one = cxx11_abi(torch.folder / "torch/lib/libc10.so")
    other = cxx11_abi(torch_npu.folder / "torch_npu/lib/libtorch_npu.so")
    if one is None or other is None:
        return
    if one != other:
        yield error(
            "c++ abi",
            f"torch is compiled with _GLIBCXX_USE_CXX11_ABI={one:d}, torch_npu with {other:d}: its library cannot be"
            " loaded (undefined symbol)",
            f"pip install torch=={machine.version_of('torch')} --force-reinstall --no-deps"
            " --index-url https://download.pytorch.org/whl/cpu",
        )
    else:
        yield ok("c++ abi", f"torch and torch_npu are both compiled with _GLIBCXX_USE_CXX11_ABI={one:d}")


def _numpy(machine: Machine) -> CheckLine:
    version = machine.version_of("numpy")
    if not version:
        return error("numpy", "numpy is not installed, and torch_npu imports it", "pip install numpy")
    torch, toolkit = machine.version_of("torch"), machine.toolkit
    if numbers(version) >= (2,) and not machine.is_emulated:
        if torch and numbers(torch) < (2, 3):
            return error(
                "numpy", f"torch {torch} is compiled against numpy 1, and numpy is {version}", 'pip install "numpy<2"'
            )
        cann = known_cann(toolkit.version) if toolkit is not None else None
        if cann is not None and cann_key(cann) < cann_key(_NUMPY_2_FROM):
            return warning(
                "numpy",
                f"CANN works with numpy 2 from {_NUMPY_2_FROM} on, and is {cann}; numpy is {version}",
                'pip install "numpy<2"',
            )
    return ok("numpy", f"numpy {version}")


def _of_cann(machine: Machine) -> Iterator[CheckLine]:
    missing = [each for each in _OF_CANN if each not in machine.packages]
    if missing and not machine.is_emulated:
        yield warning(
            "packages of CANN",
            f"CANN's compiler of operators imports {', '.join(missing)}, not installed",
            f"pip install {' '.join(missing)}",
        )
    elif not missing:
        yield ok("packages of CANN", "all that CANN's compiler of operators imports is installed")
    version, toolkit = machine.version_of("protobuf"), machine.toolkit
    cann = known_cann(toolkit.version) if toolkit is not None and not machine.is_emulated else None
    if version and cann is not None and cann_key(cann) <= cann_key(_PROTOBUF_3_TO) and numbers(version) >= (4,):
        yield warning(
            "protobuf",
            f"the installation guide of CANN {cann} names protobuf 3.20, and protobuf is {version}",
            'pip install "protobuf==3.20.*"  # unless another package needs the newer one',
        )
    elif version:
        yield ok("protobuf", f"protobuf {version}")


def _triton(machine: Machine) -> CheckLine:
    both = {"triton", "triton-ascend"} & machine.packages.keys()
    if len(both) == 2:
        return error(
            "triton",
            "triton and triton-ascend are both installed, and write the same folder `triton`",
            "pip uninstall -y triton triton-ascend && pip install triton-ascend",
        )
    if both == {"triton"} and machine.torch_npu and not machine.is_emulated:
        return warning(
            "triton",
            f"triton {machine.version_of('triton')} compiles for GPUs; torch.compile on the NPU needs triton-ascend",
            "pip uninstall -y triton && pip install triton-ascend",
        )
    version = machine.version_of("triton-ascend")
    return ok(
        "triton", f"triton-ascend {version}" if version else "triton-ascend is not installed; torch.compile needs it"
    )


def _deepspeed(machine: Machine) -> CheckLine:
    version = machine.version_of("deepspeed")
    if not version:
        return ok("deepspeed", "not installed")
    if numbers(version) < _DEEPSPEED_FROM:
        return error(
            "deepspeed",
            f"deepspeed {version} does not know NPUs; {'.'.join(map(str, _DEEPSPEED_FROM))} does",
            'pip install "deepspeed>=0.10.1"',
        )
    return ok("deepspeed", f"deepspeed {version}")


def _apex(machine: Machine) -> CheckLine:
    package = machine.packages.get("apex")
    if package is None:
        return ok("apex", "not installed; PyTorch's own AMP needs none")
    if "ascend" in package.version.lower():
        return ok("apex", f"apex {package.version}")
    return warning(
        "apex",
        f"apex {package.version} is NVIDIA's; Ascend's has a version that ends with +ascend",
        "pip uninstall -y apex  # then build https://gitcode.com/Ascend/apex",
    )


def numbers(version: str) -> tuple[int, ...]:
    """The numbers that a version begins with: (2, 1, 0) for "2.1.0.post3"."""
    found: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)
