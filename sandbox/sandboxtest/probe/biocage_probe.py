"""A first process for the conformance suite of engines.

It speaks the start part of the agent protocol and one request of its own,
eval_request: the body is Python code that runs in a forked child with a
session of its own; eval_reply tells how the child ended and what it wrote.
While a child runs the channel and the lease are watched like the agent does.
"""

import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import traceback

OUTPUT_BYTES = 1 << 18
PR_SET_DUMPABLE = 4


class Ended(Exception):
    """The host has gone."""


def read_exactly(fd, size):
    data = b""
    while len(data) < size:
        chunk = os.read(fd, size - len(data))
        if not chunk:
            raise Ended
        data += chunk
    return data


def open_channel(channel):
    """Return the descriptors to read and write, and the lease or None."""
    kind, _, rest = channel.partition(":")
    if kind == "fd":
        read_fd, write_fd = (int(part) for part in rest.split(","))
        return read_fd, write_fd, None
    if kind == "unix":
        secret = read_exactly(0, 32)
        link = socket.socket(socket.AF_UNIX)
        link.connect(rest)
        link.sendall(secret)
        fd = link.detach()
        return fd, fd, 0
    if kind == "stdio":
        read_fd, write_fd = os.dup(0), os.dup(1)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)
        return read_fd, write_fd, None
    raise SystemExit("unknown channel " + channel)


class Probe:
    def __init__(self, options):
        self.drop_uid = int(options.get("drop-uid", "-1"))
        self.read_fd, self.write_fd, self.lease = open_channel(options["channel"])

    def send(self, header, body=b""):
        text = json.dumps(header).encode()
        data = struct.pack(">II", len(text), len(body)) + text + body
        while data:
            data = data[os.write(self.write_fd, data) :]

    def receive(self):
        while True:
            watched = [self.read_fd] + ([] if self.lease is None else [self.lease])
            ready, _, _ = select.select(watched, [], [], 0.5)
            self.reap()
            if self.lease in ready:
                self.check_lease()
            if self.read_fd in ready:
                head, size = struct.unpack(">II", read_exactly(self.read_fd, 8))
                header = json.loads(read_exactly(self.read_fd, head))
                return header, read_exactly(self.read_fd, size)

    def check_lease(self):
        if not os.read(self.lease, 4096):
            raise Ended

    def reap(self):
        """As the first process, collect orphans."""
        if os.getpid() != 1:
            return
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    def evaluate(self, code):
        out_read, out_write = os.pipe()
        pid = os.fork()
        if pid == 0:
            self.child(code, out_write)
        os.close(out_write)
        os.set_blocking(out_read, False)
        output = b""
        try:
            while True:
                output += self.take(out_read)
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    output += self.take(out_read)
                    return status, output[:OUTPUT_BYTES]
                self.watch()
        except Ended:
            os.killpg(pid, signal.SIGKILL)
            raise
        finally:
            os.close(out_read)

    def take(self, fd):
        data = b""
        try:
            while chunk := os.read(fd, 65536):
                data += chunk
                if len(data) > OUTPUT_BYTES:
                    break
        except BlockingIOError:
            pass
        return data

    def watch(self):
        """Wait a little; the end of the channel or of the lease ends everything.

        Pending requests do not wake: only a hang-up is asked for.
        """
        poll = select.poll()
        for fd in (self.read_fd, self.lease):
            if fd is not None:
                poll.register(fd, select.POLLRDHUP)
        if poll.poll(10):
            raise Ended

    def child(self, code, out):
        os.setsid()
        if self.drop_uid >= 0:
            os.setgroups([])
            os.setresgid(self.drop_uid, self.drop_uid, self.drop_uid)
            os.setresuid(self.drop_uid, self.drop_uid, self.drop_uid)
        os.close(self.read_fd)
        if self.write_fd != self.read_fd:
            os.close(self.write_fd)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        try:
            exec(compile(code, "<probe>", "exec"), {"__name__": "__main__"})
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            sys.stdout.flush()
            os._exit(1)
        os._exit(0)

    def serve(self):
        self.send({"type": "kernel_info", "protocol": 1, "agent": "probe", "python": sys.version.split()[0], "pid": os.getpid()})
        while True:
            header, body = self.receive()
            if header["type"] == "echo_request":
                self.send({"type": "echo_reply", "id": header["id"]}, body)
                continue
            status, output = self.evaluate(body)
            self.send(
                {
                    "type": "eval_reply",
                    "id": header["id"],
                    "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
                    "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1,
                },
                output,
            )


def main():
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0)
    options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:])
    probe = Probe(options)
    try:
        probe.serve()
    except (Ended, BrokenPipeError, ConnectionResetError):
        pass
    os._exit(0)


main()
