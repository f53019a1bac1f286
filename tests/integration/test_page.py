# SPDX-License-Identifier: Apache-2.0
"""The web page: its files, and how somebody gets into it."""

import base64
import gzip
import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import threading
import time

import pytest
import websocket

from cay_local import wait_until
from gate_kit import SANDBOXES, box
from test_agent_identity import Agent, narrow
from test_identity import ask, forge
from test_users import make, user

PAGE = "/cay/v1/page"
LINKS, SESSIONS, URLS = PAGE + "/links", PAGE + "/sessions", PAGE + "/urls"
GUARDS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
                               "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@pytest.fixture(scope="module")
def cay(module_instance):
    c = module_instance()
    if fetch(c, "/ui/")[0] == 404:
        pytest.skip("this build has no page: it needs Node.js and npm")
    return c


def fetch(cay, path, method="GET", body=None, **headers):
    """The status, the headers and the bytes of an answer to nobody."""
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=30, context=ssl._create_unverified_context())
    conn.request(method, path, body=body, headers={k.replace("_", "-"): v for k, v in headers.items()})
    answer = conn.getresponse()
    data = answer.read()
    conn.close()
    return answer.status, answer.headers, data


def link(cay):
    return cay.api("POST", LINKS)


def enter(cay, code):
    return ask(cay, SESSIONS, None, "POST", {"code": code})


def session(cay):
    status, answer = enter(cay, link(cay)["code"])
    assert status == 201, answer
    return answer["token"]


def assets(cay):
    return re.findall(r'"(/ui/assets/[^"]+)"', fetch(cay, "/ui/")[2].decode())


def test_every_answer_below_the_page_is_guarded(cay):
    for method, path in (("GET", "/ui"), ("GET", "/ui/"), ("GET", "/ui/sandboxes/default/box"), ("GET", "/ui/assets/none.js"),
                         ("POST", "/ui/"), ("GET", assets(cay)[0])):
        _, headers, _ = fetch(cay, path, method)
        for name, value in GUARDS.items():
            assert headers[name] == value, (path, name)
        policy = headers["Permissions-Policy"]
        assert "camera=()" in policy and "clipboard-write=(self)" in policy
        assert not headers["Set-Cookie"]


def test_a_path_of_the_page_is_answered_with_the_page(cay):
    status, headers, _ = fetch(cay, "/ui")
    assert (status, headers["Location"]) == (308, "/ui/")
    index = fetch(cay, "/ui/")
    assert index[0] == 200 and index[1]["Content-Type"] == "text/html; charset=utf-8" and index[1]["Cache-Control"] == "no-cache"
    for path in ("/ui/sandboxes", "/ui/sandboxes/default/my.box", "/ui/?x=1", "/ui/a/b/c?d=.e"):
        assert fetch(cay, path)[2] == index[2], path
    for path in ("/ui/assets/none.js", "/ui/assets/none", "/ui/assets/", "/ui/favicon.ico", "/ui/assets/../index.html"):
        assert fetch(cay, path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        status, headers, _ = fetch(cay, "/ui/", method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD"), method


def test_what_a_browser_has_is_not_sent_again(cay):
    _, headers, data = fetch(cay, "/ui/")
    status, again, nothing = fetch(cay, "/ui/", If_None_Match=headers["ETag"])
    assert (status, nothing, again["ETag"]) == (304, b"", headers["ETag"])
    assert fetch(cay, "/ui/", If_None_Match='"x"')[0] == 200
    for path in assets(cay):
        status, headers, _ = fetch(cay, path)
        assert status == 200 and headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert re.search(r"-[0-9A-Z]{8}\.\w+$", path), "the name must change with the content"
    status, headers, nothing = fetch(cay, "/ui/", "HEAD")
    assert (status, nothing, int(headers["Content-Length"])) == (200, b"", len(data))


def test_files_come_compressed_to_whoever_takes_that(cay):
    for path in ["/ui/", *assets(cay)]:
        plain = fetch(cay, path, Accept_Encoding="identity")
        packed = fetch(cay, path, Accept_Encoding="br, gzip;q=0.5")
        assert plain[1]["Content-Encoding"] is None and packed[1]["Content-Encoding"] == "gzip"
        assert gzip.decompress(packed[2]) == plain[2] and plain[1]["ETag"] == packed[1]["ETag"]
        assert fetch(cay, path, Accept_Encoding="gzip;q=0")[1]["Content-Encoding"] is None


def test_a_link_lets_in_once(cay):
    made = link(cay)
    assert made["path"] == "/ui/#code=" + made["code"] and len(base64.urlsafe_b64decode(made["code"] + "=")) == 32
    status, answer = enter(cay, made["code"])
    assert status == 201 and answer["expirationTimestamp"] > made["expirationTimestamp"]
    assert enter(cay, made["code"])[0] == 401
    status, me = ask(cay, PAGE, answer["token"])
    assert status == 200 and me["user"]["username"] and "system:masters" in me["user"]["groups"]
    assert not [g for g in me["user"]["groups"] if g.startswith("cay:")]
    assert me["proxied"] is False and me["version"]
    assert ask(cay, "/api/v1/namespaces", answer["token"])[0] == 200


def test_what_is_no_code_is_refused(cay):
    for body, status in (({"code": "x"}, 401), ({"code": "A" * 43}, 401), ({}, 400), ({"code": 7}, 400), ([], 400)):
        got, answer = ask(cay, SESSIONS, None, "POST", body)
        assert (got, answer["kind"], answer["code"]) == (status, "Status", status), body
    assert fetch(cay, SESSIONS, "POST", body=b"{" * 100)[0] == 400
    assert fetch(cay, SESSIONS, "POST", body=b" " * 5000)[0] == 413
    status, headers, _ = fetch(cay, SESSIONS)
    assert (status, headers["Allow"]) == (405, "POST")
    for path in (PAGE, LINKS, URLS):
        assert ask(cay, path, None, "GET" if path == PAGE else "POST")[0] == 401


def test_cay_ui_prints_a_link(cay):
    done = cay.cay("ui", "--print", "--kubeconfig", cay.kubeconfig)
    url = done.stdout.strip()
    assert url.startswith(f"https://127.0.0.1:{cay.port}/ui/#code=") and "certificate" in done.stderr
    assert enter(cay, url.partition("#code=")[2])[0] == 201


def test_a_browser_is_told_the_link_in_a_file_of_its_users(cay, tmp_path):
    browser, said = tmp_path / "browser", tmp_path / "said"
    browser.write_text(f'#!/bin/sh\nstat -c %a "$1" >{said}.tmp\necho "$@" >>{said}.tmp\ncat "$1" >>{said}.tmp\nmv {said}.tmp {said}\n')
    browser.chmod(0o755)
    (tmp_path / "run").mkdir(mode=0o700)
    done = subprocess.run([os.path.join(cay.build, "cay"), "ui", "--kubeconfig", cay.kubeconfig], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "BROWSER": str(browser), "XDG_RUNTIME_DIR": str(tmp_path / "run"), "DISPLAY": ":0"})
    url = done.stdout.strip()
    assert done.returncode == 0 and "#code=" in url and "opened" in done.stderr
    wait_until(said.exists)
    mode, argv, *page = said.read_text().splitlines()
    assert mode == "600" and "code=" not in argv and url in "\n".join(page)
    quiet = subprocess.run([os.path.join(cay.build, "cay"), "ui", "--kubeconfig", cay.kubeconfig], capture_output=True, text=True, timeout=60,
                           env={k: v for k, v in os.environ.items() if k not in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")})
    assert quiet.returncode == 0 and "#code=" in quiet.stdout and "opened" not in quiet.stderr


@pytest.fixture
def browse(cay, tmp_path):
    """`cay ui --proxy` with a browser that does this, and the process id of that."""
    started = []

    def start(does):
        browser, said = tmp_path / "browser", tmp_path / "said"
        browser.write_text(f"#!/bin/sh\necho $$ >{said}.tmp\nmv {said}.tmp {said}\n{does}\n")
        browser.chmod(0o755)
        (tmp_path / "run").mkdir(mode=0o700)
        process = subprocess.Popen([os.path.join(cay.build, "cay"), "ui", "--proxy", "--kubeconfig", cay.kubeconfig], start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   env={**os.environ, "BROWSER": str(browser), "XDG_RUNTIME_DIR": str(tmp_path / "run")})
        started.append(process)
        wait_until(said.exists)
        assert process.stdout.readline().startswith("http://")
        return process, int(said.read_text())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_browser_outlives_the_command_that_started_it(browse):
    """It is in a session of its own, where no ^C reaches it."""
    process, pid = browse("exec sleep 600")
    try:
        assert os.getsid(pid) == pid != process.pid
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
        os.kill(pid, 0)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_browser_that_ends_first_leaves_nothing_behind(browse):
    process, _ = browse("exit 0")
    wait_until(lambda: open(f"/proc/{process.pid}/task/{process.pid}/children").read() == "")
    assert process.poll() is None


def test_a_browser_that_is_not_there_was_not_opened(cay, tmp_path):
    done = subprocess.run([os.path.join(cay.build, "cay"), "ui", "--kubeconfig", cay.kubeconfig], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "BROWSER": str(tmp_path / "none"), "XDG_RUNTIME_DIR": str(tmp_path)})
    assert done.returncode == 0 and "#code=" in done.stdout and "opened" not in done.stderr


def token_of(path):
    return re.search(r'token: "([^"]+)"', open(path).read())[1]


def link_of(cay, kubeconfig, check=True):
    return cay.cay("ui", "--print", "--kubeconfig", kubeconfig, check=check)


def code_of(done):
    return done.stdout.strip().partition("#code=")[2]


def claims_of(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


@pytest.mark.parametrize("flags", [(), ("--token",)], ids=["certificate", "token"])
def test_a_session_is_its_user_and_ends_with_them(cay, flags):
    name = "pat" + "".join(flags)
    path = make(cay, name, "--group", "viewers", "--ttl", "30m", *flags)
    status, answer = enter(cay, code_of(link_of(cay, path)))
    assert status == 201, answer
    token = answer["token"]
    claims = claims_of(token)
    assert claims["sub"] == name and "kubernetes.io" not in claims and "cay.dev/user" not in claims
    assert claims["exp"] - claims["iat"] <= 30 * 60, "it outlives the credential that asked for it"
    status, me = ask(cay, PAGE, token)
    assert status == 200 and me["user"] == {"username": name, "groups": ["viewers", "system:authenticated"]}
    review = cay.api("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}})["status"]
    assert review["authenticated"] and review["user"]["username"] == name
    assert review["user"]["groups"] == ["viewers", "system:authenticated"]
    assert ask(cay, "/api/v1/namespaces/default/pods", token)[0] == 403
    user(cay, "rm", name)
    assert ask(cay, PAGE, token)[0] == 401


def test_a_session_lasts_eight_hours_at_most(cay):
    claims = claims_of(session(cay))
    assert claims["exp"] - claims["iat"] == 8 * 3600


def test_a_token_that_was_changed_or_is_of_another_kind_is_none(cay):
    token = session(cay)
    head, body, sig = token.split(".")
    claims = claims_of(token)
    claims["exp"] += 3600
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    for wrong in (f"{head}.{forged}.{sig}", f"{head}.{body}.", f"{head}.{body}", token + "x", token[:-4] + "AAAA"):
        assert ask(cay, PAGE, wrong)[0] == 401


def test_who_gets_no_link_is_told_why(cay):
    cay.kubectl("create", "serviceaccount", "robot")
    robot = cay.kubectl("create", "token", "robot").stdout.strip()
    agent = Agent(cay, "mole").mint()
    root = token_of(make(cay, "root2", "--token", "--group", "system:masters"))
    rows = {
        "service account": (robot, ()),
        "agent": (agent, ()),
        "agent ": (narrow(cay, agent, "--right", "read"), ()),
        "impersonation": (root, (("Impersonate-User", "somebody"),)),
        "session": (session(cay), ()),
    }
    for why, (token, headers) in rows.items():
        status, answer = ask(cay, LINKS, token, "POST", headers=headers)
        assert (status, answer["reason"]) == (403, "Forbidden") and why.strip() in answer["message"], why
        assert ask(cay, PAGE, token, headers=headers)[0] == 200, "they log in with the token itself"
    # Nor does a session that acts as another.
    assert ask(cay, LINKS, session(cay), "POST", headers=(("Impersonate-User", "somebody"),))[0] == 403
    assert ask(cay, LINKS, root, "POST")[0] == 201
    path = os.path.join(cay.data_dir, "robot.kubeconfig")
    text = open(make(cay, "robot2", "--token")).read()
    with open(path, "w") as f:
        f.write(re.sub(r'token: "[^"]+"', f'token: "{robot}"', text))
    refused = link_of(cay, path, check=False)
    assert refused.returncode and "service account" in refused.stderr
    user(cay, "rm", "root2")
    user(cay, "rm", "robot2")


def test_nothing_is_allowed_across_origins(cay):
    """A page of a sandbox is another origin on the same host: no answer may say that it can read it."""
    origin = {"Origin": "http://8888-box.default.sandbox.localhost:8080"}
    paths = ("/ui/", "/ui/assets/none.js", PAGE, LINKS, SESSIONS, URLS, "/api", "/api/v1/namespaces/default/pods", "/version", "/livez")
    for path in paths:
        for method in ("GET", "OPTIONS", "POST"):
            _, headers, _ = fetch(cay, path, method, **{**origin, "Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"})
            assert not [h for h in headers if h.lower().startswith("access-control-")], (method, path)


def test_links_and_sessions_are_recorded(cay):
    session(cay)
    enter(cay, "A" * 43)
    lines = [json.loads(line) for line in cay.cay("audit", "export", "--data-dir", cay.data_dir).stdout.splitlines()]
    seen = {(r["subresource"], r["status"]) for r in lines if r.get("resource") == "page"}
    assert {("links", 201), ("sessions", 201), ("sessions", 401)} <= seen
    assert not [line for line in lines if "#code=" in json.dumps(line)]


def test_a_restart_ends_links_and_keeps_sessions(fresh):
    cay = fresh()
    if fetch(cay, "/ui/")[0] == 404:
        pytest.skip("this build has no page")
    token, code = session(cay), link(cay)["code"]
    cay.stop()
    cay.start()
    assert enter(cay, code)[0] == 401
    assert ask(cay, PAGE, token)[0] == 200


def test_the_page_can_be_switched_off(fresh):
    cay = fresh("--page", "off")
    for path in ("/ui", "/ui/", PAGE):
        assert cay_status(cay, path) == 404, path
    assert ask(cay, SESSIONS, None, "POST", {"code": "A" * 43})[0] in (401, 403, 404)


def cay_status(cay, path):
    conn = cay.connect()
    conn.request("GET", path)
    status = conn.getresponse().status
    conn.close()
    return status


# -- WebSockets -------------------------------------------------------------------------------------------------------

BEARER = "base64url.bearer.authorization.k8s.io."
BOX = "shown"


@pytest.fixture(scope="module")
def boxed(cay):
    box(cay, BOX, "python3", "-m", "http.server", "8000", "-d", "/usr/share")
    return cay


def bearer(token):
    return BEARER + base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()


def dial(cay, path, protocols, **headers):
    return websocket.create_connection(f"wss://127.0.0.1:{cay.port}{path}", timeout=60, sslopt={"cert_reqs": ssl.CERT_NONE},
                                       subprotocols=list(protocols), header=[f"{k}: {v}" for k, v in headers.items()])


EXEC = f"/api/v1/namespaces/default/pods/{BOX}/exec?command=echo&command=hi&stdout=true&stderr=true"


def run(ws):
    out = b""
    while True:
        _, data = ws.recv_data()
        if not data or data[0] == 3:
            return out
        if data[0] == 1:
            out += data[1:]


def refused(cay, path, protocols, **headers):
    with pytest.raises(websocket.WebSocketBadStatusException) as e:
        dial(cay, path, protocols, **headers)
    return e.value.status_code


def test_a_websocket_shows_its_token_as_a_protocol(boxed):
    token = session(boxed)
    for protocols in (("v5.channel.k8s.io", bearer(token)), (bearer(token), "v4.channel.k8s.io")):
        ws = dial(boxed, EXEC, protocols)
        assert ws.getsubprotocol() in protocols and not ws.getsubprotocol().startswith(BEARER)
        assert run(ws) == b"hi\n"
        ws.close()


def test_a_protocol_that_is_no_token_is_refused(boxed):
    token = session(boxed)
    good = "v5.channel.k8s.io"
    for protocols in ((good, bearer("nonsense")), (good, BEARER), (good, BEARER + "%%%"), (bearer(token),),
                      (good, bearer(token), bearer(token)), (good, bearer(token + "\0"))):
        assert refused(boxed, EXEC, protocols) == 401, protocols
    assert refused(boxed, EXEC, (good,)) in (401, 403)
    # Whoever sends a header is who it says.
    assert refused(boxed, EXEC, (good, bearer(token)), Authorization="Bearer nonsense") == 401
    # It is nobody's credential in a request that is no WebSocket.
    assert fetch(boxed, PAGE, Sec_WebSocket_Protocol=f"{good}, {bearer(token)}")[0] == 401


def test_a_pod_does_not_see_the_token(boxed):
    """It echoes what it was sent."""
    script = ("import socket\ns=socket.create_server(('',9000))\nwhile 1:\n c,_=s.accept()\n d=c.recv(65536)\n"
              " c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n'%len(d)+d)\n c.close()\n")
    boxed.kubectl("exec", BOX, "--", "sh", "-c", 'setsid python3 -c "$0" </dev/null >/dev/null 2>&1 &', script)
    token = session(boxed)
    path = f"/api/v1/namespaces/default/pods/{BOX}:9000/proxy/"
    wait_until(lambda: ask(boxed, path, token)[0] == 200)
    conn = http.client.HTTPSConnection("127.0.0.1", boxed.port, timeout=30, context=ssl._create_unverified_context())
    conn.request("GET", path, headers={"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                                       "Sec-WebSocket-Key": "A" * 22 + "==", "Sec-WebSocket-Protocol": f"mine, {bearer(token)}"})
    seen = conn.getresponse().read().decode()
    conn.close()
    assert "Sec-WebSocket-Protocol: mine\r\n" in seen, seen
    assert token not in seen and BEARER not in seen


def opened(cay, path, token):
    """A request whose answer goes on; its answer."""
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=120, context=ssl._create_unverified_context())
    conn.request("GET", path, headers={"Authorization": "Bearer " + token})
    answer = conn.getresponse()
    assert answer.status == 200, answer.read()
    return answer


def closed(ws):
    """Reads on until the other side closes."""
    try:
        while ws.recv_data()[0] != websocket.ABNF.OPCODE_CLOSE:
            pass
    except websocket.WebSocketConnectionClosedException:
        pass


MAPS = "/api/v1/namespaces/default/configmaps"
POD = f"/api/v1/namespaces/default/pods/{BOX}"


def test_what_is_open_ends_with_the_session(boxed):
    """Watches, streams into a sandbox and what is followed: at the time that the token says, and others go on."""
    lasting = session(boxed)
    version = boxed.api("GET", MAPS)["metadata"]["resourceVersion"]
    watch = f"{MAPS}?watch=1&resourceVersion={version}&timeoutSeconds=600"
    others = opened(boxed, watch, lasting)
    end = int(time.time()) + 15  # all of them are open by then
    short = forge(boxed, lasting, exp=end)
    protocols = ("v5.channel.k8s.io", bearer(short))
    readers = {
        "watch": opened(boxed, watch, short).read,
        "log": lambda: opened(boxed, POD + "/log?follow=true", short).read(),  # whose head comes with its first line
        "audit": opened(boxed, "/cay/v1/audit?follow=true&limit=0", short).read,
        "overview": opened(boxed, "/cay/v1/overview?follow=true", short).read,
    }
    sockets = {
        "watch by WebSocket": dial(boxed, watch, ("x", ), Authorization="Bearer " + short),
        "exec": dial(boxed, POD + "/exec?command=sleep&command=600&stdout=true", protocols),
        "portforward": dial(boxed, POD + "/portforward?ports=8000", ("v4.channel.k8s.io", bearer(short))),
    }
    ended = {}

    def follow(what, read):
        try:
            read()
        except (http.client.HTTPException, OSError):
            pass  # torn, which is an end too
        ended[what] = time.time()

    jobs = [(what, read) for what, read in readers.items()] + [(what, lambda ws=ws: closed(ws)) for what, ws in sockets.items()]
    threads = [threading.Thread(target=follow, args=job, daemon=True) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert set(ended) == {what for what, _ in jobs}, "these go on: " + ", ".join({what for what, _ in jobs} - set(ended))
    assert min(ended.values()) >= end
    boxed.kubectl("create", "configmap", "later")
    assert json.loads(others.readline())["object"]["metadata"]["name"] == "later"
    boxed.kubectl("delete", "configmap", "later")
    assert ask(boxed, PAGE, short)[0] == 401


# -- Certificates in a browser ----------------------------------------------------------------------------------------


def by_certificate(cay, path=PAGE, method="GET", **headers):
    """The status for whoever has the administrator's certificate, and what a browser adds."""
    conn = cay.connect()
    conn.request(method, path, headers={k.replace("_", "-"): v for k, v in headers.items()})
    status = conn.getresponse().status
    conn.close()
    return status


def test_a_certificate_counts_for_our_own_pages_alone(boxed):
    """A browser shows it with every request, whichever page causes it."""
    own, host = f"https://127.0.0.1:{boxed.port}", f"127.0.0.1:{boxed.port}"
    foreign = ("https://evil.example", "null", own + "0", f"https://127.0.0.1:{boxed.port + 1}", "https://127.0.0.1", f"https://{host}.evil.example",
               f"https://localhost:{boxed.port}", "http://127.0.0.1", "")
    assert by_certificate(boxed) == 200
    for good in (own, own.upper(), f"http://{host}"):
        assert by_certificate(boxed, Origin=good) == 200, good
    for origin in foreign:
        assert by_certificate(boxed, Origin=origin) == 401, origin
        assert by_certificate(boxed, MAPS, Origin=origin) == 403, origin
    # Where no port is named, http is another server.
    assert by_certificate(boxed, Host="cay.example", Origin="https://cay.example") == 200
    assert by_certificate(boxed, Host="cay.example", Origin="http://cay.example") == 401
    assert by_certificate(boxed, Host="[::1]", Origin="http://[::1]") == 401
    for site, status in (("same-origin", 200), ("none", 200), ("same-site", 401), ("cross-site", 401)):
        assert by_certificate(boxed, Sec_Fetch_Site=site) == status, site
        assert by_certificate(boxed, LINKS, "POST", Sec_Fetch_Site=site) == (201 if status == 200 else 401), site
    # A token is shown by a page that knows it.
    token = session(boxed)
    assert by_certificate(boxed, Origin="https://evil.example", Authorization="Bearer " + token) == 200


def test_another_page_does_not_get_into_a_sandbox_with_a_certificate(boxed):
    context = boxed.context()

    def connect(origin, *protocols):
        return websocket.create_connection(f"wss://127.0.0.1:{boxed.port}{EXEC}", timeout=60, origin=origin, subprotocols=["v5.channel.k8s.io", *protocols],
                                           sslopt={"context": context, "check_hostname": False, "cert_reqs": ssl.CERT_NONE})

    ws = connect(f"https://127.0.0.1:{boxed.port}")
    assert run(ws) == b"hi\n"
    ws.close()
    for origin in ("https://evil.example", f"http://8000-{BOX}.default.sandbox.localhost:{boxed.port}", "null"):
        with pytest.raises(websocket.WebSocketBadStatusException) as e:
            connect(origin)
        assert e.value.status_code == 403, origin
    ws = connect("https://evil.example", bearer(session(boxed)))
    assert run(ws) == b"hi\n"
    ws.close()


# -- URLs of ports ----------------------------------------------------------------------------------------------------


def url_of(cay, token, **wish):
    return ask(cay, URLS, token, "POST", {"namespace": "default", "sandbox": BOX, "port": 8000, **wish})


def test_a_url_leads_into_the_sandbox_from_another_origin(boxed):
    token = session(boxed)
    assert ask(boxed, PAGE, token)[1]["urls"] is True
    status, made = url_of(boxed, token)
    assert status == 201, made
    host, _, rest = made["url"].removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    assert name == f"8000-{BOX}.default.sandbox.localhost" and int(port) != boxed.port
    conn = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    conn.request("GET", "/" + rest, headers={"Host": host})
    answer = conn.getresponse()
    assert answer.status in (200, 302, 303, 307), answer.read()
    conn.close()


def test_a_url_is_for_whoever_may_go_there(boxed):
    path = make(boxed, "vera", "--token")
    token = token_of(path)
    assert url_of(boxed, token)[0] == 403
    boxed.kubectl("create", "rolebinding", "vera", "--clusterrole=edit", "--user=vera")
    assert url_of(boxed, token)[0] == 201
    assert url_of(boxed, token, sandbox="none")[0] == 404
    assert url_of(boxed, token, namespace="kube-system")[0] == 403
    for wish in ({"port": 0}, {"port": 70000}, {"port": "x"}, {"namespace": ""}, {"sandbox": None}):
        assert url_of(boxed, token, **wish)[0] == 422, wish
    # What is Private is its owner's.
    boxed.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox",
                                  "metadata": {"name": "mine", "annotations": {"cay.dev/visibility": "Private"}},
                                  "spec": {"podTemplate": {"spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    boxed.wait_ready(SANDBOXES, "mine")
    status, answer = url_of(boxed, token, sandbox="mine")
    assert status == 403 and "Private to another user" in answer["message"]
    assert url_of(boxed, session(boxed), sandbox="mine")[0] == 201
    agent = Agent(boxed, "urls", role="edit")
    assert url_of(boxed, agent.mint())[0] == 403, "it would outlive what lets an agent in"
    wait_until(lambda: "Private to another user" in boxed.api("GET", "/cay/v1/audit?refused=true&user=vera&verb=connect"))
    user(boxed, "rm", "vera")


# -- `cay ui` as a server ---------------------------------------------------------------------------------------------


class Desk:
    """`cay ui` that serves the page itself."""

    def __init__(self, cay, *flags):
        self.process = subprocess.Popen([os.path.join(cay.build, "cay"), "ui", "--print", "--kubeconfig", cay.kubeconfig, *flags],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://"), self.process.stderr.read() if not self.url else self.url
        self.host, _, rest = self.url.removeprefix("http://").partition("/")
        self.port = int(self.host.rpartition(":")[2])
        self.code = rest.partition("#code=")[2]

    def ask(self, path, token=None, method="GET", body=None, **headers):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        head = {k.replace("_", "-"): v for k, v in headers.items()}
        if token:
            head["Authorization"] = "Bearer " + token
        conn.request(method, path, body=None if body is None else json.dumps(body), headers=head)
        answer = conn.getresponse()
        data = answer.read()
        conn.close()
        return answer.status, answer.headers, json.loads(data) if data[:1] == b"{" else data

    def enter(self):
        status, _, answer = self.ask(SESSIONS, None, "POST", {"code": self.code})
        assert status == 201, answer
        self.token = answer["token"]
        return self

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture(scope="module")
def desk(boxed):
    d = Desk(boxed, "--proxy").enter()
    yield d
    assert d.close() == 0


def test_the_proxy_serves_the_same_page(cay, desk):
    for path in ["/ui/", "/ui/sandboxes/default/box", *assets(cay)]:
        mine, theirs = desk.ask(path), fetch(cay, path)
        assert (mine[0], mine[2]) == (theirs[0], theirs[2]) and mine[1]["Content-Security-Policy"] == GUARDS["Content-Security-Policy"]
    status, _, me = desk.ask(PAGE, desk.token)
    assert status == 200 and me["proxied"] is True and "system:masters" in me["user"]["groups"] and me["urls"] is True


def test_the_proxy_has_the_rights_of_the_kubeconfig(desk):
    status, headers, pods = desk.ask("/api/v1/namespaces/default/pods", desk.token)
    assert status == 200 and pods["kind"] == "PodList"
    assert headers["Content-Security-Policy"].startswith("sandbox") and headers["X-Content-Type-Options"] == "nosniff"
    assert desk.ask("/api/v1/namespaces/default/configmaps", desk.token, "POST",
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "by-proxy"}, "data": {"x": "y" * 300000}})[0] == 201
    assert desk.ask("/api/v1/namespaces/default/configmaps/by-proxy", desk.token, "DELETE")[0] == 200
    for path in ("/version", "/livez", "/readyz", "/openapi/v3", "/apis"):
        assert desk.ask(path, desk.token)[0] == 200, path
    for path in ("/metrics", "/", "/mcp", "/apix", "/hooks/a/b"):
        assert desk.ask(path, desk.token)[0] == 404, path
    assert desk.ask(URLS, desk.token, "POST", {"namespace": "default", "sandbox": BOX, "port": 8000})[0] == 201


def test_the_proxy_refuses_whoever_has_no_token(boxed, desk):
    api = "/api/v1/namespaces/default/pods"
    server_token = session(boxed)
    for token in (None, "", "x", desk.token[:-1], desk.code, server_token):
        assert desk.ask(api, token)[0] == 401, token
        assert desk.ask(PAGE, token)[0] == 401
    assert desk.ask(SESSIONS, None, "POST", {"code": desk.code})[0] == 401, "the link was used"
    assert desk.ask(LINKS, desk.token, "POST")[0] == 403
    assert ask(boxed, PAGE, desk.token)[0] == 401, "its token is nothing to the server"


def test_the_proxy_is_only_called_by_names_of_this_machine(desk):
    good = [f"localhost:{desk.port}", f"127.0.0.1:{desk.port}", f"127.9.9.9:{desk.port}", f"[::1]:{desk.port}", f"LOCALHOST:{desk.port}"]
    bad = ["evil.example", f"evil.example:{desk.port}", "localhost", "localhost:1", f"localhost.evil.example:{desk.port}",
           f"127.0.0.1.evil.example:{desk.port}", f"8.8.8.8:{desk.port}", f"0.0.0.0:{desk.port}", f"[::]:{desk.port}"]
    for host in good:
        assert desk.ask("/version", desk.token, Host=host)[0] == 200, host
    for host in bad:
        for path in ("/version", "/ui/", SESSIONS):
            assert desk.ask(path, desk.token, Host=host)[0] == 403, (host, path)


def test_the_proxy_answers_its_own_page_alone(desk):
    own = f"http://{desk.host}"
    assert desk.ask("/version", desk.token, Origin=own)[0] == 200
    for origin in ("http://evil.example", "null", f"https://{desk.host}", f"http://8000-{BOX}.default.sandbox.localhost:8080", own + "0"):
        status, headers, _ = desk.ask("/version", desk.token, Origin=origin)
        assert status == 403 and not [h for h in headers if h.lower().startswith("access-control-")], origin
    assert desk.ask("/version", desk.token, Sec_Fetch_Site="same-site")[0] == 403
    assert desk.ask("/version", desk.token, Sec_Fetch_Site="same-origin")[0] == 200


def test_the_proxy_does_not_let_the_page_act_as_another(desk):
    _, _, who = desk.ask("/apis/authentication.k8s.io/v1/selfsubjectreviews", desk.token, "POST",
                         {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, Impersonate_User="somebody", Content_Type="application/json")
    assert who["status"]["userInfo"]["username"] != "somebody"


def test_the_proxy_passes_websockets_on(desk):
    def connect(*protocols, **headers):
        return websocket.create_connection(f"ws://127.0.0.1:{desk.port}{EXEC}", timeout=60, subprotocols=list(protocols),
                                           header=[f"{k}: {v}" for k, v in headers.items()])

    ws = connect("v5.channel.k8s.io", bearer(desk.token))
    assert ws.getsubprotocol() == "v5.channel.k8s.io" and run(ws) == b"hi\n"
    ws.close()
    for protocols in (("v5.channel.k8s.io",), ("v5.channel.k8s.io", bearer("x")), (bearer(desk.token),)):
        with pytest.raises(websocket.WebSocketBadStatusException) as e:
            connect(*protocols)
        assert e.value.status_code == 401


def test_the_proxy_does_not_hold_a_watch_back(boxed, desk):
    conn = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=60)
    version = boxed.api("GET", "/api/v1/namespaces/default/configmaps")["metadata"]["resourceVersion"]
    conn.request("GET", f"/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}&timeoutSeconds=600",
                 headers={"Authorization": "Bearer " + desk.token})
    answer = conn.getresponse()
    assert answer.status == 200
    for name in ("first", "second"):  # each is seen before the next is made
        boxed.kubectl("create", "configmap", name)
        event = json.loads(answer.readline())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
    before = boxed.metric("cay_api_watches")
    conn.close()
    wait_until(lambda: boxed.metric("cay_api_watches") < before)
    boxed.kubectl("delete", "configmap", "first", "second")


def test_a_server_without_a_page_is_served_by_the_command(fresh):
    cay = fresh("--page", "off")
    desk = Desk(cay).enter()
    status, _, me = desk.ask(PAGE, desk.token)
    assert status == 200 and me["proxied"] and me["urls"] is False and me["user"]["username"]
    assert desk.ask("/api/v1/namespaces", desk.token)[0] == 200
    cay.stop()
    assert desk.ask("/api/v1/namespaces", desk.token)[0] == 502
    assert desk.close() == 0
    cay.start()
    bad = cay.cay("ui", "--print", "--kubeconfig", cay.kubeconfig, "--listen", "0.0.0.0:0", check=False)
    assert bad.returncode == 2 and "loopback" in bad.stderr
