"""The executors that an address names: a Dask or a Ray cluster."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from gpu2npu.project.errors import UsageError

_TIMEOUT = 30  # seconds to reach a cluster


@contextlib.contextmanager
def open_executor(address: str) -> Iterator[Executor]:
    """The executor at `dask://HOST:PORT` or `ray://HOST:PORT`.

    Raises UsageError where the address is of no such form, the package is not installed, or nobody answers.
    """
    parts = urlsplit(address)
    opening = {"dask": _open_dask, "ray": _open_ray}.get(parts.scheme)
    if opening is None or not parts.hostname or not _has_port(address):
        raise UsageError(f"The executor {address!r} is not known; give dask://HOST:PORT or ray://HOST:PORT.")
    with opening(address) as executor:
        yield executor


def _has_port(address: str) -> bool:
    try:
        return urlsplit(address).port is not None
    except ValueError:
        return False


@contextlib.contextmanager
def _open_dask(address: str) -> Iterator[Executor]:
    distributed = _module("distributed", address, "distributed")
    try:
        client = distributed.Client(f"tcp://{urlsplit(address).netloc}", timeout=_TIMEOUT, set_as_default=False)
    except OSError as error:  # dask's own timeouts are OSErrors too
        raise UsageError(f"No Dask scheduler answers at {address}: {error}.") from error
    with client:
        # A repository is checked once: not again where its worker died of it.
        yield client.get_executor(pure=False, retries=0)


@contextlib.contextmanager
def _open_ray(address: str) -> Iterator[Executor]:
    ray = _module("ray", address, "'ray[client]'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what the error below says
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
    except Exception as error:  # ray raises what its transport raises, at times with the server's traceback in it
        reason = str(error).strip().rpartition("\n")[2] or type(error).__name__
        raise UsageError(f"No Ray cluster answers at {address}: {reason.rstrip('.')}.") from error
    try:
        yield _RayExecutor(ray)
    finally:
        ray.shutdown()  # ends what still runs there


class _RayExecutor(Executor):
    """The part of an executor that is needed. Each call is a task of its own, so that no dead worker takes others along
    (as in Ray's multiprocessing.Pool, where the calls that waited for the same worker are lost)."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            # A repository is checked once: not again where its worker died of it.
            future = self._ray.remote(max_retries=0)(fn).remote(*args, **kwargs).future()
        except Exception as error:  # the cluster has no gpu2npu, or the connection is gone
            future.set_exception(error)
        return future


def _module(name: str, address: str, wanted: str) -> Any:
    """Raises UsageError, which says to install `wanted`."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{address} needs the package '{name}', which is not installed: pip install {wanted}."
        ) from error
