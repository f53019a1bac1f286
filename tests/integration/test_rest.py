# SPDX-License-Identifier: Apache-2.0
"""The sandboxd REST API of cay-init. Tests carry the numbers of the cases that they prove: dataplane_N is in
docs/reference/dataplane.md, uN in docs/reference/cases.md.
"""

import ctypes
import json
import os
import pathlib
import random
import socket
import threading
import time

import pytest

from cay_local import wait_until
from guest_kit import REST_PORT, STDOUT, guest, link  # noqa: F401: fixtures
from runtime_kit import Rest, base, rest, rt  # noqa: F401: fixtures

def own(base):
    """Gives everything in base to the sandbox's user."""
    for path in base.rglob("*"):
        os.chown(path, 1000, 1000, follow_symlinks=False)


DENIED = (403, {"code": "PERMISSION_DENIED", "message": "path traversal outside sandbox root is forbidden"})
ABSENT = (404, {"code": "NOT_FOUND", "message": "path does not exist within the sandbox"})


def test_dataplane_47_51_a_file_is_put_and_read_back_and_replaced(rest, base):
    for data in (b"first and longer", b"second", b""):
        assert rest.put("f", data) == (204, None)
        answer, got = rest.ask("GET", "/v1/files/f")
        assert (answer.status, got, answer.getheader("Content-Type")) == (200, data, "application/octet-stream")
        assert answer.getheader("Content-Length") == str(len(data)) and answer.getheader("Last-Modified").endswith("GMT")
        assert answer.getheader("Content-Disposition") is None
    assert os.listdir(base) == ["f"] and (base / "f").stat().st_uid == 1000


def test_dataplane_46_48_55_parents_are_made(rest, base):
    assert rest.put("a/b/c.txt", b"x")[0] == rest.put("d%2Fe%2Ff.txt", b"y")[0] == 204
    assert (base / "a/b/c.txt").read_bytes() == b"x" and (base / "d/e/f.txt").read_bytes() == b"y"
    assert (base / "a/b").stat().st_mode & 0o777 == 0o755


def test_dataplane_49_50_modes_are_exact(rest, base):
    assert rest.put("f", b"x")[0] == 204 and (base / "f").stat().st_mode & 0o7777 == 0o644
    for mode in ("0755", "0777", "0000", "0600"):
        assert rest.put("f", b"x", f"?mode={mode}")[0] == 204
        assert (base / "f").stat().st_mode & 0o7777 == int(mode, 8)
    for mode in ("0999", "777", "abcd", "01777", "", "+644"):
        assert rest.put("g", b"x", f"?mode={mode}") == (400, "INVALID_ARGUMENT")
    assert not (base / "g").exists()


def form(name, data):
    body = f'--XX\r\nContent-Disposition: form-data; name="{name}"; filename="n"\r\n\r\n'.encode() + data + b"\r\n--XX--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=XX"}


def test_dataplane_52_53_a_form_brings_a_file(rest, base):
    body, headers = form("file", b"in a form")
    assert rest.put("f", body, headers=headers) == (204, None)
    assert (base / "f").read_bytes() == b"in a form"
    body, headers = form("other", b"x")
    assert rest.put("g", body, headers=headers) == (400, "INVALID_ARGUMENT")
    assert rest.put("g", b"--XX", headers=headers) == (400, "INVALID_ARGUMENT")
    assert rest.put("g", b"", headers={"Content-Type": "multipart/form-data"}) == (400, "INVALID_ARGUMENT")
    assert os.listdir(base) == ["f"]


def test_dataplane_54_a_directory_is_no_target(rest, base):
    (base / "d").mkdir()
    assert rest.put("d", b"x") == rest.put("d%2F", b"x") == rest.put("", b"x") == rest.put(".", b"x") == (400, "INVALID_ARGUMENT")
    assert os.listdir(base) == ["d"]


def test_dataplane_39_42_43_45_paths_begin_at_the_root(rest, base):
    (base / "a.txt").write_text("x")
    inside = str(base).replace("/", "%2F")
    for path in ("a.txt", "%2Fa.txt", f"{inside}%2Fa.txt", "%2F..%2Fa.txt", "b%2F..%2Fa.txt", "/a.txt", "./a.txt"):
        assert rest.files("GET", path) == (200, b"x"), path
    assert rest.files("GET", f"{inside}-evil%2Fa.txt") == ABSENT
    assert rest.files("GET", f"..%2F{base.name}-evil%2Ff") == DENIED
    assert rest.files("GET", "%2Fetc%2Fpasswd") == ABSENT


def test_dataplane_41_60_nothing_leads_outside(rest, base):
    for path in ("%2E%2E/%2E%2E/etc/passwd", "../x", "a%2F..%2F..%2Fx", ".."):
        assert rest.files("GET", path) == rest.files("DELETE", path) == DENIED
        assert rest.put(path, b"x") == (403, "PERMISSION_DENIED")
        assert rest.ask("HEAD", f"/v1/files/{path}")[0].status == 403


def test_dataplane_44_61_65_links_stay_inside(rest, base):
    (base / "d").mkdir()
    (base / "d/f").write_text("inside")
    (base / "in").symlink_to("d/f")
    (base / "dir").symlink_to("d")
    (base / "out").symlink_to("/etc/passwd")
    (base / "gone").symlink_to("nowhere")
    own(base)
    assert rest.files("GET", "in") == rest.files("GET", "dir%2Ff") == (200, b"inside")
    assert rest.files("GET", "out") == DENIED and rest.put("out", b"x")[0] == 403
    assert rest.files("GET", "gone") == ABSENT
    names = {e["name"]: e for e in rest.files("GET", "")[1]["entries"]}
    assert list(names) == ["d", "dir", "in"]
    assert (names["dir"]["type"], names["in"]["size"]) == ("directory", 6)
    assert rest.put("in", b"new")[0] == 204  # through the link, which stays
    assert (base / "in").is_symlink() and (base / "d/f").read_bytes() == b"new"


def test_dataplane_40_56_57_u33_u35_listing(rest, base):
    (base / "b").mkdir()
    (base / "a").write_bytes(b"xy")
    (base / "a").chmod(0o600)
    os.utime(base / "a", (1767323045, 1767323045))
    for path in ("", ".", "%2E", "%2F", "b%2F.."):
        status, got = rest.files("GET", path)
        assert status == 200 and got["path"].startswith("/")
        assert [e["name"] for e in got["entries"]] == ["a", "b"]
    assert got["entries"][0] == {"name": "a", "size": 2, "type": "file", "modified_at": "2026-01-02T03:04:05Z", "mode": "0600"}
    assert got["entries"][1]["type"] == "directory"
    assert rest.ask("GET", "/v1/files")[0].status == 200
    assert rest.files("GET", "b%2F") == rest.files("GET", "b/") == (200, {"path": "/b/", "entries": []})
    assert rest.files("GET", "a%2F..%2Fb")[1]["entries"] == []
    (base / "many").mkdir()
    for i in range(3000):
        (base / f"many/{i:0100}").touch()
    assert [e["name"] for e in rest.files("GET", "many")[1]["entries"]] == [f"{i:0100}" for i in range(3000)]


def test_dataplane_58_59_presence(rest, base):
    (base / "f").write_bytes(b"12345")
    assert rest.files("GET", "nosuch") == rest.files("GET", "f%2Fx") == ABSENT
    answer, got = rest.ask("HEAD", "/v1/files/f")
    assert (answer.status, answer.getheader("Content-Length"), got) == (200, "5", b"")
    assert rest.ask("HEAD", "/v1/files/nosuch")[0].status == 404
    assert rest.ask("HEAD", "/v1/files/")[0].status == 200
    os.mkfifo(base / "pipe")
    assert rest.files("GET", "pipe")[0] == 400


def test_ranges_and_conditions(rest, base):
    (base / "f").write_bytes(b"0123456789")
    answer, got = rest.ask("GET", "/v1/files/f", headers={"Range": "bytes=2-4"})
    assert (answer.status, got, answer.getheader("Content-Range")) == (206, b"234", "bytes 2-4/10")
    assert rest.files("GET", "f", {"Range": "bytes=10-"})[0] == 416
    tag, date = answer.getheader("ETag"), answer.getheader("Last-Modified")
    for headers, status in (({"If-None-Match": tag}, 304), ({"If-None-Match": f'"x", W/{tag}'}, 304), ({"If-None-Match": '"x"'}, 200),
                            ({"If-Modified-Since": date}, 304), ({"If-Modified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, 200),
                            ({"If-Modified-Since": "junk"}, 200), ({"If-Match": tag}, 200), ({"If-Match": '"x"'}, 412),
                            ({"If-Unmodified-Since": date}, 200), ({"If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}, 412)):
        assert rest.files("GET", "f", headers)[0] == status, headers


def test_dataplane_62_63_64_66_deletion(rest, base):
    (base / "f").touch()
    assert rest.files("DELETE", "f?recursive=banana")[0] == 400 and (base / "f").exists()
    assert rest.files("DELETE", "f") == (204, b"") and rest.files("DELETE", "f") == ABSENT
    assert rest.files("DELETE", "f?recursive=banana") == ABSENT  # whether it is there comes first
    (base / "d/e").mkdir(parents=True)
    (base / "d/e/f").touch()
    own(base)
    status, got = rest.files("DELETE", "d")
    assert (status, got["code"]) == (409, "CONFLICT")
    assert rest.files("DELETE", "d?recursive=false")[0] == 409
    assert rest.files("DELETE", "d?recursive=True") == (204, b"") and not (base / "d").exists()
    (base / "empty").mkdir()
    assert rest.files("DELETE", "empty")[0] == 204
    (base / "x/y").mkdir(parents=True)
    (base / "z").touch()
    own(base)
    assert rest.files("DELETE", "")[1]["code"] == "CONFLICT"
    assert rest.files("DELETE", "?recursive=1") == (204, b"")
    assert os.listdir(base) == []
    assert rest.put("new", b"x")[0] == 204


def test_deleting_a_link_leaves_its_target(rest, base):
    (base / "d").mkdir()
    (base / "d/f").touch()
    (base / "link").symlink_to("d")
    (base / "link2").symlink_to("d")
    (base / "out").symlink_to("/etc/passwd")
    own(base)
    assert rest.files("DELETE", "link2")[0] == 204
    assert rest.files("DELETE", "link?recursive=true")[0] == rest.files("DELETE", "out")[0] == 204
    assert sorted(os.listdir(base)) == ["d"] and (base / "d/f").exists()


def test_dataplane_67_68_health_and_metadata(guest, link, base):
    rest = Rest(guest, link, base, env=["SANDBOX_ID=7", "SANDBOX_WORKSPACE=w", "SANDBOX_TOKEN=x", "SANDBOX_api_key=x", "SANDBOX_AUTH_URL=x",
                                        "SANDBOX_Password=x", "SANDBOX_DB_CRED=x", "SANDBOX_CERT=x", "SANDBOX_PRIVATE=x",
                                        "SANDBOX_SECRET=x", "SANDBOX_BEARER=x", "OTHER=x"])
    status, got = rest.get("/v1/health")
    assert status == 200 and got["status"] == "ok" and isinstance(got["uptime_seconds"], int)
    assert rest.get("/v1/metadata") == (200, {"env": {"SANDBOX_BASE_DIR": str(base), "SANDBOX_ID": "7", "SANDBOX_WORKSPACE": "w"}})


def test_unknown_routes_are_plain_and_nothing_redirects(rest):
    answer, got = rest.ask("GET", "/nosuch")
    assert answer.status == 404 and answer.getheader("Content-Type").startswith("text/plain")
    answer, got = rest.ask("POST", "/v1/files/x")
    assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD, PUT, DELETE")
    assert rest.ask("PUT", "/v1/health")[0].status == 405
    assert rest.files("GET", "%zz")[0] == rest.files("GET", "a%00b")[0] == 400
    for path in ("//", "a//b", "a/../b", "/v1/files", "./", "a/./b/"):
        assert rest.ask("GET", f"/v1/files/{path}")[0].status in (200, 404)


def test_dataplane_70_both_ports_have_one_tree_and_the_same_processes(rest, base):
    assert rest.put("f", b"text")[0] == 204
    legacy = Rest.__new__(Rest)
    legacy.guest, legacy.port = rest.guest, 8888
    assert legacy.execute("cat f")[1]["stdout"] == "text"
    id = json.loads(rest.ask("POST", "/v1/processes", '{"command":"cat f; sleep 4730","background":true}')[1])["id"]
    assert legacy.get(f"/v1/processes/{id}")[1]["state"] == "running"
    assert rest.files("DELETE", "f")[0] == 204
    assert legacy.get("/exists/f")[1]["exists"] is False


def test_u39_the_port_is_left_to_a_program_that_has_it(guest, link, base):
    link.exec("python3", "-c", "import socket; s=socket.create_server(('', 8080)); print('up', flush=True); c,_=s.accept(); c.sendall(b'mine')",
              stream=5)
    link.take(STDOUT, stream=5)
    Rest(guest, link, base)
    assert guest.tcp(REST_PORT).recv(10) == b"mine"
    assert guest.tcp().send(b"x")  # the other port is served all the same


def runtime_pid(rest):
    legacy = Rest.__new__(Rest)
    legacy.guest, legacy.port = rest.guest, 8888
    inside = legacy.execute("echo $PPID")[1]["stdout"].strip()
    for pid in os.listdir("/proc"):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text() if pid.isdigit() else ""
            ours = os.readlink(f"/proc/{pid}/ns/net") == os.readlink(f"/proc/{rest.guest.pid()}/ns/net") if status else False
        except OSError:
            continue
        if ours and f"\t{inside}\n" in status.split("NSpid:")[1].split("NSpgid")[0] + "\n":
            return int(pid)
    raise AssertionError("no runtime")


@pytest.mark.parametrize("rounds", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_clients_that_leave_anywhere_leave_nothing(rest, base, rounds):
    """Uploads, downloads, commands and events, each cut off at a random byte."""
    (base / "big").write_bytes(random.Random(1).randbytes(3_000_000))
    pid = runtime_pid(rest)
    before = len(os.listdir(f"/proc/{pid}/fd"))
    rng = random.Random(rounds)
    form_body, form_headers = form("file", b"z" * 300_000)
    execute = json.dumps({"command": "head -c 2000000 /dev/zero; sleep 4731", "timeout_seconds": 20})
    kinds = [
        (REST_PORT, "PUT", "/v1/files/d/up", b"y" * 300_000, ""),
        (REST_PORT, "PUT", "/v1/files/d/form", form_body, "Content-Type: multipart/form-data; boundary=XX\r\n"),
        (REST_PORT, "GET", "/v1/files/big", b"", ""),
        (8888, "POST", "/execute", execute.encode(), "Accept: text/event-stream\r\n"),
        (8888, "POST", "/upload", form_body, "Content-Type: multipart/form-data; boundary=XX\r\n"),
        (8888, "GET", "/download/big", b"", ""),
    ]
    for i in range(rounds):
        port, method, path, body, headers = kinds[i % len(kinds)]
        sock = rest.guest.tcp(port)
        text = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body
        cut = rng.randrange(len(text) + 1)
        try:
            sock.sendall(text[:cut])
            if cut == len(text) or (not body and cut > len(text) - 3):
                sock.recv(rng.randrange(1, 100_000))
            if rng.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        except ConnectionError:
            pass
        sock.close()
    legacy = Rest.__new__(Rest)
    legacy.guest, legacy.port = rest.guest, 8888
    wait_until(lambda: legacy.execute("pgrep -f '^sleep 4731'")[1]["exit_code"] == 1)
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before)
    names = {p.name for p in base.rglob("*")}
    assert names <= {"big", "d", "up", "form", "n"}


def test_a_killed_runtime_leaves_no_temporary_file(rest, base):
    (base / "old").write_bytes(b"old")
    pid = runtime_pid(rest)
    (base / ".sandboxd-tmp-1-1").touch()  # as if one had been killed between two steps
    os.chown(base / ".sandboxd-tmp-1-1", 1000, 1000)
    sock = rest.guest.tcp(REST_PORT)
    sock.sendall(b"PUT /v1/files/old HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 50_000)
    wait_until(lambda: not (base / ".sandboxd-tmp-1-1").exists())
    os.kill(pid, 9)
    assert sock.recv(10) == b""
    assert rest.put("new", b"new") == (204, None)
    assert sorted(os.listdir(base)) == ["new", "old"] and (base / "old").read_bytes() == b"old"


class Adversary:
    """Swaps a directory for a link to another outside, again and again."""

    def __init__(self, base, outside):
        self.base, self.outside, self.over, self.swaps = base, outside, False, 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        libc = ctypes.CDLL(None, use_errno=True)
        d, link = bytes(self.base / "d"), bytes(self.base / "link")
        os.symlink(self.outside, link)
        while not self.over:
            for _ in range(2):
                assert libc.renameat2(-1, d, -1, link, 2) == 0  # RENAME_EXCHANGE
                self.swaps += 1

    def stop(self):
        self.over = True
        self.thread.join()


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.long)])
def test_a_renaming_adversary_never_wins(rest, base, tmp_path, seconds):
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    for f in ("f", "sub/f"):
        (outside / f).write_bytes(b"secret")
    for d in (tmp_path, *tmp_path.parents, outside, outside / "sub"):
        if d.stat().st_uid == 0 and str(d).startswith("/tmp"):
            d.chmod(d.stat().st_mode | 0o755)
    os.chmod(outside, 0o777)
    os.chmod(outside / "sub", 0o777)
    for f in ("f", "sub/f"):
        os.chmod(outside / f, 0o666)
    (base / "d/sub").mkdir(parents=True)
    for f in ("d/f", "d/sub/f"):
        (base / f).write_bytes(b"inside")
    own(base)
    legacy = Rest.__new__(Rest)
    legacy.guest, legacy.port = rest.guest, 8888
    adversary = Adversary(base, outside)
    seen, until = {}, time.monotonic() + seconds

    def note(kind, status):
        seen.setdefault(kind, set()).add(status)

    try:
        while time.monotonic() < until:
            for path in ("d/f", "d/sub/f"):
                for kind, answer in (("get", rest.ask("GET", f"/v1/files/{path}")), ("download", legacy.ask("GET", f"/download/{path}"))):
                    assert b"secret" not in answer[1]
                    note(kind, answer[0].status)
                note("put", rest.put(path, b"inside")[0])
                note("upload", legacy.upload(f'name="file"; filename="{path}"', b"inside")[0])
                note("delete", rest.files("DELETE", path)[0])
                note("put", rest.put(path, b"inside")[0])
            (outside / "outsider").touch()
            status, got = rest.files("GET", "d")
            assert "outsider" not in str(got)
            assert b"outsider" not in legacy.ask("GET", "/list/d")[1]
            (outside / "outsider").unlink()
            note("list", status)
            note("tree", rest.files("DELETE", "d/sub?recursive=true")[0])
    finally:
        adversary.stop()
    assert adversary.swaps > 1000
    assert sorted(p.name for p in outside.rglob("*")) == ["f", "f", "sub"]
    assert (outside / "f").read_bytes() == (outside / "sub/f").read_bytes() == b"secret"
    assert {200} < seen["get"] | seen["list"] and 204 in seen["put"] and 204 in seen["delete"], seen
