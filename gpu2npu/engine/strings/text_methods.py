"""The methods and functions that take a text apart or look for something in one: one table of them, by their part."""

from __future__ import annotations

_CASES = frozenset({"lower", "upper"})
_STRIPS = frozenset({"strip", "lstrip", "rstrip"})
_SPLITS = frozenset({"split", "rsplit", "partition", "rpartition"})
_REPLACES = frozenset({"replace", "removeprefix", "removesuffix"})
_FINDS = frozenset({"find", "rfind", "index", "count"})
MATCHES = frozenset({"search", "match", "fullmatch", "findall"})  # of re, too
_ENDS = frozenset({"startswith", "endswith"})

# What a text means, the result of these means too.
SAME_TEXT = _CASES | {"format", "strip", "split", "partition"}
# An argument of these is a part of what the text holds, where `SAME_TEXT` does not speak for it already.
PARTS = (_REPLACES | _STRIPS | _SPLITS | _FINDS) - SAME_TEXT
# A text without an argument, or with another in its place, is still such a text.
TRIMS = _REPLACES | _STRIPS
# An argument is compared with the text.
TESTS = _ENDS | {"__eq__", "__contains__"}
# A string that is given to these is looked for in a text.
SEARCHES = MATCHES | _FINDS | _ENDS | {"split", "replace"}
# A string that is given to these says nothing of what it stands for elsewhere.
LOOKUPS = MATCHES | (_FINDS - {"count", "index"}) | _STRIPS | _REPLACES | {"sub"}
