"""Effects of calls of Python's own functions, of argparse and of what is like it on the values that they are given."""

from __future__ import annotations

from gpu2npu.python.flow.value_files import CallEffect
from gpu2npu.python.flow.values import Values
from gpu2npu.python.project.project import Project

_NAMES = {
    "text": "str lower upper casefold strip lstrip rstrip format removeprefix removesuffix",
    "joined": "join",
    "replaced": "replace _replace",
    "substituted": "sub subn",
    "evaluated": "eval",
    "class": "type",
    "parts": "split rsplit partition rpartition",
    "copy": "list tuple frozenset iter reversed cycle copy deepcopy parse_args chain deque ChainMap merge "
    "MappingProxyType unsafe_merge to_container to_object Box EasyDict edict DotMap Munch munchify AttrDict "
    "ConfigDict CfgNode",
    "table": "dict",
    "default": "ContextVar",
    "counted": "Counter fromkeys",
    "found": "count index",
    "met": "issubset issuperset isdisjoint difference intersection symmetric_difference",
    "sent": "send",
    "filtered": "filter takewhile dropwhile filterfalse",
    "ordered": "sorted groupby",
    "getter": "itemgetter attrgetter",
    "globals": "globals",
    "set": "set",
    "holding": "UserDict OrderedDict TypedDict model_validate parse_obj",
    "defaults": "set_defaults",
    "keyed": "vars asdict _asdict model_dump",
    "mapped": "map imap starmap",
    "started": "Thread Process apply_async",
    "spawned": "spawn start_processes",
    "parsed": "parse_known_args",
    "element": "next choice max min",
    "numbered": "enumerate",
    "zipped": "zip zip_longest product",
    "item": "get pop popleft setdefault",
    "added": "append appendleft add insert put",
    "merged": "update extend",
    "read_into": "merge_from_file add_argument_group add_mutually_exclusive_group add_subparsers add_parser",
    "values": "values",
    "keys": "keys",
    "items": "items most_common",
    "begins": "startswith endswith __eq__",
    "equal": "assertEqual assertNotEqual assertIs assert_equal eq ne match search fullmatch",
    "attribute": "getattr",
    "set attribute": "setattr",
    "option": "add_argument",
    "partial": "partial partialmethod",
    "submitted": "submit",
    "record": "namedtuple",
    "fields": "SimpleNamespace Namespace",
    "fixture": "fixture",
    "parametrized": "parametrize",
    "declared": "option",
    "written": "dump dumps safe_dump save save_checkpoint save_file",
}
EFFECTS = {name: CallEffect(kind) for kind, names in _NAMES.items() for name in names.split()} | {
    "defaultdict": CallEffect("default", ("0",)),
    "cast": CallEffect("same", ("1",)),
    "field": CallEffect("same", ("default",)),
    "Field": CallEffect("same", ("0", "default")),
    "Option": CallEffect("same", ("0", "default")),
    "Argument": CallEffect("same", ("0", "default")),
    "attrib": CallEffect("same", ("default",)),
    "ib": CallEffect("same", ("default",)),
}

# What reads a file of data as lists, dicts and texts; a method of any object that the project does not define.
READERS = frozenset(
    {"json.load", "json.loads", "json5.load", "json5.loads", "commentjson.load", "commentjson.loads", "orjson.loads",
     "ujson.load", "ujson.loads", "simplejson.load", "simplejson.loads", "yaml.load", "yaml.safe_load",
     "yaml.full_load", "yaml.unsafe_load", "ruamel.yaml.YAML().load", "toml.load", "toml.loads", "tomli.load",
     "tomli.loads", "tomllib.load", "tomllib.loads", "omegaconf.OmegaConf.load", "mmengine.load", "mmcv.load",
     "yaml.safe_load_all", "yaml.load_all", "hydra.compose", "mmengine.Config.fromfile", "mmcv.Config.fromfile",
     "mmengine.config.Config.fromfile", "mmcv.utils.Config.fromfile", ".merge_from_file", ".load_yaml_with_base",
     ".model_validate_json", ".parse_raw", ".parse_file"}
)  # fmt: skip


_MOST_PLACES = 120_000  # about 100 MB with what was asked about them


def forget_values(project: Project) -> None:
    """Free what was read of a project's values once that is much, between two files: it is read again where a question
    leads to it."""
    if project.values is not None and project.values.size > _MOST_PLACES:
        project.values = None


def values_of(project: Project) -> Values:
    """The solver for the values of a project."""
    if project.values is None:
        project.values = Values(project, EFFECTS, READERS)
    return project.values
