# SPDX-License-Identifier: Apache-2.0
"""gRPC to the runtime of cay-init: the messages of its services, declared here, and the fixture `rpc`."""

import os
import select
import socket
import tempfile
import threading

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, message_factory  # noqa: F401: Empty must be known

GRPC_PORT = 9090
F = descriptor_pb2.FieldDescriptorProto
TYPES = {"string": F.TYPE_STRING, "bytes": F.TYPE_BYTES, "int32": F.TYPE_INT32, "uint32": F.TYPE_UINT32, "bool": F.TYPE_BOOL}

PROCESS = {
    "ProcessConfig": ["command 1 repeated string", "env_vars 2 map", "cwd 3 optional string"],
    "PTY": ["cols 1 uint32", "rows 2 uint32"],
    "StartRequest": ["config 1 .ProcessConfig", "pty 2 .PTY"],
    "InitEvent": ["process_id 1 int32"],
    "ExitEvent": ["exit_code 1 int32"],
    "StartResponse": ["init 1 event .InitEvent", "stdout 2 event bytes", "stderr 3 event bytes", "exit 4 event .ExitEvent"],
    "ExecuteRequest": ["config 1 .ProcessConfig"],
    "ExecuteResponse": ["exit_code 1 int32", "stdout 2 bytes", "stderr 3 bytes"],
    "WriteStdinRequest": ["process_id 1 int32", "input 2 payload bytes", "eof 3 payload =google.protobuf.Empty"],
    "WriteStdinResponse": [],
    "SendSignalRequest": ["process_id 1 int32", "signal 2 int32"],
    "SendSignalResponse": [],
    "ResizeTTYRequest": ["process_id 1 int32", "cols 2 uint32", "rows 3 uint32"],
    "ResizeTTYResponse": [],
}
WATCHER = {
    "WatchDirRequest": ["path 1 string", "recursive 2 bool"],
    "FileEvent": ["type 1 int32", "path 2 string", "old_path 3 string", "error 4 string"],
}


def add_field(message, package, text):
    name, number, *words, kind = text.split()
    field = message.field.add(name=name, number=int(number), label=F.LABEL_OPTIONAL)
    if words == ["repeated"]:
        field.label = F.LABEL_REPEATED
    elif words == ["optional"]:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    elif words:
        if not message.oneof_decl:
            message.oneof_decl.add(name=words[0])
        field.oneof_index = 0
    if kind == "map":
        entry = message.nested_type.add(name="EnvVarsEntry")
        entry.options.map_entry = True
        for i, part in enumerate(("key", "value"), 1):
            entry.field.add(name=part, number=i, label=F.LABEL_OPTIONAL, type=F.TYPE_STRING)
        field.label, kind = F.LABEL_REPEATED, f".{message.name}.EnvVarsEntry"
    if kind in TYPES:
        field.type = TYPES[kind]
    else:
        field.type, field.type_name = F.TYPE_MESSAGE, f".{package}{kind}" if kind[0] == "." else f".{kind[1:]}"


def declare(package, messages):
    """{name: class} of a file of messages."""
    file = descriptor_pb2.FileDescriptorProto(name=f"test/{package}.proto", package=package, syntax="proto3",
                                              dependency=["google/protobuf/empty.proto"])
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for text in fields:
            add_field(message, package, text)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(empty_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


M = {**declare("process.v1", PROCESS), **declare("watcher.v1", WATCHER)}


class Tunnel:
    """A socket of this machine whose connections lead to a port of the guest."""

    def __init__(self, guest, port):
        self.dir = tempfile.TemporaryDirectory(prefix="cay-rpc-")
        self.path = os.path.join(self.dir.name, "s")
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listening.bind(self.path)
        self.listening.listen(16)
        self.guest, self.port = guest, port
        self.conns = []
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        while True:
            try:
                near = self.listening.accept()[0]
            except OSError:
                return
            far = self.guest.tcp(self.port)
            self.conns += [near, far]
            threading.Thread(target=self.carry, args=(near, far), daemon=True).start()

    @staticmethod
    def carry(near, far):
        other = {near: far, far: near}
        try:
            while True:
                for sock in select.select([near, far], [], [])[0]:
                    data = sock.recv(65536)
                    if not data:
                        return
                    other[sock].sendall(data)
        except (OSError, ValueError):
            pass
        finally:
            near.close()
            far.close()

    def close(self):
        self.listening.close()
        for sock in self.conns:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.dir.cleanup()


class Rpc:
    def __init__(self, rest):
        self.rest, self.base = rest, rest.base
        self.tunnel = Tunnel(rest.guest, GRPC_PORT)
        self.channels = []
        self.channel = self.connect()

    def connect(self, **options):
        channel = grpc.insecure_channel(f"unix:{self.tunnel.path}", options=[(k.replace("__", "."), v) for k, v in options.items()])
        self.channels.append(channel)
        return channel

    def unary(self, method, request, answer, service="process.v1.ProcessService", channel=None, **kw):
        call = (channel or self.channel).unary_unary(f"/{service}/{method}", lambda m: m.SerializeToString(), answer.FromString)
        return call(request, **kw)

    def execute(self, *argv, channel=None, timeout=60, **config):
        request = M["ExecuteRequest"](config=M["ProcessConfig"](command=argv, **config))
        return self.unary("Execute", request, M["ExecuteResponse"], channel=channel, timeout=timeout)

    def start(self, *argv, pty=None, timeout=60, channel=None, **config):
        request = M["StartRequest"](config=M["ProcessConfig"](command=argv, **config))
        if pty:
            request.pty.cols, request.pty.rows = pty
        call = (channel or self.channel).unary_stream("/process.v1.ProcessService/Start", lambda m: m.SerializeToString(),
                                                      M["StartResponse"].FromString)
        return call(request, timeout=timeout)

    def write(self, number, data=None, **kw):
        request = M["WriteStdinRequest"](process_id=number)
        if data is None:
            request.eof.SetInParent()
        else:
            request.input = data
        return self.unary("WriteStdin", request, M["WriteStdinResponse"], **{"timeout": 60, **kw})

    def signal(self, number, signum):
        return self.unary("SendSignal", M["SendSignalRequest"](process_id=number, signal=signum), M["SendSignalResponse"], timeout=60)

    def resize(self, number, cols, rows):
        return self.unary("ResizeTTY", M["ResizeTTYRequest"](process_id=number, cols=cols, rows=rows), M["ResizeTTYResponse"], timeout=60)

    def close(self):
        for channel in self.channels:
            channel.close()
        self.tunnel.close()


def number_of(stream):
    """The id in the first event of a Start stream."""
    event = next(stream)
    assert event.WhichOneof("event") == "init"
    return event.init.process_id


def read_rest(stream):
    """stdout, stderr and exit code of a Start stream after its first event."""
    out = {"stdout": bytearray(), "stderr": bytearray()}
    for event in stream:
        kind = event.WhichOneof("event")
        if kind == "exit":
            assert next(stream, None) is None
            return out["stdout"], out["stderr"], event.exit.exit_code
        out[kind] += getattr(event, kind)
    raise AssertionError("no exit event")


@pytest.fixture
def rpc(rest):
    rpc = Rpc(rest)
    yield rpc
    rpc.close()
