"""`python client.py SOCKET SCRIPT ARGUMENTS`: has a server run the script (or `-m MODULE`), and ends as it ends.

With `--brief-end` before the script it ends as soon as what is to run at its exit has run.

Where multiprocessing takes it for its Python, it has the server run spawned processes, and Python itself all else.
"""

import contextlib
import json
import os
import socket
import sys
from pathlib import Path


def inherited() -> list[int]:
    """The files that are open because whoever started this process handed them on."""
    files = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the list's own is closed
            if os.get_inheritable(int(path.name)):
                files.append(int(path.name))
    return files


arguments, files = sys.argv[2:], [0, 1, 2]
brief_end = arguments[0] == "--brief-end"
if brief_end:
    del arguments[0]
if "--multiprocessing-fork" in arguments:
    del arguments[: arguments.index("-c")]
    files = inherited()
elif "-c" in arguments:  # multiprocessing's tracker of resources
    os.execv(sys.executable, [sys.executable, *arguments])
request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
message = json.dumps({"request": request, "files": files, "brief_end": brief_end})
reply = sys.argv[1]
while reply.startswith("/"):  # the address of a server, else the status of the script
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(reply)
        socket.send_fds(server, [message.encode()], files)
        server.sendall(b"\0")
        reply = server.makefile().read()
status = int(reply)
if os.WIFSIGNALED(status):
    os.kill(os.getpid(), os.WTERMSIG(status))
sys.exit(os.waitstatus_to_exitcode(status))
