# SPDX-License-Identifier: Apache-2.0
"""process.v1 of cay-init, by grpcio. Tests carry the numbers of the cases that they prove: dataplane_N is in
docs/reference/dataplane.md, uN in docs/reference/cases.md.
"""

import os
import pathlib
import re
import struct
import subprocess
import threading

import grpc
import pytest
from google.protobuf import descriptor_pool

from cay_local import wait_until
from guest_kit import guest, link  # noqa: F401: fixtures
from rpc_kit import GRPC_PORT, M, PROCESS, declare, number_of, read_rest, rpc  # noqa: F401: fixtures
from runtime_kit import Rest, base, rest  # noqa: F401: fixtures

Code = grpc.StatusCode
REFLECTION = {
    "ServerReflectionRequest": ["host 1 string", "file_by_filename 3 message_request string",
                                "file_containing_symbol 4 message_request string",
                                "all_extension_numbers_of_type 6 message_request string", "list_services 7 message_request string"],
    "FileDescriptorResponse": ["file_descriptor_proto 1 repeated bytes"],
    "ServiceResponse": ["name 1 string"],
    "ListServiceResponse": ["service 1 repeated .ServiceResponse"],
    "ErrorResponse": ["error_code 1 int32", "error_message 2 string"],
    "ServerReflectionResponse": ["valid_host 1 string", "file_descriptor_response 4 message_response .FileDescriptorResponse",
                                 "list_services_response 6 message_response .ListServiceResponse",
                                 "error_response 7 message_response .ErrorResponse"],
}


def refused(code, call, *args, **kw):
    with pytest.raises(grpc.RpcError) as e:
        call(*args, **kw)
    assert e.value.code() == code, (e.value.code(), e.value.details())
    return e.value.details()


def alive(rpc, word):
    """Processes in the guest whose command line has this word."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            argv = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in argv:
            found.append(int(path.parent.name))
    return found


def test_dataplane_73_74_u36_execute_answers_with_output_and_exit_code(rpc):
    done = rpc.execute("echo", "hello")
    assert (done.exit_code, done.stdout, done.stderr) == (0, b"hello\n", b"")
    done = rpc.execute("sh", "-c", "printf out; printf err >&2; exit 3")
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"out", b"err")
    assert rpc.execute("sh", "-c", "kill -9 $$").exit_code == 137
    assert rpc.execute("cat").stdout == b""  # the input is empty


def test_dataplane_75_77_surroundings(rpc, base):
    (base / "sub").mkdir(mode=0o755)
    (base / "out").symlink_to("/etc")
    done = rpc.execute("sh", "-c", 'echo "$WORD $PATH"; pwd', env_vars={"WORD": "said"}, cwd="sub")
    assert done.stdout.decode().split("\n")[:2] == ["said /usr/local/bin:/usr/bin:/bin", str(base / "sub")]
    assert rpc.execute("pwd", cwd=str(base / "sub")).stdout.decode().strip() == str(base / "sub")
    assert rpc.execute("pwd").stdout.decode().strip() == str(base)
    for cwd in ("../..", "out", "sub/../../x"):
        refused(Code.PERMISSION_DENIED, rpc.execute, "pwd", cwd=cwd)
    refused(Code.NOT_FOUND, rpc.execute, "pwd", cwd="nosuch")
    assert "env_vars" in refused(Code.INVALID_ARGUMENT, rpc.execute, "pwd", env_vars={"A=B": "x"})


def test_dataplane_76_a_command_is_required(rpc, base):
    assert refused(Code.INVALID_ARGUMENT, rpc.execute) == "command is required"
    assert refused(Code.INVALID_ARGUMENT, lambda: list(rpc.start())) == "command is required"
    refused(Code.NOT_FOUND, rpc.execute, "no-such-program")
    (base / "f").write_text("x")
    refused(Code.PERMISSION_DENIED, rpc.execute, str(base / "f"))
    refused(Code.INVALID_ARGUMENT, rpc.execute, "echo", "a\0b")


def test_dataplane_78_start_streams_both_outputs_and_the_exit(rpc):
    stream = rpc.start("sh", "-c", "echo out; echo err >&2; exit 7")
    assert number_of(stream) == 1
    assert read_rest(stream) == (b"out\n", b"err\n", 7)
    assert stream.code() == Code.OK
    stream = rpc.start("sh", "-c", "kill -TERM $$")
    assert number_of(stream) == 2 and read_rest(stream)[2] == 128 + 15


def test_dataplane_79_input_and_its_end(rpc):
    stream = rpc.start("cat")
    number = number_of(stream)
    for data in (b"one ", b"", b"two\n"):
        rpc.write(number, data)
    rpc.write(number)
    assert read_rest(stream) == (b"one two\n", b"", 0)
    stream = rpc.start("sh", "-c", "exec <&-; echo closed; sleep 60")
    number = number_of(stream)
    next(stream)
    rpc.write(number)
    rpc.write(number)  # harmless
    refused(Code.FAILED_PRECONDITION, rpc.write, number, b"x")
    stream.cancel()


def test_input_waits_for_a_slow_process_in_order(rpc):
    stream = rpc.start("sh", "-c", "read line; cat")
    number = number_of(stream)
    data = [bytes([65 + i]) * (1 << 20) for i in range(4)]
    for piece in data[:1]:
        rpc.write(number, b"go\n")
    done = [rpc.channel.unary_unary("/process.v1.ProcessService/WriteStdin").future(
        M["WriteStdinRequest"](process_id=number, input=piece).SerializeToString(), timeout=60) for piece in data]
    got = bytearray()
    while len(got) < 4 << 20:
        got += next(stream).stdout
    assert [d.code() for d in done] == [Code.OK] * 4 and sorted(got[::1 << 20]) == [65, 66, 67, 68]
    rpc.write(number)
    assert read_rest(stream)[2] == 0


def test_dataplane_80_81_82_who_is_not_there(rpc):
    refused(Code.NOT_FOUND, rpc.write, 9999, b"x")
    refused(Code.NOT_FOUND, rpc.write, -1, b"x")
    refused(Code.NOT_FOUND, rpc.signal, 9999, 15)
    refused(Code.NOT_FOUND, rpc.resize, 9999, 80, 24)
    stream = rpc.start("sleep", "60")
    number = number_of(stream)
    for signum in (0, 1, 64):
        refused(Code.INVALID_ARGUMENT, rpc.signal, number, signum)
    refused(Code.INVALID_ARGUMENT, rpc.unary, "WriteStdin", M["WriteStdinRequest"](process_id=number), M["WriteStdinResponse"])
    stream.cancel()


def test_dataplane_83_88_a_signal_ends_the_group_and_the_number(rpc):
    stream = rpc.start("sh", "-c", "sleep 7301 & wait")
    number = number_of(stream)
    wait_until(lambda: alive(rpc, "7301"))
    rpc.signal(number, 15)
    assert read_rest(stream)[2] == 143
    wait_until(lambda: not alive(rpc, "7301"))
    refused(Code.NOT_FOUND, rpc.signal, number, 15)


def test_dataplane_89_a_finished_process_may_be_signalled(rpc):
    stream = rpc.start("sh", "-c", "sleep 2 & echo done")
    number = number_of(stream)
    assert next(stream).stdout == b"done\n"
    rpc.signal(number, 15)  # the shell has ended, or ends now; the stream waits for its output
    assert read_rest(stream)[2] in (0, 143)


def test_dataplane_84_85_86_terminals(rpc):
    stream = rpc.start("sleep", "60")
    refused(Code.FAILED_PRECONDITION, rpc.resize, number_of(stream), 80, 24)
    stream.cancel()
    stream = rpc.start("stty", "size", pty=(80, 24))
    number_of(stream)
    assert read_rest(stream) == (b"24 80\r\n", b"", 0)
    stream = rpc.start("sh", "-c", "stty -echo; echo ready; read line; stty size", pty=(80, 24))
    number = number_of(stream)
    assert b"ready" in next(stream).stdout
    refused(Code.INVALID_ARGUMENT, rpc.resize, number, 0, 24)
    refused(Code.INVALID_ARGUMENT, rpc.resize, number, 65536, 24)
    rpc.resize(number, 132, 50)
    rpc.write(number, b"\n")
    assert b"50 132\r\n" in read_rest(stream)[0]
    refused(Code.INVALID_ARGUMENT, lambda: list(rpc.start("true", pty=(70000, 1))))


def test_dataplane_87_numbers_are_counted_from_one(rpc):
    streams = []
    threads = [threading.Thread(target=lambda: streams.append(rpc.start("true"))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    numbers = [number_of(s) for s in streams]
    assert sorted(numbers) == list(range(1, 9))
    for s in streams:
        assert read_rest(s) == (b"", b"", 0)
    rpc.execute("true")
    stream = rpc.start("true")
    assert number_of(stream) == 9  # Execute gives none


def test_dataplane_70_both_ports_have_one_tree_and_the_same_processes(rpc, rest):
    assert rest.put("f", b"by REST")[0] == 204
    assert rpc.execute("cat", "f").stdout == b"by REST"
    rpc.execute("sh", "-c", "echo by gRPC >g")
    assert rest.files("GET", "g") == (200, b"by gRPC\n")
    stream = rpc.start("sleep", "60")
    number = number_of(stream)
    assert rest.get(f"/v1/processes/{number}")[1]["argv"] == ["sleep", "60"]
    assert rest.ask("DELETE", f"/v1/processes/{number}")[0].status == 204
    assert read_rest(stream)[2] == 137
    assert rest.files("DELETE", "g")[0] == 204 and rest.files("GET", "g")[0] == 404


def test_dataplane_71_the_end_of_the_sandbox_ends_its_streams(rpc, guest):
    stream = rpc.start("sleep", "7302")
    number_of(stream)
    guest.proc.kill()
    refused(Code.UNAVAILABLE, lambda: list(stream))
    wait_until(lambda: not alive(rpc, "7302"))


@pytest.mark.parametrize("how", ["Start", "Execute"])
def test_a_client_that_leaves_ends_the_whole_group(rpc, how):
    argv = ("sh", "-c", "sleep 7303 & sleep 7303 & echo ready; wait")
    if how == "Start":
        stream = rpc.start(*argv)
        number_of(stream)
        next(stream)
        wait_until(lambda: len(alive(rpc, "7303")) == 2)
        stream.cancel()
    else:
        request = M["ExecuteRequest"](config=M["ProcessConfig"](command=argv))
        call = rpc.channel.unary_unary("/process.v1.ProcessService/Execute").future(request.SerializeToString(), timeout=60)
        wait_until(lambda: len(alive(rpc, "7303")) == 2)
        call.cancel()
    wait_until(lambda: not alive(rpc, "7303"))


@pytest.mark.parametrize("how", ["Start", "Execute"])
def test_u37_a_deadline_ends_the_whole_group(rpc, how):
    argv = ("sh", "-c", "sleep 7304 & wait")
    if how == "Start":
        refused(Code.DEADLINE_EXCEEDED, lambda: list(rpc.start(*argv, timeout=1)))
    else:
        refused(Code.DEADLINE_EXCEEDED, rpc.execute, *argv, timeout=1)
    wait_until(lambda: not alive(rpc, "7304"))


def test_the_server_keeps_the_deadline_itself(rpc):
    """For a client that does not watch its own clock."""
    config = M["ProcessConfig"](command=["sh", "-c", "sleep 7305 & wait"])
    assert raw(rpc, "Execute", framed(M["ExecuteRequest"](config=config)), "grpc-timeout: 300m") == "4"
    wait_until(lambda: not alive(rpc, "7305"))
    assert raw(rpc, "Execute", b"", "grpc-timeout: 1 s") == "13"


def test_output_beyond_what_a_client_accepts_is_never_cut(rpc, base):
    script = "head -c 5000000 /dev/zero; echo ran >>count; exit 5"
    detail = refused(Code.RESOURCE_EXHAUSTED, rpc.execute, "sh", "-c", script)
    assert "5000" in detail and (base / "count").read_text() == "ran\n"
    done = rpc.execute("sh", "-c", script, channel=rpc.connect(grpc__max_receive_message_length=-1))
    assert (len(done.stdout), done.exit_code) == (5_000_000, 5) and (base / "count").read_text() == "ran\nran\n"
    stream = rpc.start("sh", "-c", "head -c 20000000 /dev/zero; echo end >&2")
    number_of(stream)
    out, err, code = read_rest(stream)
    assert (len(out), err, code) == (20_000_000, b"end\n", 0)


def test_output_that_could_not_be_kept_is_an_error(guest, link, base):
    from rpc_kit import Rpc
    rpc = Rpc(Rest(guest, link, base, env=["SANDBOX_OUTPUT_MAX_BYTES=300000"]))
    detail = refused(Code.RESOURCE_EXHAUSTED, rpc.execute, "sh", "-c", "head -c 400000 /dev/zero")
    assert "300000 of 400000" in detail
    rpc.close()


def test_a_slow_reader_holds_the_process_up(rpc, rest, base):
    stream = rpc.start("sh", "-c", "head -c 30000000 /dev/zero; echo over >over")
    number = number_of(stream)
    next(stream)
    for _ in range(50):  # in which all of it could have been read
        assert rpc.execute("true").exit_code == 0
    assert rest.get(f"/v1/processes/{number}")[1]["output_bytes"] < 15_000_000  # the windows of the client, and buffers
    assert len(read_rest(stream)[0]) > 29_000_000 and (base / "over").exists()


def raw(rpc, method, body, *headers):
    """grpc-status of a request whose body is just that, by curl: grpcio sends no malformed ones."""
    args = [arg for h in ("content-type: application/grpc", "te: trailers", *headers) for arg in ("-H", h)]
    r = subprocess.run(["curl", "-sS", "-D", "-", "-o", os.devnull, "--http2-prior-knowledge", "--unix-socket", rpc.tunnel.path,
                        "--data-binary", "@-", *args, f"http://x/process.v1.ProcessService/{method}"],
                       input=body, capture_output=True, timeout=60)
    assert r.returncode == 0, r.stderr
    return re.search(rb"(?m)^grpc-status: (\d+)\r$", r.stdout)[1].decode()


def framed(message):
    data = message.SerializeToString()
    return b"\0" + struct.pack(">I", len(data)) + data


BAD = {
    "bad flag": (b"\2\0\0\0\0", "13"),
    "compressed": (b"\1\0\0\0\1x", "12"),
    "oversized": (b"\0\xff\xff\xff\xff", "8"),
    "just too large": (b"\0" + struct.pack(">I", (4 << 20) + 1), "8"),
    "torn": (b"\0\0\0\0\5ab", "13"),
    "torn head": (b"\0\0", "13"),
    "none": (b"", "12"),
    "two": (b"\0\0\0\0\0\0\0\0\0\0", "12"),
    "no message": (b"\0\0\0\0\2\xff\xff", "13"),
    "a group": (b"\0\0\0\0\1\x0b", "13"),
    "not UTF-8": (b"\0\0\0\0\5\x0a\x03\x0a\x01\xff", "13"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_malformed_request_is_refused(rpc, name):
    body, code = BAD[name]
    assert raw(rpc, "Execute", body) == code
    assert raw(rpc, "Execute", framed(M["ExecuteRequest"](config=M["ProcessConfig"](command=["true"])))) == "0"


def test_what_is_no_call_of_ours(rpc):
    for path in ("Nope", "Start/x", ""):
        refused(Code.UNIMPLEMENTED, rpc.channel.unary_unary(f"/process.v1.ProcessService/{path}"), b"", timeout=60)
    refused(Code.UNIMPLEMENTED, rpc.channel.unary_unary("/other.v1.Service/Start"), b"", timeout=60)
    answer, got = rpc.rest.ask("GET", "/v1/health")
    assert answer.status == 200
    rpc.rest.port = GRPC_PORT
    answer, got = rpc.rest.ask("GET", "/")
    assert answer.status == 415 and b"HTTP/2" in got


def test_a_message_of_the_largest_size_is_read(rpc):
    fill = "x" * (100 * 1024)
    big = ["true"] + [fill] * 18  # below what execve() takes, far above one piece
    assert rpc.execute(*big).exit_code == 0
    refused(Code.RESOURCE_EXHAUSTED, rpc.execute, *(["true"] + [fill] * 41))
    assert "65536" in refused(Code.RESOURCE_EXHAUSTED, rpc.execute, *([""] * 65537))


def reflect(rpc, version, *requests):
    """The answers to requests of server reflection, as (member, value)."""
    kinds = declare(f"grpc.reflection.{version}", REFLECTION)
    call = rpc.channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                     lambda m: m.SerializeToString(), kinds["ServerReflectionResponse"].FromString)
    answers = list(call(iter([kinds["ServerReflectionRequest"](**r) for r in requests]), timeout=60))
    assert len(answers) == len(requests)
    return [(a.WhichOneof("message_response"), getattr(a, a.WhichOneof("message_response"))) for a in answers]


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_describes_everything_that_is_served(rpc, version):
    (_, listed), (_, empty) = reflect(rpc, version, {"list_services": ""}, {"file_by_filename": "google/protobuf/empty.proto"})
    names = [s.name for s in listed.service]
    assert names == ["process.v1.ProcessService", "watcher.v1.FileWatcherService",
                     "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"]
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(empty.file_descriptor_proto[0])
    for _, files in reflect(rpc, version, *({"file_containing_symbol": name} for name in names)):
        pool.AddSerializedFile(files.file_descriptor_proto[0])
    start = pool.FindMethodByName("process.v1.ProcessService.Start")
    assert start.server_streaming and not start.client_streaming
    config = start.input_type.fields_by_name["config"].message_type
    assert config.fields_by_name["env_vars"].message_type.GetOptions().map_entry and config.fields_by_name["cwd"].has_presence
    assert [f.name for f in start.output_type.oneofs_by_name["event"].fields] == ["init", "stdout", "stderr", "exit"]
    for name, fields in PROCESS.items():
        described = pool.FindMessageTypeByName(f"process.v1.{name}")
        assert [(f.name, f.number) for f in described.fields] == [(t.split()[0], int(t.split()[1])) for t in fields], name
    assert pool.FindEnumTypeByName("process.v1.Signal").values_by_name["SIGNAL_SIGTERM"].number == 15
    assert pool.FindEnumTypeByName("watcher.v1.FileEventType").values_by_number[6].name == "FILE_EVENT_TYPE_ERROR"


def test_reflection_says_what_it_does_not_know(rpc):
    (a, error), (b, _), (c, _), (d, _) = reflect(
        rpc, "v1", {"file_containing_symbol": "process.v1.Nope"}, {"file_by_filename": "x"}, {"all_extension_numbers_of_type": "x"},
        {"file_containing_symbol": "process.v1.ProcessService.Start"})
    assert (a, b, c, d) == ("error_response",) * 3 + ("file_descriptor_response",) and error.error_code == 5


def test_requests_that_wait_have_a_limit_together(rpc):
    stream = rpc.start("sleep", "7306")
    number = number_of(stream)
    request = M["WriteStdinRequest"](process_id=number, input=b"x" * ((4 << 20) - 100)).SerializeToString()
    first, done = threading.Event(), []
    calls = [rpc.channel.unary_unary("/process.v1.ProcessService/WriteStdin").future(request, timeout=60) for _ in range(20)]
    for call in calls:
        call.add_done_callback(lambda c: (done.append(c.code()), first.set()))
    assert first.wait(60) and done[0] == Code.RESOURCE_EXHAUSTED
    rpc.signal(number, 9)
    assert read_rest(stream)[2] == 137
    assert {call.code() for call in calls} <= {Code.RESOURCE_EXHAUSTED, Code.FAILED_PRECONDITION, Code.NOT_FOUND}
    assert rpc.execute("true").exit_code == 0


def test_answers_that_nobody_reads_have_a_limit(rpc):
    kinds = declare("grpc.reflection.v1", REFLECTION)
    request = kinds["ServerReflectionRequest"](file_containing_symbol="process.v1.ProcessService").SerializeToString()
    call = rpc.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")(iter([request] * 20_000), timeout=60)
    next(call)
    assert sum(1 for _ in call) == 19_999
    peak = rpc.execute("sh", "-c", "grep VmHWM /proc/$PPID/status").stdout
    assert int(peak.split()[1]) < 16 * 1024  # of 40 MB
