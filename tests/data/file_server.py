"""A real HTTP server for the tests of downloads, with the faults that real servers have."""

import threading
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FileServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.requests = []  # (file name, Range header or None)
        self.breaks = 0  # how many more answers are cut off half-way
        self.ranges = True
        self.delay_s = 0.0  # between pieces of 4 KiB
        self.send_length = True

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, name, asked = self.server, self.path[1:], self.headers.get("Range")
        server.requests.append((name, asked))
        if name not in server.files:
            return self.send_error(404)
        content, start = server.files[name], 0
        if asked and server.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        rest = content[start:]
        if server.send_length:
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if server.breaks:
            server.breaks -= 1
            rest = rest[: len(rest) // 2]
        for at in range(0, len(rest), 4096):
            self.wfile.write(rest[at : at + 4096])
            time.sleep(server.delay_s)
        return None

    def handle(self):
        with suppress(ConnectionError):  # the test killed its client
            super().handle()

    def log_message(self, *_):
        pass


@contextmanager
def serving(files):
    with FileServer(files) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
