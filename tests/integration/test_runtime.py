# SPDX-License-Identifier: Apache-2.0
"""The python-runtime HTTP API of cay-init, in namespaces made by unshare(1). Tests carry the numbers of the cases that they
prove: dataplane_N is in docs/reference/dataplane.md, uN in docs/reference/cases.md.
"""

import http.client
import json
import os
import pathlib
import time

import pytest

from cay_local import wait_until
from guest_kit import (  # noqa: F401: fixtures
    LOG_STDOUT, PATH, PORT, RUNTIME_HTTP, RUNTIME_NOW, STDOUT, guest, link)
from runtime_kit import Events, Runtime, base, joined, rt  # noqa: F401: fixtures


DENIED = (403, {"message": "Access denied"})


def test_dataplane_1_health(rt):
    answer, data = rt.ask("GET", "/")
    assert answer.status == 200 and answer.getheader("Content-Type") == "application/json"
    assert json.loads(data) == {"status": "ok", "message": "Sandbox Runtime is active."}


def test_runtime_has_the_users_ids_and_no_privilege(rt):
    status, got = rt.execute("id -u; id -g; grep -E 'Cap|NoNew' /proc/self/status; ls /proc/self/fd | wc -l")
    out = got["stdout"].split()
    assert out[:2] == ["1000", "1000"]
    assert set(out[3:13:2]) == {"0" * 16}
    assert out[-1] == "4"
    # the serving process itself: parent of the shell
    got = rt.execute("grep -E '^(Uid|CapPrm|CapBnd|Threads)' /proc/$PPID/status; cat /proc/$PPID/environ; ls /proc/$PPID/fd")[1]
    assert "Uid:\t1000\t1000\t1000\t1000\nThreads:\t1\nCapPrm:\t0000000000000000\nCapBnd:\t0000000000000000" in got["stdout"]
    assert "Permission denied" in got["stderr"]


def test_dataplane_2_3_paths_are_relative_to_the_base(rt, base):
    (base / "a").mkdir()
    (base / "a/b.txt").write_bytes(b"x")
    assert rt.ask("GET", "/download/a/b.txt")[1] == b"x"
    assert rt.ask("GET", "/download/a%2Fb.txt")[1] == b"x"
    assert rt.get("/exists/%2F%2F%2Fa")[1] == {"path": "///a", "exists": True}


@pytest.mark.parametrize("path", ["..%2Fetc%2Fpasswd", "a%2F..%2F..%2Fetc", "%2F..%2Fetc%2Fpasswd",
                                  "..%2F..%2Fetc%2Fpasswd", ".."])
def test_dataplane_4_5_7_20_23_26_30_31_traversal_is_denied(rt, path):
    for route in ("download", "list", "exists"):
        assert rt.get(f"/{route}/{path}") == DENIED


def test_links_may_not_lead_outside(rt, base):
    (base / "in").mkdir()
    (base / "in/f").write_text("inside")
    (base / "abs_in").symlink_to(base / "in/f")
    (base / "rel_in").symlink_to("in/../in/f")
    (base / "abs_out").symlink_to("/etc/passwd")
    (base / "rel_out").symlink_to("../../../../../../../../etc/passwd")
    (base / "dir_out").symlink_to("/etc")
    (base / "loop").symlink_to("loop")
    assert rt.ask("GET", "/download/abs_in")[1] == b"inside"
    assert rt.ask("GET", "/download/rel_in")[1] == b"inside"
    for path in ("abs_out", "rel_out", "dir_out/passwd", "dir_out"):
        assert rt.get(f"/exists/{path}") == DENIED
        assert rt.get(f"/download/{path}") == DENIED
        assert rt.upload(f'name="file"; filename="{path}"') == DENIED
    assert rt.get("/exists/loop") == (200, {"path": "loop", "exists": False})
    assert pathlib.Path("/etc/passwd").read_text().startswith("root")


def test_dataplane_6_8_base_comes_from_the_environment_or_the_working_directory(guest, link, base):
    # "   " means the default; there is no /app here, so it is the command's directory
    rt = Runtime(guest, link, base, env=["SANDBOX_BASE_DIR=   "], cwd=str(base))
    link_env = rt.execute("pwd")[1]["stdout"]
    assert link_env == f"{base}\n"


def test_base_of_last_resort_is_writable(guest, link, tmp_path):
    link.start(flags=LOG_STDOUT | RUNTIME_HTTP | RUNTIME_NOW, port=PORT, env=[PATH], cwd=str(tmp_path), uid=1000,
               gid=1000)
    tmp_path.chmod(0o755)
    rt = Runtime.__new__(Runtime)
    rt.guest = guest
    where = rt.execute("pwd")[1]["stdout"].strip()
    assert os.path.isdir(where) and where != str(tmp_path)
    assert rt.execute("touch f && rm f")[1]["exit_code"] == 0


def test_dataplane_9_12_u29_execute_in_the_base_directory(rt, base):
    assert rt.execute("echo hello") == (200, {"stdout": "hello\n", "stderr": "", "exit_code": 0, "timed_out": False})
    assert rt.execute("pwd")[1]["stdout"] == f"{base}\n"
    session, own = rt.execute("ps -o sess= -p $$; echo $$")[1]["stdout"].split()
    assert session == own


def test_dataplane_10_limit_comes_from_the_environment(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_EXEC_TIMEOUT_SECONDS=0.5"])
    got = rt.execute("sleep 60")[1]
    assert (got["exit_code"], got["timed_out"]) == (124, True)
    assert got["stderr"] == "Command timed out after 0.5 seconds"


@pytest.mark.parametrize("limit", ["not-a-number", "nan", "inf", "-1", "0", ""])
def test_dataplane_11_bad_limit_means_the_default(guest, link, base, limit):
    rt = Runtime(guest, link, base, env=[f"SANDBOX_EXEC_TIMEOUT_SECONDS={limit}"])
    assert rt.execute("sleep 0.1; echo ok")[1]["stdout"] == "ok\n"


def test_dataplane_14_u30_unbalanced_quote_is_the_shells_business(rt):
    status, got = rt.execute("echo 'unterminated")
    assert status == 200 and got["exit_code"] == 2 and "nterminated" in got["stderr"]


def test_dataplane_9_14_27_words_instead_of_a_shell(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_EXECUTE_MODE=argv"])
    assert rt.execute("echo 'hello  world' \"a\\\"b\" c\\ d $HOME | x")[1]["stdout"] == 'hello  world a"b c d $HOME | x\n'
    got = rt.execute("echo 'unterminated")[1]
    assert (got["exit_code"], got["stderr"]) == (1, "Failed to execute command: No closing quotation")
    got = rt.execute("nosuch x")[1]
    assert got["stderr"] == "Failed to execute command: [Errno 2] No such file or directory: 'nosuch'"
    assert rt.execute("")[1]["exit_code"] == 1


def test_dataplane_27_quotes_are_removed(rt):
    assert rt.execute("echo 'hello world'")[1]["stdout"] == "hello world\n"


def test_u26_execute_runs_a_shell(rt):
    got = rt.execute("mkdir -p a && echo hi > a/f && cat a/f | tr h H")[1]
    assert (got["stdout"], got["exit_code"]) == ("Hi\n", 0)


@pytest.mark.parametrize("command", [
    "env", "/usr/bin/env", "./script a b", "./noexec", "nosuch x", "./nosuch", ".", "./dir", "dir", "/bin/false", "sleep x",
    "python3 -c exit(3)", "printf a", "true"])
def test_a_plain_command_ends_as_in_a_shell(rt, base, command):
    (base / "script").write_text("echo script without an interpreter $*\n")
    (base / "script").chmod(0o755)
    (base / "noexec").write_text("echo never\n")
    (base / "noexec").chmod(0o644)
    (base / "dir").mkdir()

    def run(text):
        status, got = rt.execute(text)
        got["stdout"] = sorted(got["stdout"].splitlines())
        return status, got

    assert run(command) == run(command + " ;")


def test_dataplane_13_u27_timeout_kills_the_group_and_keeps_output(rt):
    before = time.monotonic()
    status, got = rt.execute("echo x; sleep 4711 & sleep 4711", timeout_seconds=1)
    assert time.monotonic() - before < 100  # not 4711
    assert (status, got["exit_code"], got["timed_out"], got["stdout"]) == (200, 124, True, "x\n")
    assert got["stderr"].endswith("Command timed out after 1 seconds")
    wait_until(lambda: rt.execute("pgrep -xf 'sleep 4711'")[1]["exit_code"] == 1)
    got = rt.execute("printf oops >&2; sleep 60", timeout_seconds=0.25)[1]
    assert got["stderr"] == "oops\nCommand timed out after 0.25 seconds"


@pytest.mark.parametrize("body", ['{"command":"true","timeout_seconds":0}', '{"command":"true","timeout_seconds":-1}',
                                  '{"command":"true","timeout_seconds":"x"}', '{"command":"true","timeout_seconds":NaN}',
                                  '{"command":"true","timeout_seconds":1e999}', '{"command":1}', "{}", "[]", '"x"',
                                  "nonsense", "", '{"command":"a\\u0000b"}'])
def test_u28_bad_request_bodies_are_422(rt, body):
    answer, data = rt.ask("POST", "/execute", body, {"Content-Type": "application/json"})
    assert answer.status == 422
    detail = json.loads(data)["detail"][0]
    assert detail["loc"][0] == "body" and {"type", "msg", "input"} <= detail.keys()


def test_u28_server_limit_is_the_upper_one(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_EXEC_TIMEOUT_SECONDS=0.5"])
    assert rt.execute("sleep 60", timeout_seconds=1000)[1]["stderr"].endswith("after 0.5 seconds")


def test_execute_tells_codes_and_signals(rt):
    assert rt.execute("exit 3")[1]["exit_code"] == 3
    assert rt.execute("kill -9 $$")[1]["exit_code"] == -9
    assert rt.execute("nosuch")[1]["exit_code"] == 127


def test_execute_output_is_valid_json_whatever_it_is(rt):
    got = rt.execute(r"printf 'a\377b\r\nc\rd\001\042\\ \303\244\342\202'; printf '\360\237\217\235' >&2")[1]
    assert got["stdout"] == 'a\ufffdb\nc\nd\x01"\\ ä\ufffd\ufffd'
    assert got["stderr"] == "🏝"


def test_execute_large_output_comes_whole_and_too_large_is_cut_aloud(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_OUTPUT_MAX_BYTES=15000000"])
    got = rt.execute("head -c 10000000 /dev/zero | tr '\\0' '\\n'")[1]
    assert got == {"stdout": "\n" * 10_000_000, "stderr": "", "exit_code": 0, "timed_out": False}
    got = rt.execute("printf oops >&2; head -c 20000000 /dev/zero | tr '\\0' y; touch whole")[1]
    assert got["stdout"] == "y" * 15_000_000
    assert got["stderr"] == "oops\n[stdout cut: 15000000 of 20000000 bytes could be kept]\n"
    assert (got["truncated"], got["stdout_bytes"], got["stderr_bytes"], got["exit_code"]) == (True, 20_000_000, 4, 1)
    assert (base / "whole").exists()
    assert rt.execute("head -c 20000000 /dev/zero; exit 7")[1]["exit_code"] == 7


def test_output_of_a_command_costs_disk_and_no_memory(rt, base):
    """100 MB of lines with characters of several bytes: what comes is what was written, and the runtime stays small."""
    text = "aä€🏝\r\n"
    n = 100_000_000 // len(text.encode())
    (base / "p.py").write_text(f"import sys\nfor _ in range({n} // 10000): sys.stdout.write({text!r} * 10000)\n")
    runtime = int(rt.execute("echo $PPID")[1]["stdout"])
    answer, data = rt.ask("POST", "/execute", json.dumps({"command": "PYTHONIOENCODING=utf-8 python3 p.py"}))
    assert json.loads(data)["stdout"] == text.replace("\r", "") * (n // 10000 * 10000)
    peak = rt.execute(f"grep VmHWM /proc/{runtime}/status")[1]["stdout"].split()[1]
    assert int(peak) < 8192
    assert os.listdir(base) == ["p.py"]


def test_execute_takes_environment_directory_and_input(rt, base):
    (base / "sub").mkdir()
    got = rt.execute("echo $A $B $PATH; pwd; cat", env={"A": "1 2", "B": "ä"}, cwd="sub", stdin="in\nput")[1]
    assert got["stdout"] == f"1 2 ä {PATH[5:]}\n{base}/sub\nin\nput"
    assert rt.execute("cat", stdin="x" * 3_000_000)[1]["stdout"] == "x" * 3_000_000
    assert rt.execute("env", env={"PATH": "/usr/bin"})[1]["stdout"].count("PATH=") == 1
    for outside in ("..", "../..", "/..", "sub/../../x"):
        assert rt.execute("true", cwd=outside) == DENIED
    (base / "out").symlink_to("/etc")
    assert rt.execute("true", cwd="out") == DENIED
    got = rt.execute("true", cwd="absent")
    assert got[0] == 200 and got[1]["exit_code"] == 1
    assert got[1]["stderr"] == "Failed to execute command: [Errno 2] No such file or directory: 'absent'"


@pytest.mark.parametrize("member,loc", [
    ({"env": []}, ["env"]), ({"env": {"A": 1}}, ["env", "A"]), ({"env": {"A=B": "x"}}, ["env", "A=B"]),
    ({"env": {"": "x"}}, ["env", ""]), ({"cwd": 1}, ["cwd"]), ({"stdin": {}}, ["stdin"]), ({"detach": "yes"}, ["detach"])])
def test_wrong_members_are_422(rt, member, loc):
    status, got = rt.execute("true", **member)
    assert status == 422 and got["detail"][0]["loc"] == ["body", *loc]


def test_execute_input_is_empty_and_background_processes_do_not_hold_it(rt):
    before = time.monotonic()
    assert rt.execute("cat; sleep 1000 & echo ok")[1]["stdout"] == "ok\n"
    assert time.monotonic() - before < 100  # not 1000


WAIT = "echo up >> up; while [ ! -e go ]; do sleep 0.02; done; echo done | tee -a done"


class Caller:
    """Sends a request and does not wait for the answer."""

    def __init__(self, rt, command, headers="", **more):
        body = json.dumps({"command": command, **more})
        self.sock = rt.guest.tcp()
        self.sock.sendall(f"POST /execute HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}".encode())

    def answer(self):
        answer = http.client.HTTPResponse(self.sock)
        answer.begin()
        return json.loads(answer.read())

    def leave(self):
        self.sock.close()


def test_slow_command_blocks_nobody(rt, base):
    caller = Caller(rt, WAIT)
    wait_until((base / "up").exists)
    assert rt.get("/")[0] == 200
    assert rt.get("/exists/up")[1]["exists"]
    (base / "go").touch()
    assert caller.answer()["stdout"] == "done\n"


def gone(rt, pattern):
    return rt.execute(f"pgrep -f '^{pattern}'")[1]["exit_code"] == 1


def test_a_caller_that_leaves_ends_what_it_started(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_REATTACH_SECONDS=0"])
    caller = Caller(rt, "touch up; sleep 4712 & sleep 4713")
    wait_until((base / "up").exists)
    caller.leave()
    wait_until(lambda: gone(rt, "sleep 471"))


def test_a_caller_that_leaves_is_waited_for_and_then_its_command_is_ended(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_REATTACH_SECONDS=1"])
    caller = Caller(rt, "touch up; sleep 4714")
    wait_until((base / "up").exists)
    caller.leave()
    assert not gone(rt, "sleep 4714")
    wait_until(lambda: gone(rt, "sleep 4714"))


def test_a_detached_command_outlives_its_caller(guest, link, base):
    rt = Runtime(guest, link, base, env=["SANDBOX_REATTACH_SECONDS=0"])
    caller = Caller(rt, WAIT, detach=True)
    wait_until((base / "up").exists)
    caller.leave()
    assert rt.get("/")[0] == 200
    (base / "go").touch()
    wait_until((base / "done").exists)


def test_the_same_request_takes_over_what_its_caller_left(rt, base):
    """As the Python client does after a read time-out: the command runs once, and its result comes from the beginning."""
    caller = Caller(rt, "echo first; " + WAIT)
    wait_until((base / "up").exists)
    caller.leave()
    other = Caller(rt, "echo first; " + WAIT, headers="X-Forwarded-For: 10.0.0.1\r\n")  # somebody else: its own command
    wait_until(lambda: (base / "up").read_text() == "up\nup\n")
    again = Caller(rt, "echo first; " + WAIT)
    third = Caller(rt, "echo first; " + WAIT)  # the first is taken now, so this one is a command of its own
    wait_until(lambda: (base / "up").read_text() == "up\nup\nup\n")
    (base / "go").touch()
    for c in (again, other, third):
        assert c.answer()["stdout"] == "first\ndone\n"
    assert (base / "done").read_text() == "done\n" * 3


def test_a_result_waits_for_its_caller_too(rt, base):
    caller = Caller(rt, WAIT, headers="X-Request-ID: 7\r\n")
    wait_until((base / "up").exists)
    caller.leave()
    (base / "go").touch()
    wait_until((base / "done").exists)
    assert Caller(rt, WAIT, headers="X-Request-ID: 8\r\n").answer()["stdout"] == "done\n"
    assert (base / "done").read_text() == "done\n" * 2  # another id: another command
    assert Caller(rt, WAIT, headers="X-Request-ID: 7\r\n").answer()["stdout"] == "done\n"
    assert (base / "done").read_text() == "done\n" * 2
    assert Caller(rt, WAIT, headers="X-Request-ID: 7\r\n").answer()["stdout"] == "done\n"
    assert (base / "done").read_text() == "done\n" * 3  # it was answered: nothing is kept


def test_a_torn_answer_is_sent_again(rt, base):
    command = "echo x >> ran; head -c 30000000 /dev/zero | tr '\\0' y"
    caller = Caller(rt, command)
    assert caller.sock.recv(1000)
    caller.leave()
    assert Caller(rt, command).answer()["stdout"] == "y" * 30_000_000
    assert (base / "ran").read_text() == "x\n"


def test_commands_that_wait_are_limited(rt, base):
    for i in range(34):
        caller = Caller(rt, f"touch up{i}; sleep 480{i:02}")
        wait_until((base / f"up{i}").exists)
        caller.leave()
    wait_until(lambda: gone(rt, "sleep 4800[01]"))
    assert not gone(rt, "sleep 48002")


def test_output_comes_as_events(rt, base):
    stream = Events(rt, "echo out; echo err >&2; " + WAIT + "; exit 3").read()
    first = [next(stream), next(stream)]
    assert sorted(first) == [("stderr", {"text": "err\n"}), ("stdout", {"text": "out\n"})]
    (base / "go").touch()
    rest = list(stream)
    assert rest[-1] == ("exit", {"exit_code": 3, "timed_out": False, "truncated": False})
    got = list(Events(rt, "printf x; sleep 60", timeout_seconds=0.3).read())
    assert got[0] == ("stdout", {"text": "x"}) and got[-1][1]["exit_code"] == 124 and got[-1][1]["timed_out"]
    got = list(Events(rt, "true", cwd="absent").read())
    assert got[0][0] == "stderr" and got[-1][1]["exit_code"] == 1


def test_events_split_no_character_and_lose_no_byte(rt, base):
    text = ("aä€🏝" * 50_000).encode()
    (base / "f").write_bytes(text)
    events = list(Events(rt, "dd if=f bs=7 status=none").read())
    assert joined(events, "stdout") == text
    assert all("text" in d for e, d in events if e == "stdout")
    junk = bytes(range(256)) * 1000
    (base / "g").write_bytes(junk + b"\xf0\x9f")
    events = list(Events(rt, "cat g").read())
    assert joined(events, "stdout") == junk + b"\xf0\x9f"


def test_a_reader_who_stops_reading_stops_the_command(rt, base):
    runtime = int(rt.execute("echo $PPID")[1]["stdout"])
    events = Events(rt, "for i in $(seq 2000); do head -c 50000 /dev/zero | tr '\\0' y; echo $i > n; done")
    seen = []

    def still():
        seen.append((base / "n").read_text() if (base / "n").exists() else "")
        return len(seen) > 5 and len(set(seen[-5:])) == 1 and seen[-1]

    wait_until(still)
    assert int(seen[-1]) < 1000
    assert sum(len(d["text"]) for e, d in events.read() if e == "stdout") == 2000 * 50_000
    assert int(rt.execute(f"grep VmHWM /proc/{runtime}/status")[1]["stdout"].split()[1]) < 8192


def test_a_reader_who_leaves_ends_the_command(rt, base):
    caller = Events(rt, "echo up; sleep 4717")
    assert next(caller.read())[1]["text"] == "up\n"
    caller.sock.close()
    caller.answer.close()
    wait_until(lambda: gone(rt, "sleep 4717"))


def test_dataplane_15_18_32_upload_download_remove(rt, base):
    status, got = rt.upload('name="file"; filename="uploaded.txt"', b"some bytes\r\n--X\r\n")
    assert (status, got) == (200, {"message": "File 'uploaded.txt' uploaded successfully."})
    assert (base / "uploaded.txt").read_bytes() == b"some bytes\r\n--X\r\n"
    assert (base / "uploaded.txt").stat().st_uid == 1000
    answer, data = rt.ask("GET", "/download/uploaded.txt")
    assert (answer.status, data) == (200, b"some bytes\r\n--X\r\n")
    assert answer.getheader("Content-Type") == "application/octet-stream"
    assert answer.getheader("Content-Length") == "17"
    assert answer.getheader("Accept-Ranges") == "bytes"
    assert answer.getheader("ETag") and answer.getheader("Last-Modified").endswith("GMT")
    assert answer.getheader("Content-Disposition") == 'attachment; filename="uploaded.txt"'
    assert rt.execute("rm uploaded.txt")[1]["exit_code"] == 0
    assert rt.get("/exists/uploaded.txt")[1] == {"path": "uploaded.txt", "exists": False}


def test_dataplane_16_upload_makes_directories_and_overwrites(rt, base):
    assert rt.upload('name="file"; filename="nested/dir/uploaded.txt"', b"long content")[0] == 200
    assert rt.upload('name="file"; filename="/nested/dir/uploaded.txt"', b"short")[0] == 200
    assert (base / "nested/dir/uploaded.txt").read_bytes() == b"short"
    assert rt.upload('name="file"; filename="empty"', b"")[0] == 200
    assert (base / "empty").read_bytes() == b""


@pytest.mark.parametrize("name", ["../evil.txt", "../../evil", "a/../../evil"])
def test_dataplane_17_34_upload_traversal_is_denied(rt, base, name):
    assert rt.upload(f'name="file"; filename="{name}"') == DENIED
    assert not (base.parent / "evil").exists() and not (base.parent / "evil.txt").exists()


def test_upload_to_a_directory_fails_with_a_reason(rt, base):
    (base / "d").mkdir()
    status, got = rt.upload('name="file"; filename="d"')
    assert status == 500 and got["message"].startswith("File upload failed: ")
    os.mkfifo(base / "pipe", 0o666)
    assert rt.upload('name="file"; filename="pipe"')[0] == 500


@pytest.mark.parametrize("disposition,name", [
    ('name="file"; filename="x y.txt"', "x y.txt"), ("name=file; filename=bare.txt", "bare.txt"),
    ('name="file"; filename="ä€🏝.txt"', "ä€🏝.txt"), ("name=\"file\"; filename*=utf-8''%C3%A4%20b", "ä b"),
    ("name=\"file\"; filename=\"other\"; filename*=UTF-8''real", "real"), ('name="file"; filename="q%22q"', 'q"q'),
    ('name="file"; filename="q\\"q"', 'q"q'), ('name="file"; filename="b\\\\s"', "b\\s"),
    ('name="file"; filename="100%41"', "100%41"),
])
def test_upload_filenames_of_every_client(rt, base, disposition, name):
    assert rt.upload(disposition) == (200, {"message": f"File '{name}' uploaded successfully."})
    assert (base / name).read_bytes() == b"data"


def test_upload_without_a_file_is_422(rt):
    assert rt.upload('name="other"; filename="x"')[0] == 422
    assert rt.upload('name="file"')[0] == 422
    answer, data = rt.ask("POST", "/upload", b"{}", {"Content-Type": "application/json"})
    assert answer.status == 422 and json.loads(data)["detail"][0]["loc"] == ["body", "file"]
    answer, _ = rt.ask("POST", "/upload", b"--XX\r\nno end", {"Content-Type": "multipart/form-data; boundary=XX"})
    assert answer.status == 400


def test_u31_chunked_upload_of_8_mib(rt, base):
    data = os.urandom(8 << 20)
    assert rt.upload('name="file"; filename="big"', data, chunked=True)[0] == 200
    assert (base / "big").read_bytes() == data
    assert rt.ask("GET", "/download/big")[1] == data


def test_upload_and_download_keep_memory_small(rt, base):
    with open(base / "sparse", "wb") as f:
        f.truncate(200 << 20)
    assert len(rt.ask("GET", "/download/sparse")[1]) == 200 << 20
    assert rt.upload('name="file"; filename="big"', bytes(64 << 20))[0] == 200
    got = rt.execute("grep VmHWM /proc/$PPID/status")[1]["stdout"]
    assert int(got.split()[1]) < 6144


def test_dataplane_19_download_of_nothing_is_404(rt, base):
    (base / "d").mkdir()
    os.mkfifo(base / "pipe")
    for path in ("missing", "d", "", "pipe", "d/missing/x", "x" * 300):
        assert rt.get(f"/download/{path}") == (404, {"message": "File not found"})


@pytest.mark.parametrize("asked,status,content,range_", [
    ("bytes=2-5", 206, b"2345", "bytes 2-5/10"), ("bytes=7-", 206, b"789", "bytes 7-9/10"),
    ("bytes=-3", 206, b"789", "bytes 7-9/10"), ("bytes=-30", 206, b"0123456789", "bytes 0-9/10"),
    ("bytes=0-99", 206, b"0123456789", "bytes 0-9/10"), ("bytes=10-", 416, b"", "bytes */10"),
    ("bytes=-0", 416, b"", "bytes */10"), ("bytes=5-2", 200, b"0123456789", None),
    ("bytes=0-1,3-4", 200, b"0123456789", None), ("items=0-1", 200, b"0123456789", None),
    ("bytes=x", 200, b"0123456789", None), ("bytes=99999999999999999999999-", 200, b"0123456789", None),
])
def test_download_ranges(rt, base, asked, status, content, range_):
    (base / "f").write_bytes(b"0123456789")
    answer, data = rt.ask("GET", "/download/f", headers={"Range": asked})
    assert (answer.status, data, answer.getheader("Content-Range")) == (status, content, range_)


def test_download_if_range(rt, base):
    (base / "f").write_bytes(b"0123456789")
    etag = rt.ask("GET", "/download/f")[0].getheader("ETag")
    assert rt.ask("GET", "/download/f", headers={"Range": "bytes=1-2", "If-Range": etag})[1] == b"12"
    assert rt.ask("GET", "/download/f", headers={"Range": "bytes=1-2", "If-Range": '"old"'})[0].status == 200


def test_download_disposition_of_odd_names(rt, base):
    (base / "d").mkdir()
    (base / "d/ä b").write_bytes(b"x")
    answer, _ = rt.ask("GET", "/download/d%2F%C3%A4%20b")
    assert answer.getheader("Content-Disposition") == "attachment; filename*=utf-8''%C3%A4%20b"


def test_dataplane_21_u33_list_tells_name_size_type_time(rt, base):
    (base / "sub").mkdir()
    (base / "f").write_bytes(b"12345")
    (base / "dangling").symlink_to("nowhere")
    (base / "to_sub").symlink_to("sub")
    status, got = rt.get("/list/")
    by_name = {e["name"]: e for e in got}
    assert status == 200 and by_name.keys() == {"sub", "f", "dangling", "to_sub"}
    assert by_name["f"]["size"] == 5 and by_name["f"]["type"] == "file"
    assert abs(by_name["f"]["mod_time"] - (base / "f").stat().st_mtime) < 0.001
    assert by_name["sub"]["type"] == by_name["to_sub"]["type"] == "directory"
    assert all(isinstance(e["mod_time"], float) for e in got)
    assert rt.get("/list/sub") == (200, [])


def test_list_of_many_entries_comes_whole(rt, base):
    (base / "many").mkdir()
    for i in range(5000):
        (base / "many" / f"{i:0100d}").touch()
    got = rt.get("/list/many")[1]
    assert sorted(e["name"] for e in got) == [f"{i:0100d}" for i in range(5000)]


def test_dataplane_22_list_of_no_directory_is_404(rt, base):
    (base / "f").touch()
    assert rt.get("/list/f") == (404, {"message": "Path is not a directory"})
    assert rt.get("/list/missing") == (404, {"message": "Path is not a directory"})


def test_dataplane_24_25_exists(rt, base):
    (base / "present.txt").touch()
    assert rt.get("/exists/present.txt") == (200, {"path": "present.txt", "exists": True})
    assert rt.get("/exists/absent.txt") == (200, {"path": "absent.txt", "exists": False})


def test_dataplane_28_29_u32_base_with_and_without_slash(rt, base):
    (base / "f").touch()
    for target in ("/list", "/list/", "/list/%2E", "/list/."):
        status, got = rt.get(target)
        assert status == 200 and [e["name"] for e in got] == ["f"]
    assert rt.get("/exists") == (200, {"path": "", "exists": True})
    assert rt.get("/exists/") == (200, {"path": "", "exists": True})
    assert rt.get("/exists/%2E") == (200, {"path": ".", "exists": True})


def test_u34_paths_are_decoded_once(rt, base):
    (base / "%41").write_bytes(b"percent")
    (base / "A").write_bytes(b"letter")
    assert rt.ask("GET", "/download/%2541")[1] == b"percent"
    assert rt.ask("GET", "/download/%41")[1] == b"letter"


def test_unknown_paths_and_methods(rt):
    assert rt.get("/nosuch") == (404, {"detail": "Not Found"})
    assert rt.get("/download") == (404, {"detail": "Not Found"})
    assert rt.get("/executes") == (404, {"detail": "Not Found"})
    for method, target, allow in (("POST", "/", "GET"), ("GET", "/execute", "POST"), ("OPTIONS", "/list/", "GET"),
                                  ("HEAD", "/", "GET"), ("DELETE", "/download/x", "GET")):
        answer, data = rt.ask(method, target)
        assert (answer.status, answer.getheader("Allow")) == (405, allow)
        if method != "HEAD":
            assert json.loads(data) == {"detail": "Method Not Allowed"}
    assert rt.ask("GET", "/exists/%00")[0].status == 400
    assert rt.ask("GET", "/exists/%zz")[0].status == 400


def test_runtime_leaves_a_taken_port_alone(guest, link, base):
    server = "import socket; s=socket.create_server(('', 8888)); print('up', flush=True); c,_=s.accept(); c.sendall(b'mine')"
    link.exec("python3", "-c", server, stream=5)
    link.take(STDOUT, stream=5)
    Runtime(guest, link, base)
    assert guest.tcp().recv(10) == b"mine"


def test_runtime_comes_a_second_later_when_the_command_does_not_listen(guest, link, base):
    rt = Runtime(guest, link, base, now=False)
    with pytest.raises(ConnectionRefusedError):
        guest.tcp()

    def listens():
        try:
            return rt.get("/")[0] == 200
        except ConnectionRefusedError:
            return False
    wait_until(listens)


def test_runtime_is_started_again_when_it_dies(rt):
    first = rt.execute("echo $PPID")[1]["stdout"]
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        rt.execute("kill -9 $PPID; sleep 1")
    second = rt.execute("echo $PPID")[1]["stdout"]
    assert first != second


def test_runtime_keeps_connections_open(rt):
    conn = http.client.HTTPConnection("127.0.0.1", PORT)
    conn.sock = rt.guest.tcp()
    for _ in range(3):
        conn.request("GET", "/")
        assert conn.getresponse().read().startswith(b'{"status"')
        conn.request("POST", "/execute", json.dumps({"command": "echo hi"}))
        assert json.loads(conn.getresponse().read())["stdout"] == "hi\n"
    conn.close()
