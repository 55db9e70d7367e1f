"""The language that people are addressed in: English, or Chinese by the locale, `--lang` or a project's settings.

Records, caches and JSON hold English. A text is translated where it is written for a person, by `shown`: the catalogue
has the templates of all messages ("torch_npu {release} does not have {name}."), by which the values in a text are found
and put into the translation. So a message is an ordinary f-string, and whoever writes one has nothing to mark;
`make translations` collects them.
"""

from __future__ import annotations

import gettext
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path

from msgspec import Struct

LANGUAGES = ("en", "zh")
DOMAIN = "gpu2npu"
LOCALE = Path(__file__).parent / "locale"
# One placeholder of a template: a value of an f-string by its number, or the name that str.format gives a value.
PLACEHOLDER = re.compile(r"\{(\w+)\}")
_LOCALE_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
_Reading = tuple[int, str]
_SENTENCE_END = re.compile(r"(?<=[.!?:;,)\]])\s+")
_SOURCE = re.compile(r" \(")
_SOURCE_END = re.compile(r"\)(?:\.(?: |$)|$)")
_NAMED = re.compile(r"([\w./-]+): (.+)", re.DOTALL)
# Code and names in a text, whose letters are no prose, and the words that are left.
_CODE = re.compile(r"`[^`]*`")
_PROSE = re.compile(r"(?<!\S)[A-Za-z]?[a-z]+(?=[,.;:)]*(?:\s|$))")
_GAP = re.compile(r"(\s*\n\s*)")
# Letters up to which the fixed text of a template is found everywhere ("{0} of {1}"): it is for numbers, "3 places".
_SHORT = 4
_VERBS = ("is", "are")
_ENDS = {".": "\u3002", ";": "\uff1b"}
# These take 4 ms each to compile, and English needs none.
_CHINESE = r"[\u3001-\u303f\u4e00-\u9fff\uff00-\uffef]"
_MEETS = r"[\u4e00-\u9fff][A-Za-z0-9_]|[A-Za-z0-9_][\u4e00-\u9fff]"
_REMEMBERED = 20_000  # texts whose translation is remembered


class _Template(Struct, frozen=True):
    """A message with placeholders: its fixed texts with the names of values between them, the length of all fixed text,
    the longest of them, and the translation."""

    parts: tuple[str, ...]
    fixed: int
    longest: str
    translation: str


@dataclass
class _Catalogue:
    exact: dict[str, str] = field(default_factory=dict)
    of_templates: dict[str, str] = field(default_factory=dict)

    def add(self, messages: Mapping[str, str]) -> None:
        """Add messages with their translations."""
        for message, translation in messages.items():
            if message and translation:
                of_kind = self.of_templates if PLACEHOLDER.search(message) else self.exact
                of_kind[message] = translation

    @cached_property
    def templates(self) -> list[_Template]:
        """The messages with placeholders, those with the most fixed text first. Help is shown without them."""
        return sorted((_template(*each) for each in self.of_templates.items()), key=lambda template: -template.fixed)


_current = "en"
_catalogue: _Catalogue | None = None
_added: dict[str, dict[str, str]] = defaultdict(dict)


def language() -> str:
    """The language in use, one of LANGUAGES."""
    return _current


def use(name: str) -> None:
    """Write for people in this language, one of LANGUAGES, from now on."""
    global _current, _catalogue
    if name not in LANGUAGES:
        raise ValueError(f"There is no language {name!r}; there are {' and '.join(LANGUAGES)}.")
    if name != _current:
        _current, _catalogue = name, None
        _forget()


@contextmanager
def restored() -> Iterator[None]:
    """Bring the language back at the end that is in use at the start."""
    before = _current
    try:
        yield
    finally:
        use(before)


def of_locale(environment: Mapping[str, str] = os.environ) -> str:
    """The language of the locale: the first of LC_ALL, LC_MESSAGES and LANG that is set decides."""
    stated = next((value for name in _LOCALE_VARIABLES if (value := environment.get(name))), "")
    return next((each for each in LANGUAGES if stated.lower().startswith(each)), "en")


def add_translation(message: str, translations: Mapping[str, str]) -> None:
    """Add the texts of a user's own rule in other languages."""
    for name, translation in translations.items():
        if _added[name].get(message) != translation:
            _added[name][message] = translation
            if _catalogue is not None and name == _current:
                _catalogue.exact[message] = translation
                _forget()


def message(text: str) -> str:
    """The text itself, which is a message though it is a single word: it is translated where it is shown."""
    return text


def shown(text: str) -> str:
    """The text in the language in use, line by line; one that the catalogue does not have stays English."""
    if _current == "en" or not text.strip():
        return text
    return "".join(_translated(part) if part.strip() else part for part in _GAP.split(text))


def exactly(text: str) -> str | None:
    """The translation of a text that is a whole message as it is; None in English, and for any other text."""
    return None if _current == "en" else _loaded().exact.get(text) or _loaded().of_templates.get(text)


def sentence(template: str, *values: object) -> str:
    """The message of a template in the language in use, with the values in the places of its pairs of braces: for those
    that cannot be found by their few words."""
    numbered = template.format(*(f"{{{number}}}" for number in range(len(values))))
    translation = numbered if _current == "en" else _loaded().of_templates.get(numbered, numbered)
    return _filled(translation, {str(number): (0, shown(str(value))) for number, value in enumerate(values)})


def translations(name: str) -> Mapping[str, str]:
    """All messages of the catalogue of a language, with their translations."""
    catalogue = gettext.translation(DOMAIN, LOCALE, [name], fallback=True)
    return dict(getattr(catalogue, "_catalog", {}))


@lru_cache(maxsize=_REMEMBERED)
def _translated(text: str) -> str:
    return _best(text)[1]


def _forget() -> None:
    _translated.cache_clear()
    _remembered.cache_clear()


def _best(text: str) -> _Reading:
    """Count the characters of a text that the catalogue has, and translate by it: the text as one message, with
    those in its values, or the messages that it joins. The reading that explains the most of the text counts."""
    exact = _loaded().exact.get(text)
    if exact is not None:
        return len(text) + 1, exact
    readings = [*_as_one(text), *_as_a_part(text), *_as_several(text), *_as_cited(text)]
    return max(readings, key=lambda reading: reading[0], default=(0, text))


def _as_one(text: str) -> Iterator[_Reading]:
    catalogue = _loaded()
    lowered = f"{text[:1].lower()}{text[1:]}"  # a part of a message may begin a sentence
    for spelled in dict.fromkeys((text, f" {text}", lowered)):
        exact = catalogue.exact.get(spelled)
        if exact is not None:
            yield len(text) + 1, exact.lstrip() if spelled.startswith(" ") and not text.startswith(" ") else exact
            return
    for spelled in dict.fromkeys((text, f" {text}", lowered)):
        for template in catalogue.templates:
            if template.longest in spelled and (match := _compiled(template.parts).fullmatch(spelled)):
                values = {name: _value(found) for name, found in zip(template.parts[1::2], match.groups(), strict=True)}
                # Less by the space that was added, and for each message within this one: the whole is the likelier.
                known = template.fixed - (spelled == f" {text}")
                known += sum(max(score - 1, 0) for score, _ in values.values())
                filled = _filled(template.translation, values)
                yield known, filled.lstrip() if spelled.startswith(" ") and not text.startswith(" ") else filled


def _as_a_part(text: str) -> Iterator[_Reading]:
    """A part of a message that a full stop makes a sentence, or a semicolon one of several."""
    end = _ENDS.get(text[-1:])
    for score, translation in _as_one(text[:-1]) if end else ():
        yield score + 1, f"{translation}{end}"


def _as_several(text: str) -> Iterator[_Reading]:
    """By sentences: a first message of its own, or a name with a colon, and the rest."""
    if named := _NAMED.fullmatch(text):
        score, rest = _remembered(named[2])
        if score:
            yield score, f"{named[1]}\uff1a{rest}"
    for cut in _SENTENCE_END.finditer(text):
        parts = (text[: cut.start()], text[: cut.end()])  # a message that another follows ends with a space
        heads = [*_as_one(parts[0]), *_as_a_part(parts[0]), *_as_one(parts[1])]
        if heads:
            score, head = max((known, text.rstrip(" ")) for known, text in heads)
            further, rest = _remembered(text[cut.end() :])
            yield score + further, f"{head}{'' if _is_wide(head[-1:]) else cut.group()}{rest}"


def _as_cited(text: str) -> Iterator[_Reading]:
    """A part of a message with its source in brackets, and the rest."""
    for start in _SOURCE.finditer(text):
        heads = list(_as_one(text[: start.start()]))
        for end in _SOURCE_END.finditer(text, start.end()) if heads else ():
            score, head = max(heads)
            further, rest = _remembered(text[end.end() :])
            stop = "\u3002" if "." in end.group() else ""
            yield score + further + len(" ()."), f"{head}\uff08{text[start.end() : end.start()]}\uff09{stop}{rest}"


def _is_wide(character: str) -> bool:
    return character > "\u2e7f"


def _value(text: str) -> _Reading:
    """A value within a message: words such as "tests" are names of the user's, and only phrases are translated, if most
    of their prose is known. Verbs are for sentences in English."""
    if text.strip() in _VERBS:
        return len(text), ""
    if text.endswith(" not"):  # the rest of its sentence has the verb
        return 0, text
    reading = _remembered(text) if " " in text.strip() else (0, text)
    return reading if reading[0] * 3 >= sum(map(len, _PROSE.findall(_CODE.sub("", text)))) else (0, text)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(text: str) -> _Reading:
    return _best(text)


def _filled(translation: str, values: Mapping[str, _Reading]) -> str:
    """Put the values into a translation, with a space where Chinese meets a name or a number, and none within it."""
    filled = ""
    for at, part in enumerate(PLACEHOLDER.split(translation)):
        if at % 2 == 1:
            part = values[part][1] if part in values else f"{{{part}}}"
        before, after = filled.rstrip(" "), part.lstrip(" ")
        is_aligned = len(filled) + len(part) > len(before) + len(after) + 1
        if re.match(_CHINESE, before[-1:]) and re.match(_CHINESE, after[:1]) and not is_aligned:
            filled = before + after
        elif re.fullmatch(_MEETS, before[-1:] + after[:1]) and not is_aligned:
            filled = f"{before} {after}"
        else:
            filled += part
    return filled


@cache
def _compiled(parts: tuple[str, ...]) -> re.Pattern[str]:
    fixed = "".join(parts[::2]).strip()
    counts = not parts[0] and fixed.isalpha()  # "{0} files"
    value = "(.*?)" if sum(map(str.isalpha, fixed)) > _SHORT and not counts else r"(\d[\d.,%]*(?: [A-Za-z]+)?|)"
    pieces = [re.escape(part) if at % 2 == 0 else value for at, part in enumerate(parts)]
    for at in range(2, len(parts) - 1, 2):
        if not parts[at]:  # "step {0}{1}": the first of two values is one word
            pieces[at - 1] = r"(\S*)"
    return re.compile("".join(pieces), re.DOTALL)


def _loaded() -> _Catalogue:
    global _catalogue
    if _catalogue is None:
        _catalogue = _Catalogue()
        _catalogue.add(translations(_current))
        _catalogue.add(_added[_current])
    return _catalogue


def _template(message: str, translation: str) -> _Template:
    parts = PLACEHOLDER.split(message)
    fixed = parts[::2]
    return _Template(tuple(parts), sum(map(len, fixed)), max(fixed, key=len), translation)
