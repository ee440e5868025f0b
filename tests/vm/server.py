"""A server of one thread that waits in epoll and answers PING, as a lane's server would: `server.py ADDRESS PORT FILE`.

Twice a second it writes the NAPI ids by which its connections' packets arrive into FILE, a JSON array of one number for each.
"""

import contextlib
import json
import os
import pathlib
import selectors
import socket
import sys
import time

SO_INCOMING_NAPI_ID = 56


def main(address, port, file):
    file = pathlib.Path(file)
    with selectors.EpollSelector() as selector, socket.create_server((address, int(port)), backlog=64) as listener:
        selector.register(listener, selectors.EVENT_READ)
        connections, due = set(), 0.0
        while True:
            for key, _ in selector.select(0.5):
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connections.add(connection)
                    selector.register(connection, selectors.EVENT_READ)
                elif not answer(key.fileobj):
                    connections.remove(key.fileobj)
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
            if time.monotonic() >= due:
                ids = [connection.getsockopt(socket.SOL_SOCKET, SO_INCOMING_NAPI_ID) for connection in connections]
                fresh = file.with_suffix(".new")
                fresh.write_text(json.dumps(ids))
                os.replace(fresh, file)
                due = time.monotonic() + 0.5


def answer(connection):
    """Whether it goes on."""
    with contextlib.suppress(OSError):
        return bool(connection.recv(4096)) and connection.send(b"+PONG\r\n") > 0
    return False


if __name__ == "__main__":
    main(*sys.argv[1:])
