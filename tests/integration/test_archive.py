# SPDX-License-Identifier: Apache-2.0
"""Directories as tar archives: out of a sandbox and into it, and nothing outside."""

import ctypes
import http.client
import io
import json
import os
import pathlib
import random
import socket
import tarfile
import threading

import pytest

from guest_kit import REST_PORT, guest, link  # noqa: F401: fixtures
from runtime_kit import base, rest  # noqa: F401: fixtures


def entry(name, data=b"", kind=tarfile.REGTYPE, link="", mode=0o644, mtime=1767323045):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode, info.mtime = kind, len(data), link, mode, mtime
    return info, data


def archive(*entries, format=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def put(rest, path, data):
    answer, got = rest.ask("PUT", f"/v1/archive/{path}", data)
    return answer.status, json.loads(got)


def get(rest, path):
    answer, data = rest.ask("GET", f"/v1/archive/{path}")
    assert (answer.status, answer.getheader("Content-Type")) == (200, "application/x-tar"), data
    return tarfile.open(fileobj=io.BytesIO(data))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_an_archive_is_extracted(rest, base, format):
    long = "n" * 90 + "/" + "m" * 60
    data = archive(entry("d", kind=tarfile.DIRTYPE, mode=0o500), entry("./d/f", b"text", mode=0o751), entry(long, b"long"),
                   entry("s", kind=tarfile.SYMTYPE, link="d/f"), entry("h", kind=tarfile.LNKTYPE, link="d/f"), entry("made/up/f", b""),
                   format=format)
    assert put(rest, "new/dir", data) == (200, {"entries": 6, "bytes": 8})
    at = base / "new/dir"
    assert (at / "d/f").read_bytes() == (at / "s").read_bytes() == b"text" and (at / long).read_bytes() == b"long"
    assert (at / "d/f").stat().st_mode & 0o7777 == 0o751 and (at / "d/f").stat().st_mtime == 1767323045
    assert (at / "d").stat().st_mode & 0o7777 == 0o700 and os.readlink(at / "s") == "d/f"
    assert (at / "h").stat().st_ino == (at / "d/f").stat().st_ino and (at / "made/up/f").stat().st_uid == 1000
    assert put(rest, "new/dir", archive(entry("d/f", b"again"), entry("s", b"now a file"), format=format))[0] == 200
    assert (at / "d/f").read_bytes() == b"again" and (at / "h").read_bytes() == b"text" and not (at / "s").is_symlink()


def test_a_directory_comes_out_as_it_is(rest, base):
    (base / "d/deep/er").mkdir(parents=True)
    (base / "d/f").write_bytes(b"text")
    (base / "d/f").chmod(0o755)
    os.utime(base / "d/f", (5, 1767323045))
    (base / "d/deep" / ("n" * 200)).write_bytes(b"x" * 1000)
    (base / "d/empty").touch()
    (base / "d/l").symlink_to("/etc/passwd")
    (base / "d/ll").symlink_to("t" * 300)
    os.mkfifo(base / "d/pipe")
    (base / "beside").touch()
    tar = get(rest, "d")
    assert sorted(tar.getnames()) == sorted(["deep", "deep/er", "f", f"deep/{'n' * 200}", "empty", "l", "ll"])
    f = tar.getmember("f")
    assert (f.mode, f.mtime, f.size) == (0o755, 1767323045, 4) and tar.extractfile("f").read() == b"text"
    assert tar.getmember("l").linkname == "/etc/passwd" and tar.getmember("ll").linkname == "t" * 300
    assert tar.getmember("deep").isdir() and tar.extractfile(f"deep/{'n' * 200}").read() == b"x" * 1000
    (base / "beside2").mkdir()
    assert get(rest, "beside2").getnames() == [] and "d/f" in get(rest, "").getnames()


def test_what_came_out_goes_in_again(rest, base):
    rng = random.Random(3)
    want = {}
    for i in range(300):
        path = pathlib.Path("src", *(f"d{rng.randrange(4)}" for _ in range(rng.randrange(5))), f"{'n' * rng.randrange(1, 200)}{i}")
        want[path.relative_to("src")] = rng.randbytes(rng.choice((0, 1, 511, 512, 513, 5000, 200_000)))
        (base / path).parent.mkdir(parents=True, exist_ok=True)
        (base / path).write_bytes(want[path.relative_to("src")])
    answer, data = rest.ask("GET", "/v1/archive/src")
    assert put(rest, "copy", data)[0] == 200
    got = {p.relative_to(base / "copy"): p.read_bytes() for p in (base / "copy").rglob("*") if p.is_file()}
    assert got == want


OUTSIDE = {
    "absolute": [entry("/etc/x", b"x")],
    "up": [entry("a/../../x", b"x")],
    "up inside": [entry("a/../x", b"x")],
    "directory up": [entry("../x", kind=tarfile.DIRTYPE)],
    "absolute link": [entry("l", kind=tarfile.SYMTYPE, link="/etc")],
    "link up": [entry("l", kind=tarfile.SYMTYPE, link="../x")],
    "link up later": [entry("a/l", kind=tarfile.SYMTYPE, link="b/../../../x")],
    "hard link up": [entry("l", kind=tarfile.LNKTYPE, link="../secret")],
    "absolute hard link": [entry("l", kind=tarfile.LNKTYPE, link="/etc/passwd")],
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_nothing_leads_outside(rest, base, name):
    (base / "secret").write_text("secret")
    status, got = put(rest, "in", archive(entry("first", b"x"), *OUTSIDE[name]))
    assert (status, got["code"]) == (403, "PERMISSION_DENIED") and got["message"].startswith(f"entry {OUTSIDE[name][0][0].name}")
    assert sorted(os.listdir(base)) == ["in", "secret"] and not (base.parent / "x").exists()
    assert set(os.listdir(base / "in")) <= {"first", "a"}


def test_links_are_not_followed(rest, base):
    (base / "out").mkdir()
    (base / "out/f").write_text("mine")
    (base / "in").mkdir()
    (base / "in/there").symlink_to("../out")
    (base / "in/file").symlink_to("../out/f")
    for path in base.rglob("*"):
        os.chown(path, 1000, 1000, follow_symlinks=False)
    assert put(rest, "in", archive(entry("there/x", b"x")))[0] == 400
    assert put(rest, "in", archive(entry("l", kind=tarfile.SYMTYPE, link="."), entry("l/x", b"x")))[0] == 400
    assert put(rest, "in", archive(entry("h", kind=tarfile.LNKTYPE, link="file")))[0] == 400
    assert put(rest, "in", archive(entry("h", kind=tarfile.LNKTYPE, link="there/f")))[0] == 400
    assert put(rest, "in", archive(entry("file", b"new")))[0] == 200  # in the place of the link
    assert (base / "out/f").read_text() == "mine" and os.listdir(base / "out") == ["f"]
    assert (base / "in/file").read_bytes() == b"new" and not (base / "in/file").is_symlink()
    assert put(rest, "%2E%2E/x", archive(entry("f")))[0] == 403


def test_what_cannot_be_extracted_is_named(rest, base):
    (base / "in/d").mkdir(parents=True)
    for path in (base / "in", base / "in/d"):
        os.chown(path, 1000, 1000)
    good = archive(entry("f", b"x" * 1000))
    for data, text in ((archive(entry("d", b"x")), "entry d: a directory is in its place"),
                       (archive(entry("p", kind=tarfile.FIFOTYPE)), "entry p: it is neither a file"),
                       (archive(entry("c", kind=tarfile.CHRTYPE)), "entry c: it is neither a file"),
                       (archive(entry("h", kind=tarfile.LNKTYPE, link="nosuch")), None),
                       (good[:900], "ends in the middle"), (good[:1536], "ends in the middle"), (b"", "ends in the middle"),
                       (b"\x1f\x8b" + b"x" * 600, "compressed"), (b"x" * 600, "checksum")):
        status, got = put(rest, "in", data)
        assert status == (400 if text else 404) and (text or "entry h") in got["message"], got
    (base / "file").touch()
    os.chown(base / "file", 1000, 1000)
    assert put(rest, "file", good)[0] in (400, 404)
    assert rest.get("/v1/archive/file")[0] == 400 and rest.get("/v1/archive/nosuch")[0] == 404
    assert rest.get("/v1/archive/..")[0] == 403 and rest.ask("DELETE", "/v1/archive/in")[0].status == 405


def test_what_cannot_be_read_tears_the_answer(rest, base):
    (base / "d").mkdir()
    (base / "d/secret").write_text("x")
    (base / "d/secret").chmod(0)
    assert rest.get("/v1/archive/d") == (403, {"code": "PERMISSION_DENIED", "message": "read secret: Permission denied"})
    for i in range(2):  # at least one of them comes before what is below the directory that is read last
        (base / f"e/{i}").mkdir(parents=True)
        (base / f"e/{i}/big").write_bytes(b"x" * 2_000_000)
        (base / f"e/{i}/deep").mkdir()
        (base / f"e/{i}/deep/secret").write_text("x")
        (base / f"e/{i}/deep/secret").chmod(0)
        (base / f"e/{i}/deep/big").write_bytes(b"x" * 2_000_000)
    try:
        answer, _ = rest.ask("GET", "/v1/archive/e")
        assert answer.status == 403
    except (http.client.IncompleteRead, ConnectionError):
        pass


def test_archives_larger_than_memory_pass(rest, base):
    """And nobody keeps them: the runtime stays as small as it is."""
    (base / "d").mkdir()
    for i in range(3):
        with open(base / f"d/{i}", "wb") as f:
            f.truncate(64 << 20)
    conn = http.client.HTTPConnection("127.0.0.1", REST_PORT)
    conn.sock = rest.guest.tcp(REST_PORT)
    conn.request("GET", "/v1/archive/d")
    answer = conn.getresponse()
    other = http.client.HTTPConnection("127.0.0.1", REST_PORT)
    other.sock = rest.guest.tcp(REST_PORT)
    other.request("PUT", "/v1/archive/copy", iter(lambda: answer.read(1 << 20), b""), encode_chunked=True)
    assert json.loads(other.getresponse().read()) == {"entries": 3, "bytes": 192 << 20}
    rest.port = 8888
    peak = rest.execute("grep VmHWM /proc/$PPID/status")[1]["stdout"].split()[1]
    assert int(peak) < 8192
    assert [(base / f"copy/{i}").stat().st_size for i in range(3)] == [64 << 20] * 3


def test_a_renaming_adversary_never_wins(rest, base):
    outside = base.parent / (base.name + "-outside")
    outside.mkdir()
    try:
        os.chown(outside, 1000, 1000)
        (outside / "f").write_text("secret")
        os.chown(outside / "f", 1000, 1000)
        (base / "in/d").mkdir(parents=True)
        (base / "in/d/f").write_text("inside")
        (base / "in/e").symlink_to(outside)
        for path in (base / "in").rglob("*"):
            os.chown(path, 1000, 1000, follow_symlinks=False)
        os.chown(base / "in", 1000, 1000)
        stop = threading.Event()

        def swap():
            libc = ctypes.CDLL(None)
            a, b = str(base / "in/d").encode(), str(base / "in/e").encode()
            while not stop.is_set():
                libc.renameat2(-100, a, -100, b, 2)

        thread = threading.Thread(target=swap)
        thread.start()
        data = archive(*(entry(f"d/n{i}", b"x") for i in range(50)), entry("d/f", b"new"))
        for _ in range(60):
            assert put(rest, "in", data)[0] in (200, 400, 404)
            with tarfile.open(fileobj=io.BytesIO(rest.ask("GET", "/v1/archive/in")[1])) as tar:
                assert all(tar.extractfile(m).read() != b"secret" for m in tar if m.isfile())
        stop.set()
        thread.join()
        assert os.listdir(outside) == ["f"] and (outside / "f").read_text() == "secret"
    finally:
        (outside / "f").unlink()
        outside.rmdir()


def test_a_client_that_leaves_stops_it(rest, base):
    data = archive(entry("f", b"x" * 1_000_000))
    sock = rest.guest.tcp(REST_PORT)
    sock.sendall(f"PUT /v1/archive/in HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data[:300_000])
    sock.shutdown(socket.SHUT_RDWR)
    sock.close()
    assert put(rest, "in", data) == (200, {"entries": 1, "bytes": 1_000_000})
    assert (base / "in/f").stat().st_size == 1_000_000
