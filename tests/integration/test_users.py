# SPDX-License-Identifier: Apache-2.0
"""`cay user`: credentials that are made, used with kubectl, and taken back."""

import base64
import http.client
import json
import os
import ssl
import stat
import subprocess
import threading

import pytest
from cay_local import wait_until
from test_identity import ask

USERS = "/cay/v1/users"
MAPS = "/api/v1/namespaces/default/configmaps"
WAIT_S = 60


@pytest.fixture(scope="module")
def cay(module_instance):
    return module_instance()


def user(cay, *args, check=True):
    return cay.cay("user", *args, "--data-dir", cay.data_dir, check=check)


def kubectl(path, *args):
    return subprocess.run(["kubectl", "--kubeconfig", path, *args], capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, HOME=os.path.dirname(path)))


def make(cay, name, *flags):
    """The path of a new user's kubeconfig."""
    path = os.path.join(cay.data_dir, name + ".kubeconfig")
    user(cay, "add", name, "--kubeconfig", path, *flags)
    return path


@pytest.mark.parametrize("flags", [(), ("--token",)], ids=["certificate", "token"])
def test_a_user_is_made_given_rights_and_ended(cay, flags):
    name = "ann" + "".join(flags)
    path = make(cay, name, "--group", "devs", "-g", "ops", *flags)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    info = json.loads(kubectl(path, "auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert (info["username"], info["groups"]) == (name, ["devs", "ops", "system:authenticated"])
    refused = kubectl(path, "get", "pods")
    assert f'User "{name}" cannot list resource "pods"' in refused.stderr
    cay.kubectl("create", "rolebinding", name, "--clusterrole=view", "--group=ops")
    assert kubectl(path, "get", "pods").returncode == 0
    listed = json.loads(user(cay, "ls", "-o", "json").stdout)["items"]
    assert [(u["groups"], u["credential"], u["expired"]) for u in listed if u["name"] == name] == [(["devs", "ops"], "token" if flags else "certificate", False)]
    user(cay, "rm", name)
    gone = kubectl(path, "get", "pods")
    assert gone.returncode == 1 and "Unauthorized" in gone.stderr
    # Somebody of the same name is somebody else.
    make(cay, name + "2")
    user(cay, "add", name, *flags)
    assert "Unauthorized" in kubectl(path, "get", "pods").stderr
    user(cay, "rm", name)
    user(cay, "rm", name + "2")
    cay.kubectl("delete", "rolebinding", name)


def context_of(path, directory):
    """A TLS context with the certificate of a kubeconfig."""
    text = open(path).read()
    pem = b""
    for key in ("client-certificate-data", "client-key-data"):
        pem += base64.b64decode(next(line.split()[1] for line in text.splitlines() if key in line)) + b"\n"
    name = os.path.join(directory, "user.pem")
    with open(name, "wb") as f:
        f.write(pem)
    context = ssl._create_unverified_context()
    context.load_cert_chain(name)
    return context


def test_the_end_of_a_credential_cuts_what_is_open(cay):
    path = make(cay, "watcher")
    cay.kubectl("create", "rolebinding", "watcher", "--clusterrole=view", "--user=watcher")
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=WAIT_S, context=context_of(path, cay.data_dir))
    before = cay.metric("cay_api_watches")
    conn.request("GET", MAPS + "?watch=1&timeoutSeconds=600")
    answer = conn.getresponse()
    assert answer.status == 200
    wait_until(lambda: cay.metric("cay_api_watches") > before)
    got = []
    reader = threading.Thread(target=lambda: got.append(answer.read()), daemon=True)
    reader.start()
    user(cay, "rm", "watcher")
    cay.kubectl("create", "configmap", "after")
    reader.join(WAIT_S)
    assert not reader.is_alive() and b'"after"' not in got[0]
    try:  # the connection, and a session of it that is resumed, are of nobody now
        conn.request("GET", MAPS)
        assert conn.getresponse().status == 401
    except (ConnectionError, http.client.HTTPException):
        pass
    cay.kubectl("delete", "configmap", "after")


def test_only_whoever_may_act_as_somebody_makes_a_credential_for_them(cay):
    cay.kubectl("create", "clusterrole", "clerk", "--verb=get,post,delete", "--non-resource-url=/cay/v1/users", "--non-resource-url=/cay/v1/users/*")
    cay.kubectl("create", "clusterrole", "as-ben", "--verb=impersonate", "--resource=users", "--resource-name=ben")
    cay.kubectl("create", "serviceaccount", "clerk")
    for role in ("clerk", "as-ben"):
        cay.kubectl("create", "clusterrolebinding", "clerk-" + role, "--clusterrole", role, "--serviceaccount=default:clerk")
    clerk = cay.kubectl("create", "token", "clerk").stdout.strip()
    nobody = cay.kubectl("create", "token", "default").stdout.strip()
    for token in (nobody, None):
        for method, path in (("GET", USERS), ("POST", USERS), ("DELETE", USERS + "/x")):
            assert ask(cay, path, token, method, {"name": "x"} if method == "POST" else None)[0] == 403
    assert ask(cay, USERS, clerk, "POST", {"name": "ben"})[0] == 201
    for body in ({"name": "carl"}, {"name": "ben2"}, {"name": "ben", "groups": ["system:masters"]}, {"name": "ben", "groups": ["devs"]}):
        status, answer = ask(cay, USERS, clerk, "POST", body)
        assert status == 403 and "cannot impersonate" in answer["message"], body
    assert ask(cay, USERS + "/ben", clerk, "DELETE")[0] == 200
    assert ask(cay, USERS + "/ben", clerk, "DELETE")[0] == 404


@pytest.mark.parametrize("body, word", [
    ({}, "name"), ({"name": ""}, "1 to 64"), ({"name": "x" * 65}, "1 to 64"), ({"name": "system:admin"}, "server's own"), ({"name": "a/b"}, "must not contain"),
    ({"name": "a\nb"}, "must not contain"), ({"name": "cay:key:a"}, "server's own"), ({"name": "a", "groups": ["cay:key:a:b"]}, "system:masters"),
    ({"name": "a", "groups": ["system:nodes"]}, "system:masters"), ({"name": "a", "groups": [str(i) for i in range(17)]}, "more than 16"),
    ({"name": "a", "groups": [1]}, "1 to 64"), ({"name": "a", "ttlSeconds": 1}, "ttlSeconds"), ({"name": "a", "ttlSeconds": 10**10}, "ttlSeconds"),
    ({"name": "a", "credential": "password"}, "certificate or token"), ([], "object"),
])
def test_a_request_that_is_wrong_says_how(cay, body, word):
    with pytest.raises(Exception) as e:
        cay.api("POST", USERS, body)
    assert e.value.code == 400 and word in str(e.value)


def test_a_file_that_exists_is_not_overwritten(cay):
    path = make(cay, "first")
    again = user(cay, "add", "second", "--kubeconfig", path, check=False)
    assert again.returncode == 1 and "exists" in again.stderr
    assert [u["name"] for u in json.loads(user(cay, "ls", "-o", "json").stdout)["items"] if u["name"] == "second"] == []
    user(cay, "rm", "first")
    assert user(cay, "rm", "first", check=False).returncode == 1
