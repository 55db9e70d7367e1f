"""Judges what becomes of a torch API on the NPU: a verdict for a public name in a release of torch_npu, with evidence.

Data decide, in this order: a known fact that names the API (`known_facts.json`); torch_npu's list of what it makes
raise; the public names of the release of PyTorch; the operators that calls of the API reach (`torch_apis.json`,
traced), against the operators that torch_npu has; and known facts about whole packages. Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import cache
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from gpu2npu.support import facts
from gpu2npu.support.facts import Documented, documented, documented_names
from gpu2npu.support.operators import (
    IMPLICIT,
    Missing,
    Reached,
    Torch,
    all_names,
    exists,
    first_release,
    has_kernel,
    is_view,
    missing,
    packages,
    torch_release,
)
from gpu2npu.support.release_tables import (
    SupportTable,
    advice_for_none,
    has_cuda_name,
    has_custom,
    has_npu_name,
    in_torch,
    npu_name_from,
    npu_spelling,
    of_torch_npu,
    table_for,
    without_repeats,
)
from gpu2npu.support.releases import RELEASES, custom_operator, first_with, from_on, released_with
from gpu2npu.support.spellings import (
    Variant,
    api_variants,
    is_for_other_device,
    is_in,
    is_of_host,
    is_of_library,
    public_spellings,
    same_operators,
    spellings,
)

_MOST_NAMED = 4
# Where the public names of a release are known for sure; elsewhere packages have names of others.
_WELL_KNOWN = re.compile(
    r"torch\.(\w+|(Tensor|nn|nn\.functional|nn\.utils|optim|linalg|fft|special|amp|accelerator)\.\w+)"
)
_OUT_OF_MEMORY = ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError")
# What torch_npu has under names of its own.
_CUDA = ("torch.cuda", "torch.backends.cuda.cufft_plan_cache")
# Methods of a class that do what the class is for, and the classes whose other methods its own are.
_WORK = ("forward", "step")
_BASES = {"nn": "torch.nn.Module", "optim": "torch.optim.Optimizer"}


class VerdictKind(str, Enum):
    """The behaviour of a call of an API on the NPU, best first. FALLBACK is slow, UNSUPPORTED raises."""

    NATIVE = "native"
    COMPOSITE = "composite of native"
    FALLBACK = "falls back to CPU"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class ApiVerdict(Struct, frozen=True):
    """The verdict on `api`; `evidence` is a sentence that names the release, `advice` what to do instead.

    `later` is the release that it came with, where that is a later one. `unverified`: documented as not supported.
    """

    api: str
    kind: VerdictKind
    evidence: str
    advice: str = ""
    later: str = ""
    unverified: bool = False


def verdict(api: str, version: str) -> ApiVerdict:
    """The verdict for a qualified public name, as code resolves it, with torch_npu for PyTorch `version`.

    The verdict names it without what repeats torch in it (torch.torch.relu is torch.relu), and where only the public
    spelling of a class is known, by that. A name of torch or torch_npu that the data do not have is UNKNOWN, and so is
    every other name. Raises ValueError when `version` is not one of releases.VERSIONS.
    """
    return _public_verdict(without_repeats(api), version)


@cache
def _public_verdict(api: str, version: str) -> ApiVerdict:
    judged = _verdict(api, version)
    if judged.kind is not VerdictKind.UNKNOWN or documented(api, table_for(version).release) is not None:
        return judged
    public = (_verdict(name, version) for name in public_spellings(api))
    unsaid = [VerdictKind.UNKNOWN, VerdictKind.UNSUPPORTED] if of_torch_npu(api) else [VerdictKind.UNKNOWN]
    return next((each for each in public if each.kind not in unsaid), judged)


@cache
def _verdict(api: str, version: str) -> ApiVerdict:
    table = table_for(version)
    torch = torch_release(table.release)
    first = first_release(api)
    names = spellings(api)
    found_facts = (facts.fact_for(name, table.release, table.library) for name in names)
    known = next((fact for fact in found_facts if fact is not None), None)
    is_named = known is not None and not set(names).isdisjoint(known.apis)
    is_absent = first is not None and api not in torch.names
    is_later = is_absent and first is not None and RELEASES.index(first) > RELEASES.index(torch.release)
    # Code that asks for the release first may use a module that came later: only what is gone with it is reported.
    is_absent &= _WELL_KNOWN.fullmatch(api) is not None or (not is_later and torch.lacks_module(api))
    is_later &= is_absent
    if known is not None and known.verdict and (is_named or is_in(api, ("torch._C",))) and not is_later:
        return _of_fact(api, known)
    if api in _OUT_OF_MEMORY and not is_later:
        return _of_out_of_memory(api, table)
    if api in table.refused:
        evidence = f"torch_npu makes it raise for what is on the NPU ({table.evidence})"
        return ApiVerdict(api, VerdictKind.UNSUPPORTED, evidence)
    if first is not None and is_absent:
        return _absent(api, first, is_later, torch, table)
    for spelling in (*names, *chain.from_iterable(map(same_operators, names))):
        if variants := api_variants().get(spelling):
            assumed = known.assume if known is not None and is_named else ""
            found = _of_operators(api, variants, assumed, table, torch)
            found = found if known is None or known.verdict else _with_note(found, known)
            return _against_documentation(found, table)
    if is_in(api, _CUDA):
        return _of_cuda(api, table)
    stated, is_api = _stated(api, table), exists(api) or documented(api, table.release) is not None
    refused = known is not None and known.verdict == VerdictKind.UNSUPPORTED.value
    if stated is not None and not (refused and stated.kind is VerdictKind.UNKNOWN):
        return stated
    if known is not None and known.verdict and is_api:
        return _of_fact(api, known)
    return _of_class(api, version) or _of_nothing(api, known, table)


@cache
def judged_leaves() -> frozenset[str]:
    """The last names of all that has verdicts by itself: other members of a class have the verdict of the class."""
    stated = (api for fact in facts.known_facts() for api in fact.apis)
    named = chain(all_names(), documented_names(), documented_names(is_later=True), api_variants(), stated)
    return frozenset(name.rpartition(".")[2] for name in named)


def _of_class(api: str, version: str) -> ApiVerdict | None:
    """The verdict of what a class is for, or its base, for a method that is not known by itself."""
    owner, _, member = api.rpartition(".")
    owners = [each for each in spellings(owner) if first_release(each)]
    if first_release(api) or not owners or not owner.rpartition(".")[2][:1].isupper():
        return None
    if member in _WORK:
        return replace(_verdict(owners[0], version), api=api)
    base = _BASES.get(owner.split(".")[1])
    if base is not None and owner != base:
        return replace(_verdict(f"{base}.{member}", version), api=api)
    found = _verdict(owners[0], version)
    return None if found.kind is VerdictKind.UNKNOWN else replace(found, api=api)


def _of_torch_ops(api: str, table: SupportTable) -> Variant | None:
    """The operator that a name such as torch.ops.aten.index.Tensor is, where PyTorch has it."""
    space, _, operator = api.removeprefix("torch.ops.").partition(".")
    name = f"{space}::{operator.removesuffix('.default')}"
    known = api.startswith("torch.ops.") and name in torch_release(table.release).operators
    return Variant(1, 1, "", (Reached(name),), ()) if known else None


def _of_nothing(api: str, known: facts.Fact | None, table: SupportTable) -> ApiVerdict:
    """The verdict for a name that no fact, no operator and no documentation is about."""
    if api == "torch.npu" or of_torch_npu(api):
        return _of_torch_npu(api, table)
    if api in packages():
        return ApiVerdict(api, VerdictKind.NATIVE, "needs no operator: its names have verdicts of their own")
    variant = _of_torch_ops(api, table)
    if variant is not None:
        return _of_operators(api, [variant], "", table, torch_release(table.release))
    if is_of_host(api) and exists(api):
        return ApiVerdict(api, VerdictKind.NATIVE, "needs no operator: it works on the host")
    if is_for_other_device(api):
        return ApiVerdict(api, VerdictKind.UNKNOWN, "it is for another device", "look whether the program needs it")
    if is_of_library(api):
        advice = "see whether that library has it for the NPU, or compute it on the CPU"
        return ApiVerdict(api, VerdictKind.UNKNOWN, "an operator of another library", advice)
    is_member = any(part[:1].isupper() for part in api.split(".")[1:-1])  # attributes of classes are in no table
    named = exists(api) or documented(api, table.release) is not None or api.startswith("torch.ops.") or is_member
    evidence = f"nothing is known of its operators ({table.evidence})" if named else f"PyTorch has no public {api}"
    advice = "try it on an NPU" if named else "check its spelling, and try it on an NPU"
    return ApiVerdict(api, VerdictKind.UNKNOWN, evidence, (known.advice if known is not None else "") or advice)


def _stated(api: str, table: SupportTable) -> ApiVerdict | None:
    """The verdict of torch_npu's documentation, where it lists the name.

    What it lists as supported is so from its release on; what it does not list as supported is not verified.
    """
    entry = documented(api, table.release)
    if entry is None:
        return None
    if entry.supported:
        if RELEASES.index(table.release) < RELEASES.index(entry.release):
            return None
        kind = VerdictKind.FALLBACK if entry.falls_back else VerdictKind.NATIVE
        return ApiVerdict(api, kind, f"torch_npu's documentation lists it as supported ({_edition(entry)})")
    evidence = f"torch_npu's documentation lists it as not supported ({_edition(entry)})"
    return ApiVerdict(api, VerdictKind.UNKNOWN, evidence, "try it on an NPU, or do without it")


def _against_documentation(found: ApiVerdict, table: SupportTable) -> ApiVerdict:
    """A verdict by operators, with what the documentation says against it: the operators of a wheel show more."""
    entry = documented(found.api, table.release)
    if entry is None or entry.supported or found.kind not in (VerdictKind.NATIVE, VerdictKind.COMPOSITE):
        return found
    kind = VerdictKind.FALLBACK if "falls back to the CPU" in found.advice else found.kind
    note = f"torch_npu's documentation lists it as not supported ({_edition(entry)})"
    return replace(found, kind=kind, evidence=f"{found.evidence}; {note}", unverified=kind is found.kind)


def _edition(entry: Documented) -> str:
    return f"for PyTorch {entry.release.removesuffix('.0')}"


def _of_fact(api: str, known: facts.Fact) -> ApiVerdict:
    return ApiVerdict(api, VerdictKind(known.verdict), f"{known.evidence} ({known.source})", known.advice)


def _of_out_of_memory(api: str, table: SupportTable) -> ApiVerdict:
    if table.out_of_memory == "torch.OutOfMemoryError":
        return ApiVerdict(api, VerdictKind.NATIVE, f"{table.out_of_memory} stands for it ({table.evidence})")
    evidence = f"never raised: this torch_npu raises a {table.out_of_memory} ({table.evidence})"
    return ApiVerdict(api, VerdictKind.UNSUPPORTED, evidence, f"catch {table.out_of_memory}")


def _of_cuda(api: str, table: SupportTable) -> ApiVerdict:
    npu = npu_spelling(api)
    if has_npu_name(table, npu):
        evidence = _evidence(table, npu_name_from(npu, table.version))
        return ApiVerdict(api, VerdictKind.NATIVE, f"{npu} stands for it ({evidence})", f"call {npu} instead")
    if has_cuda_name(api):
        first = first_with(npu, table.version)
        advice = f"move to torch_npu {first}, which has it" if first is not None else ""
        return ApiVerdict(api, VerdictKind.UNSUPPORTED, f"torch_npu has no {npu} ({table.evidence})", advice)
    return ApiVerdict(api, VerdictKind.UNKNOWN, f"PyTorch has no public {api}")


def _of_torch_npu(api: str, table: SupportTable) -> ApiVerdict:
    name, spelled = api.removeprefix("torch_npu."), in_torch(api)
    if has_npu_name(table, api) or has_custom(table, name):
        return ApiVerdict(api, VerdictKind.NATIVE, f"torch_npu has it ({table.evidence})")
    facts_of_it = [each for each in (spelled, custom_operator(name)) if each is not None and released_with(each)]
    if not facts_of_it:
        near = advice_for_none(api)  # no release has it
        kind = VerdictKind.UNSUPPORTED if near else VerdictKind.UNKNOWN
        return ApiVerdict(api, kind, f"no public name of torch_npu ({table.evidence})", near)
    first = next(filter(None, (first_with(each, table.version) for each in facts_of_it)), None)
    advice = f"move to torch_npu {first}, which has it" if first is not None else "use what this release has"
    evidence = f"this torch_npu has no {api} ({table.evidence})"
    return ApiVerdict(api, VerdictKind.UNSUPPORTED, evidence, advice, first or "")


def _absent(api: str, first: str, is_later: bool, torch: Torch, table: SupportTable) -> ApiVerdict:
    came = f"it came with {first}" if is_later else "it was removed"
    advice = f"move to that release (-v {first}), or write it anew" if is_later else "write it anew"
    evidence = f"PyTorch {torch.release} has no {api}: {came} ({table.evidence})"
    advice = f"{advice} with what PyTorch {torch.release} has"
    return ApiVerdict(api, VerdictKind.UNSUPPORTED, evidence, advice, first if is_later else "")


def _of_operators(api: str, variants: Sequence[Variant], assumed: str, table: SupportTable, torch: Torch) -> ApiVerdict:
    """By what most samples need that are called without options, or if all have some, by what most of them need."""
    usual = [each for each in variants if assumed in each.label] if assumed else []
    usual = usual or [each for each in variants if each.plain] or list(variants)
    lacks = {id(each): missing(each.nodes, table, torch) for each in variants}
    known = [each for each in usual if not lacks[id(each)].absent]
    if not known:
        absent = sorted(set().union(*(lacks[id(each)].absent for each in usual)))
        evidence = f"PyTorch {torch.release} composes it otherwise: it has no {_listed(absent)} ({table.evidence})"
        return ApiVerdict(api, VerdictKind.UNKNOWN, evidence)
    falling = [each for each in known if lacks[id(each)]]
    if 2 * sum(_weight(each) for each in falling) > sum(_weight(each) for each in known):
        operators = sorted(set().union(*(lacks[id(each)].falls_back for each in falling)))
        evidence = f"{_listed(operators)} is not registered for the NPU ({table.evidence})"
        if len(operators) > 1:
            evidence = f"{_listed(operators)} are not registered for the NPU ({table.evidence})"
        others = [each for each in variants if not lacks[id(each)]]
        return ApiVerdict(api, VerdictKind.FALLBACK, evidence, _advice_for_fallback(others, table))
    good = [each for each in known if not lacks[id(each)]]
    shown = good[0]
    computing = [node for node in shown.nodes if not is_view(node, table, torch)] or list(shown.nodes)
    native = all(has_kernel(node.operator, table, torch) for node in computing)
    names = _listed([node.operator for node in computing])
    notes = _notes(variants, lacks, good, table, torch)
    if not shown.nodes:
        return ApiVerdict(api, VerdictKind.NATIVE, "needs no operator", notes)
    kernels = _kernels(computing, table, torch)
    source = _evidence(table, from_on((name for name in kernels if name in table.supported), table.version))
    if native:
        return ApiVerdict(api, VerdictKind.NATIVE, f"{names} registered for the NPU ({source})", notes)
    evidence = f"{names} composed by PyTorch of {_listed(sorted(kernels)) or 'views'} ({source})"
    return ApiVerdict(api, VerdictKind.COMPOSITE, evidence, notes)


def _evidence(table: SupportTable, first: str) -> str:
    """The source of a fact that `first`, where it is a wheel, and all later ones have."""
    return f"{table.evidence}, from {first} on" if first else table.evidence


def _weight(variant: Variant) -> int:
    return variant.plain or variant.samples


def _kernels(nodes: Sequence[Reached], table: SupportTable, torch: Torch) -> set[str]:
    """The operators with a kernel for the NPU that compositions end in, views aside."""
    found: set[str] = set()
    for node in nodes:
        if is_view(node, table, torch):
            continue
        if has_kernel(node.operator, table, torch):
            found.add(node.operator)
        else:
            found |= _kernels(node.parts, table, torch)
    return found


def _advice_for_fallback(others: Sequence[Variant], table: SupportTable) -> str:
    labels = sorted({each.label for each in others if each.label})
    if labels:
        return f"call it with {labels[0]}, which the NPU computes itself"
    if facts.FALLBACK_SWITCH in table.library:
        return f"slow: it is copied to the CPU and back; {facts.FALLBACK_SWITCH}=1 makes it an error"
    return "slow: it is copied to the CPU and back; move it out of the training loop, or keep its data on the CPU"


def _notes(
    variants: Sequence[Variant], lacks: dict[int, Missing], good: Sequence[Variant], table: SupportTable, torch: Torch
) -> str:
    """Return what falls back all the same: with some arguments, or in the backward pass."""
    notes = []
    for each in variants:
        operators = sorted(lacks[id(each)].falls_back)
        if operators:
            given = f"called with {each.label}" if each.label else "with some arguments"
            notes.append(f"{given} it needs {_listed(operators)}, which falls back to the CPU")
            break
    plain = [each for each in good if each.gradient and not _has_own_backward(each.nodes, table, torch)]
    backward = [missing(each.gradient, table, torch).falls_back for each in plain]
    always = sorted(frozenset.intersection(*backward)) if backward else []
    if always:
        notes.append(f"its gradient needs {_listed(always)}, which falls back to the CPU")
    return "; ".join(notes)


def _has_own_backward(nodes: Sequence[Reached], table: SupportTable, torch: Torch) -> bool:
    """Return whether torch_npu differentiates an operator itself, which traces of PyTorch's gradients do not show.

    It does where it registers what PyTorch composes, but not the parts: where it has these too (aten::pdist, and
    aten::_pdist_forward), they are what is differentiated.
    """
    for node in nodes:
        known = has_kernel(node.operator, table, torch)
        if known and node.operator in table.autograd:
            return True
        if known and torch.operators.get(node.operator) != IMPLICIT:
            continue
        if known and not all(has_kernel(part.operator, table, torch) for part in node.parts):
            return True
        if _has_own_backward(node.parts, table, torch):
            return True
    return False


def _listed(operators: Sequence[str]) -> str:
    shown = list(dict.fromkeys(operators))
    return ", ".join(shown[:_MOST_NAMED]) + (f" and {len(shown) - _MOST_NAMED} more" if shown[_MOST_NAMED:] else "")


def _with_note(found: ApiVerdict, known: facts.Fact) -> ApiVerdict:
    advice = "; ".join(filter(None, (known.advice, found.advice)))
    return ApiVerdict(found.api, found.kind, f"{found.evidence}; {known.evidence} ({known.source})", advice)
