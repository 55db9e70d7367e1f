"""`python client.py SOCKET SCRIPT ARGUMENTS`: has a server run the script (or `-m MODULE`), and ends as it ends."""

import json
import os
import socket
import sys
from pathlib import Path

with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    request = {"arguments": sys.argv[2:], "folder": str(Path.cwd()), "environment": dict(os.environ)}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    server.sendall(b"\0")
    status = int(server.makefile().read())
if os.WIFSIGNALED(status):
    os.kill(os.getpid(), os.WTERMSIG(status))
sys.exit(os.waitstatus_to_exitcode(status))
