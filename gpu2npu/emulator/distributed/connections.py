"""Gloo's connections to the other ranks, found from outside: gloo has no call in Python that closes them.

A collective whose peer never comes blocks a thread of gloo until its timeout, half an hour, and gloo's group cannot be
destroyed before. Shutting the sockets down ends it at once, here and on the other ranks.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

_FOLDER = Path("/dev/fd")  # the open files of this process, on Linux and macOS

_recording = threading.Lock()


class Connections:
    """TCP sockets of this process, each known by its file descriptor and its inode: descriptors are used again."""

    def __init__(self) -> None:
        self._sockets: dict[int, int] = {}
        self.addresses: list[str] = []  # this rank's, as gloo writes them: `[127.0.0.1]:40000`

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Take the connections that are made inside, one group at a time."""
        with _recording:
            before = _sockets()
            yield
            for descriptor, inode in _sockets().items():
                if before.get(descriptor) != inode:
                    self._take(descriptor, inode)

    def _take(self, descriptor: int, inode: int) -> None:
        """A new socket: a connection, or one that listens."""
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as new:
            if new.family in (socket.AF_INET, socket.AF_INET6):
                host, port, *_ = new.getsockname()
                self.addresses.append(f"[{host}]:{socket.htons(port)}")  # gloo forgets to bring the bytes in order
                new.getpeername()  # raises OSError: it listens
                self._sockets[descriptor] = inode

    def shut_down(self) -> None:
        """End the connections: what has been sent still arrives, and whoever waits for more sees them closed."""
        for descriptor, inode in self._taken().items():
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
                if _inode(connection.fileno()) == inode:  # of the copy: gloo's threads close theirs at any time
                    connection.shutdown(socket.SHUT_RDWR)

    def leave(self) -> None:
        """In a forked child: close its copies, which would keep the connections open after the parent's end."""
        for descriptor, inode in self._taken().items():
            if _inode(descriptor) == inode:
                os.close(descriptor)

    def _taken(self) -> dict[int, int]:
        """The sockets; they are given once."""
        taken, self._sockets = self._sockets, {}
        return taken


def _sockets() -> dict[int, int]:
    """The inode of each open socket by its descriptor."""
    try:
        descriptors = [int(path.name) for path in _FOLDER.iterdir()]
    except OSError:
        return {}
    inodes = {descriptor: _inode(descriptor) for descriptor in descriptors}
    return {descriptor: inode for descriptor, inode in inodes.items() if inode is not None}


def _inode(descriptor: int) -> int | None:
    """The inode of a socket; None for other files and for a descriptor that is closed."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_ino if stat.S_ISSOCK(status.st_mode) else None
