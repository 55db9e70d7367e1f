"""The plan in words for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu2npu.forecast.plan import CATEGORIES, GUESSES, WAITS, peak
from gpu2npu.forecast.variants import BATCH
from gpu2npu.language import language, message, sentence, shown

_GIB = 1 << 30
_UNITS = ((2, "MiB"), (1, "KiB"))
_MOST = 8  # lines of a list
VERDICTS = {True: message("fits"), False: message("does not fit"), None: message("not known whether it fits")}


def readable(size: float) -> str:
    """A number of bytes in the unit that shows it."""
    if size >= _GIB / 10:
        return f"{size / _GIB:.2f} GiB"
    unit, name = next(((1 << 10 * power, name) for power, name in _UNITS if size >= 0.1 * (1 << 10 * power)), (1, ""))
    return f"{size / unit:.1f} {name}" if name else f"{size} B"


def listed(*texts: str) -> str:
    """Return texts with commas, those of the language in use."""
    return ("\uff0c" if language() == "zh" else ", ").join(texts)


def stated(name: str, value: str) -> str:
    """Return a name, a colon, and a value."""
    return f"{name}\uff1a{value}" if language() == "zh" else f"{name}: {value}"


def title(variant: Mapping[str, Any]) -> str:
    """Return what a further run changes, and the words of its command."""
    return listed(shown(variant["name"]), " ".join(variant["words"]))


def outcome(variant: Mapping[str, Any]) -> str:
    """Return what a further run needs, or how else it ended."""
    needs = None if variant["reserved"] is None else readable(variant["reserved"])
    if variant["fits"] is None:
        return needs or shown("did not end")
    verdict = shown(VERDICTS[variant["fits"]])
    return verdict if needs is None else listed(needs, verdict)


def batches(plan: Mapping[str, Any]) -> str:
    """Return what the runs with other batches found; nothing where there were none."""
    largest, too_large = plan["largest_batch"], plan["batch_too_large"]
    if largest == 0:
        return shown("No batch fits, not even 1")
    if largest is not None:
        return sentence("Largest batch that fits: {} ({} does not)", largest, too_large)
    if too_large is not None:
        return sentence("A batch of {} does not fit, and with smaller ones the program does not end", too_large)
    if any(each["name"] == BATCH for each in plan["variants"]):
        return shown("No batch that was run is too large")
    return ""


def lines(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of the forecast."""
    rank = peak(plan)
    if rank is None:
        yield "Forecast: CMD used no NPU."
        return
    chip = plan["chip"]
    yield (
        f"Forecast: {shown(VERDICTS[plan['fits']])} on {chip['name']}: {readable(rank['reserved'])} reserved of "
        f"{readable(chip['usable'])} usable ({readable(chip['memory'])} less what the driver keeps); "
        f"{readable(rank['allocated'])} allocated at the peak of rank {rank['rank']}."
    )
    if plan["exit_code"] and not plan["refusals"]:
        yield f"  CMD ended with exit code {plan['exit_code']}: the forecast is of what it did until then."
    for refusal in plan["refusals"]:
        yield (
            f"  Out of memory on rank {refusal['rank']} at {refusal['line']}: {readable(refusal['size'])} more than "
            f"{readable(refusal['allocated'])}."
        )
    yield f"  Peak at {rank['line']} (step {rank['step'] + 1})"
    parts = [(shown(name), rank["parts"][name]) for name in CATEGORIES if rank["parts"][name]]
    yield "  " + listed(*(f"{name} {readable(size)}" for name, size in parts))
    yield "  Largest tensors at the peak:"
    for tensor in rank["largest"]:
        shape = "x".join(map(str, tensor["shape"])) or "?"
        kind = f"{tensor['dtype']}[{shape}]"
        yield f"    {readable(tensor['size'])}  {kind}  {listed(shown(tensor['category']), tensor['line'])}"
    yield from _ranks(plan)
    yield from _step(plan)
    yield from _variants(plan)
    yield from _guesses(plan)
    yield from _waits(plan)
    for checkpoint in plan["checkpoints"][:_MOST]:
        size = readable(checkpoint["bytes"])
        yield sentence("  Not written: {}, {} ({})", checkpoint["path"], size, checkpoint["line"])
    for file in plan["files"][:_MOST]:
        if file["written"]:
            yield sentence("  Written with zeros in place of the NPU's values: {}", file["path"])
        else:
            yield sentence("  Not changed, since it was there before: {}", file["path"])
    cpu, refused = plan["operators"]["cpu"], plan["operators"]["refused"]
    if cpu:
        yield f"  The NPU lacks {len(cpu)} operators, which fall back to the CPU: {', '.join(list(cpu)[:_MOST])}"
    if refused:
        yield f"  The NPU refuses {len(refused)} operators as they are called: {', '.join(list(refused)[:_MOST])}"


def _ranks(plan: Mapping[str, Any]) -> Iterator[str]:
    if len(plan["ranks"]) > 1:
        sizes = [each["reserved"] for each in plan["ranks"]]
        yield f"  {len(sizes)} ranks reserve {readable(min(sizes))} to {readable(max(sizes))} each."


def _step(plan: Mapping[str, Any]) -> Iterator[str]:
    step = plan["step"]
    if step is None:
        yield "  No optimizer stepped: there is no step to model."
        return
    if not step["modelled"]:
        chip = plan["chip"]["name"]
        yield f"  No time of a step is modelled: the bandwidth of {chip}'s memory has no published source."
        return
    yield (
        f"  Modelled, not measured: {step['seconds']:.3f} s a step, of which {step['compute']:.3f} s multiply, "
        f"{step['memory']:.3f} s move memory, {step['launch']:.3f} s launch {step['small']} small operators "
        f"({step['small'] / max(step['operators'], 1):.0%} of {step['operators']}), {step['collectives']:.3f} s "
        "communicate."
    )


def _variants(plan: Mapping[str, Any]) -> Iterator[str]:
    if found := batches(plan):
        yield f"  {found}"
    for variant in plan["variants"]:
        yield f"    {stated(title(variant), outcome(variant))}"


def _guesses(plan: Mapping[str, Any]) -> Iterator[str]:
    if not plan["guesses"]:
        return
    yield "  Guessed, since no values are computed (zeros, and upper bounds of shapes):"
    for guess in plan["guesses"][:_MOST]:
        kind = GUESSES[guess["kind"]]
        yield sentence("    {}: {} of {}, {} times", guess["line"], kind, guess["what"], guess["count"])
    if len(plan["guesses"]) > _MOST:
        yield f"    and {len(plan['guesses']) - _MOST} more places (see --plan)"


def _waits(plan: Mapping[str, Any]) -> Iterator[str]:
    if not plan["waits"]:
        return
    count = sum(each["count"] for each in plan["waits"])
    yield f"  The host waits for the NPU {count} times, which then has nothing to do; most often at"
    for wait in plan["waits"][:_MOST]:
        yield sentence("    {}: {}, {} times", wait["line"], WAITS[wait["for"]], wait["count"])
