# SPDX-License-Identifier: Apache-2.0
"""Who asks, and what they may: the walls of the API server itself, seen from a client that has a token or nothing."""

import base64
import http.client
import json
import os
import ssl
import subprocess
import time

import pytest

PODS = "/api/v1/namespaces/default/pods"
ISSUER = "https://kubernetes.default.svc"


@pytest.fixture
def cay(fresh):
    return fresh("--service-account-grants", "default/boss=admin,default/reader=view")


def ask(cay, path, token=None, method="GET", body=None, headers=()):
    """The status and the Status or object of one request; without a token, of nobody."""
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=30, context=ssl._create_unverified_context())
    head = {"Content-Type": "application/json", **dict(headers)}
    if token:
        head["Authorization"] = "Bearer " + token
    conn.request(method, path, body=None if body is None else json.dumps(body), headers=head)
    answer = conn.getresponse()
    text = answer.read()
    conn.close()
    return answer.status, json.loads(text) if text.startswith(b"{") else text


def account(cay, name):
    if name != "default":
        cay.kubectl("create", "serviceaccount", name)
    return f"/api/v1/namespaces/default/serviceaccounts/{name}/token"


def request(cay, path, **spec):
    return cay.api("POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})["status"]["token"]


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def raw_signature(der):
    """r || s of 32 bytes each, from the SEQUENCE of two INTEGERs that openssl writes."""
    at, out = 2, b""
    for _ in range(2):
        size = der[at + 1]
        out += der[at + 2:at + 2 + size].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + size
    return out


def forge(cay, token, **changes):
    """The same token with other claims, signed with the server's own key."""
    head, body, _ = token.split(".")
    claims = {**json.loads(unb64(body)), **changes}
    text = head + "." + b64(json.dumps(claims).encode())
    der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", os.path.join(cay.data_dir, "sa.key")],
                         input=text.encode(), capture_output=True, check=True).stdout
    return text + "." + b64(raw_signature(der))


def test_nobody_without_a_credential_reads_an_object(cay):
    for path in (PODS, "/api/v1/namespaces/kube-system/secrets", "/api", "/metrics"):
        status, answer = ask(cay, path)
        assert (status, answer["reason"]) == (403, "Forbidden"), path
    assert ask(cay, "/version")[0] == 200


def test_nobody_acts_as_another_without_the_right_to(cay):
    boss = request(cay, account(cay, "boss"))  # whose grant gives no such right
    for token in (boss, None):
        for headers in ({"Impersonate-User": "cay-admin", "Impersonate-Group": "system:masters"}, {"impersonate-user": "cay-admin"},
                        {"Impersonate-User": "system:serviceaccount:kube-system:default"}, {"Impersonate-User": "x", "Impersonate-Extra-Scopes": "all"}):
            status, answer = ask(cay, "/api/v1/nodes", token, headers=headers)
            assert (status, answer["reason"]) == (403, "Forbidden"), headers
            assert "cannot impersonate" in answer["message"]
    status, answer = ask(cay, PODS, boss, headers={"Impersonate-Group": "system:masters"})
    assert status in (400, 403), answer


def test_an_account_has_no_rights_until_it_is_given_some(cay):
    token = request(cay, account(cay, "plain"))
    assert ask(cay, "/apis", token)[0] == 200
    for path in (PODS, "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default", "/api/v1/namespaces/default/serviceaccounts"):
        status, answer = ask(cay, path, token)
        assert status == 403 and "system:serviceaccount:default:plain" in answer["message"], path
    assert ask(cay, account(cay, "default"), token, "POST", {})[0] == 403


def test_a_role_ends_where_its_table_says(cay):
    token = request(cay, account(cay, "reader"))
    assert ask(cay, PODS, token)[0] == 200
    assert ask(cay, "/api/v1/namespaces/default/secrets", token)[0] == 403
    assert ask(cay, "/api/v1/namespaces/kube-system/pods", token)[0] == 403
    assert ask(cay, PODS, token, "POST", {})[0] == 403
    assert ask(cay, PODS + "/x/exec?command=id", token)[0] == 403


def test_an_expired_token_is_worth_nothing(cay):
    token = request(cay, account(cay, "plain"))
    now = int(time.time())
    assert ask(cay, "/apis", forge(cay, token, exp=now + 600))[0] == 200  # so the forgery itself is right
    assert ask(cay, "/apis", forge(cay, token, exp=now - 1))[0] == 401
    for changes in ({"nbf": now + 600}, {"iss": "https://elsewhere"}, {"aud": ["https://elsewhere"]}):
        assert ask(cay, "/apis", forge(cay, token, **changes))[0] == 401, changes
    head, body, signature = token.split(".")
    for alg in ("none", "HS256"):
        other = b64(json.dumps({**json.loads(unb64(head)), "alg": alg}).encode())
        assert ask(cay, "/apis", f"{other}.{body}.{signature}")[0] == 401
        assert ask(cay, "/apis", f"{other}.{body}.")[0] == 401


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bearer"},
       "spec": {"serviceAccountName": "boss", "containers": [{"name": "c", "image": "pause"}]}}
BOUND = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "bearer"}}


def test_a_bound_token_ends_with_its_pod(cay):
    path = account(cay, "boss")
    cay.api("POST", PODS, POD)
    token = request(cay, path, **BOUND)
    assert ask(cay, PODS, token)[0] == 200
    cay.kubectl("delete", "pod", "bearer", "--grace-period=0", "--force", "--wait")
    assert ask(cay, PODS, token)[0] == 401
    cay.api("POST", PODS, POD)  # another Pod of that name is not it
    assert ask(cay, PODS, token)[0] == 401


def test_a_token_cannot_get_a_better_one(cay):
    path = account(cay, "boss")
    short = request(cay, path, expirationSeconds=600)
    status, answer = ask(cay, path, short, "POST", {"spec": {"expirationSeconds": 86400}})
    assert status == 201 and answer["spec"]["expirationSeconds"] <= 600
    cay.api("POST", PODS, POD)
    bound = request(cay, path, **BOUND)
    status, answer = ask(cay, path, bound, "POST", {})
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert ask(cay, path, bound, "POST", {"spec": BOUND})[0] == 201


TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def test_whose_a_token_is(cay):
    boss = request(cay, account(cay, "boss"))
    status = cay.api("POST", TOKEN_REVIEWS, {"spec": {"token": boss}})["status"]
    assert status["authenticated"] and status["user"]["username"] == "system:serviceaccount:default:boss"
    assert "system:serviceaccounts:default" in status["user"]["groups"]
    assert cay.api("POST", TOKEN_REVIEWS, {"spec": {"token": boss, "audiences": [ISSUER]}})["status"]["audiences"] == [ISSUER]
    for spec in ({"token": boss + "x"}, {"token": ""}, {}, {"token": boss, "audiences": ["elsewhere"]}):
        assert not cay.api("POST", TOKEN_REVIEWS, {"spec": spec})["status"]["authenticated"]
    cay.api("DELETE", "/api/v1/namespaces/default/serviceaccounts/boss")
    assert not cay.api("POST", TOKEN_REVIEWS, {"spec": {"token": boss}})["status"]["authenticated"]


def test_what_a_user_may_do(cay):
    account(cay, "boss")
    account(cay, "reader")

    def may(user, groups=(), **what):
        what = dict({"namespace": "default", "verb": "create", "resource": "pods", "subresource": "exec", "name": "x"}, **what)
        return cay.api("POST", ACCESS_REVIEWS, {"spec": {"user": user, "groups": list(groups), "resourceAttributes": what}})["status"]["allowed"]
    boss, reader = (f"system:serviceaccount:default:{name}" for name in ("boss", "reader"))
    assert may(boss) and not may(reader) and not may("somebody") and may("somebody", ["system:masters"])
    assert may(reader, verb="get", subresource="log")
    assert not may(boss, namespace="kube-system") and not may(boss, namespace="") and not may(boss, verb="impersonate")
    cay.api("DELETE", "/api/v1/namespaces/default/serviceaccounts/boss")
    assert not may(boss)  # it is nobody any more
    page = {"spec": {"user": reader, "groups": ["system:authenticated"], "nonResourceAttributes": {"path": "/version", "verb": "get"}}}
    assert cay.api("POST", ACCESS_REVIEWS, page)["status"]["allowed"]


def test_only_administrators_ask_about_others(cay):
    boss = request(cay, account(cay, "boss"))
    for path in (TOKEN_REVIEWS, ACCESS_REVIEWS):
        assert ask(cay, path, boss, "POST", {"spec": {}})[0] == 403
        assert ask(cay, path, None, "POST", {"spec": {}})[0] == 403
        for method, where in (("GET", path), ("DELETE", path), ("POST", path + "/x")):
            with pytest.raises(Exception) as e:
                cay.api(method, where, {} if method == "POST" else None)
            assert e.value.code in (404, 405)


def der_signature(raw):
    """The SEQUENCE of two INTEGERs that openssl reads, from r || s."""
    parts = b""
    for n in (raw[:32], raw[32:]):
        n = n.lstrip(b"\0") or b"\0"
        n = (b"\0" if n[0] & 0x80 else b"") + n
        parts += b"\x02" + bytes([len(n)]) + n
    return b"\x30" + bytes([len(parts)]) + parts


def test_others_can_check_tokens_by_themselves(cay, tmp_path):
    token = request(cay, account(cay, "plain"))
    assert ask(cay, "/openid/v1/jwks")[0] == 403  # accounts may read it, and not everybody
    status, found = ask(cay, "/.well-known/openid-configuration", token)
    assert status == 200 and found["issuer"] == ISSUER and found["jwks_uri"].endswith("/openid/v1/jwks")
    status, keys = ask(cay, "/openid/v1/jwks", token)
    head, body, signature = token.split(".")
    key = next(k for k in keys["keys"] if k["kid"] == json.loads(unb64(head))["kid"])
    assert (key["kty"], key["crv"], key["alg"]) == ("EC", "P-256", "ES256") and "d" not in key
    spki = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004") + unb64(key["x"]) + unb64(key["y"])
    (tmp_path / "key.der").write_bytes(spki)
    (tmp_path / "signature").write_bytes(der_signature(unb64(signature)))
    for text, valid in ((f"{head}.{body}", True), (f"{head}.{body}x", False)):
        checked = subprocess.run(["openssl", "dgst", "-sha256", "-verify", tmp_path / "key.der", "-keyform", "DER", "-signature", tmp_path / "signature"],
                                 input=text.encode(), capture_output=True)
        assert (checked.returncode == 0) == valid, checked.stderr
