import pytest
from packaging.specifiers import SpecifierSet

from gpu2npu.formats.required_packages import allows, requirement, torch_of

SPECIFIERS = [
    "==2.1.0",
    "==2.1",
    "==2.1.*",
    "!=2.1.0",
    "!=2.1.*",
    ">=1.10,<2.2",
    ">2.1.0",
    "<=2.1",
    "~=2.0",
    "~=2.1.1",
    "",
]


@pytest.mark.parametrize("specifier", SPECIFIERS)
@pytest.mark.parametrize("version", ["2.0.1", "2.1.0", "2.1.2", "2.2.0"])
def test_specifiers_mean_what_packaging_says(specifier: str, version: str) -> None:
    assert allows(specifier, version) is SpecifierSet(specifier).contains(version)


def test_the_specifiers_of_conda_and_suffixes() -> None:
    assert allows("=2.1", "2.1.0") and not allows("=2.2", "2.1.0")
    assert allows("==2.1.0+cu118", "2.1.0")


@pytest.mark.parametrize(
    ("specifier", "lowest", "first_after"),
    [
        ("^1.12.0", "1.12.0", "2.0.0"),
        ("^0.13", "0.13.0", "0.14.0"),
        ("^0.0.3", "0.0.3", "0.0.4"),
        ("^2", "2.0.0", "3.0.0"),
        ("~1.12", "1.12.0", "1.13.0"),
        ("~1.12.1", "1.12.1", "1.13.0"),
        ("~1", "1.0.0", "2.0.0"),
    ],
)
def test_the_specifiers_of_poetry(specifier: str, lowest: str, first_after: str) -> None:
    assert allows(specifier, lowest) and not allows(specifier, first_after)
    assert allows(f"{specifier} || ^{first_after}", first_after) and not allows(f"{specifier} || ^9.1", first_after)


@pytest.mark.parametrize(
    ("text", "name", "specifier", "marker"),
    [
        ("torch", "torch", "", ""),
        ("Torch_Vision >= 0.1, <1 # why", "torch-vision", ">= 0.1, <1", ""),
        ("torch==2.1.0 ; python_version > '3.8'", "torch", "==2.1.0", "; python_version > '3.8'"),
        ("torch[opt-einsum]==2.1.0 --hash=sha256:ab", "torch", "==2.1.0", ""),
        ("torch @ https://a.b/torch.whl", "torch", "", ""),
        ("https://a.b/whl/cu118/torch-2.1.0%2Bcu118-cp310-cp310-linux_x86_64.whl", "torch", "==2.1.0", ""),
        ("flash_attn-2.7.4.post1+cu12torch2.6-cp311-cp311-linux_x86_64.whl", "flash-attn", "==2.7.4.post1", ""),
        ("git+https://github.com/NVIDIA/apex.git@25.04", "apex", "", ""),
        ("-e git+https://github.com/NVIDIA/apex.git", "apex", "", ""),
        ("git+ssh://git@github.com/NVIDIA/apex/ # the newest", "apex", "", ""),
    ],
)
def test_requirements(text: str, name: str, specifier: str, marker: str) -> None:
    found = requirement(text, 7)
    assert found is not None
    start = 10 if text.startswith("-e ") else 7
    assert (found.start, found.name, found.specifier, found.marker) == (start, name, specifier, marker)


@pytest.mark.parametrize("text", ["", "-r base.txt", "--index-url https://a.b", "./local/pkg", "https://a.b/c.whl"])
def test_what_is_no_requirement(text: str) -> None:
    assert requirement(text) is None


def test_each_torch_has_the_release_that_its_wheel_names() -> None:
    assert [torch_of(version) for version in ("2.1.0", "2.3.0", "2.5.0", "2.14.0")] == [
        "2.1.0",
        "2.3.1",
        "2.5.1",
        "2.14.0",
    ]


def test_a_line_of_signs_is_read_at_once() -> None:
    assert requirement(f"Extras {'=' * 60} (optional)") is None
