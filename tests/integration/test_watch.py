# SPDX-License-Identifier: Apache-2.0
"""Changes of files as cay-init tells of them, by events on the REST port and by gRPC."""

import http.client
import os

import grpc
import pytest

from guest_kit import guest, link  # noqa: F401: fixtures
from rpc_kit import M, rpc  # noqa: F401: fixtures
from runtime_kit import base, read_events, rest  # noqa: F401: fixtures

CREATE, WRITE, REMOVE, RENAME, CHMOD, ERROR = range(1, 7)


class Watch:
    """By events. It is watching when it is made."""

    def __init__(self, rest, path="", recursive=False, read=True):
        self.sock = rest.guest.tcp(rest.port)
        self.sock.sendall(f"GET /v1/watch/{path}{'?recursive=true' if recursive else ''} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        self.answer = http.client.HTTPResponse(self.sock)
        if read:
            self.answer.begin()
            assert self.answer.status == 200, self.answer.read()
            self.events = ((name, data) for name, _, data in read_events(self.answer))
            assert next(self.events) == ("watching", {})

    def until(self, path):
        """[(event, path)] up to the first that has this path."""
        got = []
        while not got or got[-1][1] != path:
            name, data = next(self.events)
            got.append((name, data["path"]))
        return got


def watch_rpc(rpc, path="", recursive=False):
    call = rpc.channel.unary_stream("/watcher.v1.FileWatcherService/WatchDir", lambda m: m.SerializeToString(),
                                    M["FileEvent"].FromString)(M["WatchDirRequest"](path=path, recursive=recursive), timeout=60)
    call.initial_metadata()  # from here on it is watching
    return call


def test_a_directory_tells_of_its_files(rest, base):
    watch = Watch(rest)
    (base / "a").write_text("x")
    (base / "b").mkdir()
    (base / "b/deep").write_text("unseen")
    assert watch.until("b") == [("create", "a"), ("create", "b")]
    with open(base / "a", "a") as f:
        for _ in range(100):
            f.write("more")
            f.flush()
    (base / "a").chmod(0o600)
    (base / "end1").touch()
    assert watch.until("end1") == [("write", "a"), ("chmod", "a"), ("create", "end1")]
    (base / "a").rename(base / "c")
    (base / "b").rename(base / "d")
    os.remove(base / "end1")
    assert next(watch.events) == ("rename", {"path": "c", "old_path": "a"})
    assert next(watch.events) == ("rename", {"path": "d", "old_path": "b"})
    assert next(watch.events) == ("remove", {"path": "end1"})


def test_a_tree_is_watched_as_it_grows_and_moves(rest, base):
    (base / "top/mid").mkdir(parents=True)
    (base / "out").mkdir()
    watch = Watch(rest, "top", recursive=True)
    os.makedirs(base / "top/new/deep/er")
    (base / "top/new/deep/er/f").write_text("x")
    got = watch.until("top/new/deep/er/f")
    assert sorted(p for e, p in got if e == "create") == ["top/new", "top/new/deep", "top/new/deep/er", "top/new/deep/er/f"]
    (base / "top/new/deep").rename(base / "top/mid/deep")
    assert next(watch.events) == ("rename", {"path": "top/mid/deep", "old_path": "top/new/deep"})
    (base / "top/mid/deep/er/g").touch()
    assert watch.until("top/mid/deep/er/g")[-1] == ("create", "top/mid/deep/er/g")
    (base / "top/mid/deep").rename(base / "out/deep")
    assert watch.until("top/mid/deep") == [("remove", "top/mid/deep")]
    (base / "out/deep/er/unseen").touch()
    (base / "out/deep").rename(base / "top/back")
    assert watch.until("top/back/er/unseen")[0] == ("create", "top/back")
    (base / "top/back/er/h").touch()
    assert watch.until("top/back/er/h")[-1] == ("create", "top/back/er/h")


def test_u38_put_is_seen_by_grpc_and_the_end_is_an_error(rpc, rest, base):
    (base / "d").mkdir()
    os.chown(base / "d", 1000, 1000)
    root, below = watch_rpc(rpc, recursive=True), watch_rpc(rpc, str(base / "d"))
    assert rest.put("d/f", b"x")[0] == 204
    for call in (root, below):
        while (event := next(call)).path != "d/f":
            pass
        assert event.type in (CREATE, RENAME)
    assert rest.files("DELETE", "d?recursive=true")[0] == 204
    events = list(below)
    assert events[-1].type == ERROR and events[-1].error == "the directory was removed" and events[-1].path == "d"
    assert below.code() == grpc.StatusCode.OK
    assert next(e for e in root if e.path == "d").type == REMOVE
    root.cancel()


def test_what_cannot_be_watched(rpc, rest, base):
    (base / "f").touch()
    (base / "out").symlink_to("/etc")
    for path, status, code in (("nosuch", 404, "NOT_FOUND"), ("f", 404, "NOT_FOUND"), ("..", 403, "PERMISSION_DENIED"),
                               ("out", 403, "PERMISSION_DENIED")):
        assert rest.get(f"/v1/watch/{path}")[0] == status
        with pytest.raises(grpc.RpcError) as e:
            next(watch_rpc(rpc, path))
        assert e.value.code().name == code
    assert rest.get("/v1/watch/?recursive=perhaps")[0] == 400
    assert rest.ask("POST", "/v1/watch/")[0].status == 405


def test_there_is_a_limit_of_watches_and_of_directories(rest, base):
    watches = [Watch(rest) for _ in range(32)]
    assert rest.get("/v1/watch/") == (503, {"code": "UNAVAILABLE", "message": "32 directories are watched already"})
    watches.pop().sock.close()
    watches[0].sock.close()
    for i in range(91):
        for j in range(90):
            os.makedirs(base / f"{i}/{j}")
    wait = [rest.get("/v1/watch/?recursive=true") for _ in range(1)]
    assert wait[0][0] == 503 and "8192" in wait[0][1]["message"]


def test_a_reader_who_does_not_keep_up_is_told(rest, base):
    watch = Watch(rest, recursive=True)
    deep = base.joinpath(*["x" * 240] * 8)  # so that no buffer on the way holds all of it
    deep.mkdir(parents=True)
    for i in range(12_000):
        os.close(os.open(deep / str(i), os.O_CREAT | os.O_WRONLY))
    names = []
    for event, data in watch.events:
        names.append(event)
    assert names[-1] == "error" and data["error"].startswith("overflow")
    assert len(names) < 12_000 and set(names[:-1]) <= {"create"}
    assert rest.put("f", b"x")[0] == 204
