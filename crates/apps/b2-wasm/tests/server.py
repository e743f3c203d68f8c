"""A web server that counts requests and misbehaves on demand."""

import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css", "wasm": "application/wasm"}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, **headers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.headers, self.requests, self.delay = {}, headers, [], 0
        # How it misbehaves, after how many good responses, and what to set when silent connections may end.
        self.manner, self.good, self.ended = None, 0, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, address):
        """Browsers may close connections at any time."""

    def put(self, name, content):
        self.files[name] = content
        return self.url(name)

    def url(self, name):
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def spoil(self, manner, good=0):
        self.manner, self.good = manner, good

    def close(self):
        self.ended.set()
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def respond(self, status, body=b"", **headers):
        self.send_response(status)
        headers = {"Content_Length": str(len(body)), "ETag": '"1"', **headers, **self.server.headers}
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        server = self.server
        server.requests.append((self.command, dict(self.headers)))
        time.sleep(server.delay)
        manner, server.good = None if server.good > 0 else server.manner, server.good - 1
        name = unquote(self.path.split("?")[0][1:])
        if manner == "silent":
            server.ended.wait()
        if manner in ("close", "noise", "silent"):
            self.wfile.write(b"\xff" * 100_000 if manner == "noise" else b"")
            self.close_connection = True
            return
        if isinstance(manner, int):
            return self.respond(manner)
        if name not in server.files:
            return self.respond(404)
        data = server.files[name]
        kind = {"Content_Type": KINDS.get(name.split(".")[-1], "application/octet-stream")}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted is None or manner == "whole":
            return self.respond(200, data, **kind)
        start, end = int(wanted[1]), min(int(wanted[2]) + 1, len(data))
        if manner == "other":
            start, end = start + 1, min(end + 1, len(data))
        if start >= end:
            return self.respond(416, Content_Range=f"bytes */{len(data)}")
        body, more = data[start:end], {"Content_Range": f"bytes {start}-{end - 1}/{len(data)}", **kind}
        if manner == "short":
            more["Content_Length"] = str(len(body))
            self.close_connection, body = True, body[: len(body) // 2]
        elif manner == "long":
            body += bytes(10)
        elif manner == "compressed":
            more["Content_Encoding"] = "gzip"
        elif manner == "endless":
            more.update(Content_Length=None, Connection="close")
        self.respond(206, body, **more)
        while manner == "endless":
            self.wfile.write(bytes(1 << 16))

    do_HEAD = do_GET
