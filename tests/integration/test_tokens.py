# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts in the files of Pods, and the CA by which their programs would know the API server."""

import base64
import http.client
import json
import os
import re
import ssl
import time

import pytest

from cay_local import ROOT, ApiError, wait_until

CORE = "/api/v1/namespaces/default"
PODS = f"{CORE}/pods"
SANDBOXES = "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ISSUER = "https://kubernetes.default.svc"
ACCESS = "/var/run/secrets/kubernetes.io/serviceaccount"
EXTRA = "authentication.kubernetes.io/"


def pod(name, command=("sleep", "1000"), account="worker", sources=None, container=None, **spec):
    main = {"name": "main", "image": "host", "command": list(command), **(container or {})}
    if sources is not None:
        main["volumeMounts"] = [{"name": "t", "mountPath": "/t"}]
        spec["volumes"] = [{"name": "t", "projected": {"sources": sources}}]
    return {"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 1, "serviceAccountName": account, "containers": [main], **spec}}


def token_source(path, **more):
    return {"serviceAccountToken": {"path": path, **more}}


def ready(obj):
    return obj is not None and any(c["type"] == "Ready" and c["status"] == "True" for c in obj.get("status", {}).get("conditions", []))


def create(cay, body):
    cay.api("POST", PODS, body)
    return cay.wait(PODS, body["metadata"]["name"], ready)


def sandbox(cay, name, spec):
    cay.api("POST", SANDBOXES, {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": name},
                                "spec": {"podTemplate": {"spec": spec}}})


def account(cay, name="worker", **more):
    return cay.api("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": name}, **more})


def sh(cay, name, script, check=True):
    return cay.kubectl("exec", name, "--", "sh", "-c", script, check=check).stdout


def claims(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def review(cay, token, *audiences):
    spec = {"token": token, **({"audiences": list(audiences)} if audiences else {})}
    return cay.api("POST", REVIEWS, {"spec": spec})["status"]


def status_with(cay, token, path="/apis"):
    conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=30, context=ssl._create_unverified_context())
    conn.request("GET", path, headers={"Authorization": "Bearer " + token})
    status = conn.getresponse().status
    conn.close()
    return status


def ca_of(cay):
    with open(os.path.join(cay.data_dir, "ca.crt")) as f:
        return f.read()


def root_ca(cay, ns):
    try:
        return cay.api("GET", f"/api/v1/namespaces/{ns}/configmaps/kube-root-ca.crt")
    except ApiError as e:
        assert e.code == 404
        return {}


def test_every_namespace_has_the_ca_of_the_server(fresh):
    cay = fresh()
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": "young"}})
    right = {"ca.crt": ca_of(cay)}
    names = [n["metadata"]["name"] for n in cay.api("GET", "/api/v1/namespaces")["items"]]
    assert {"default", "kube-system", "young"} <= set(names)
    for ns in names:
        wait_until(lambda ns=ns: root_ca(cay, ns).get("data") == right)
    path = "/api/v1/namespaces/young/configmaps/kube-root-ca.crt"
    cay.api("DELETE", path)
    wait_until(lambda: root_ca(cay, "young").get("data") == right)
    for change in ({"data": {"ca.crt": "another"}}, {"data": {"more": "x"}}, {"binaryData": {"b": "eHg="}},
                   {"data": {"ca.crt": "another"}, "immutable": True}):
        cay.api("PATCH", path, change, content_type="application/merge-patch+json")
        wait_until(lambda: root_ca(cay, "young").get("data") == right and not root_ca(cay, "young").get("binaryData"))
    labelled = cay.api("PATCH", path, {"metadata": {"labels": {"mine": "1"}}}, content_type="application/merge-patch+json")
    cay.api("DELETE", "/api/v1/namespaces/young")  # it does not hold up the end of its namespace
    wait_until(lambda: "young" not in [n["metadata"]["name"] for n in cay.api("GET", "/api/v1/namespaces")["items"]])
    assert labelled["metadata"]["labels"] == {"mine": "1"}
    version = root_ca(cay, "default")["metadata"]["resourceVersion"]
    cay.kill()
    cay.start()
    assert root_ca(cay, "default")["metadata"]["resourceVersion"] == version  # what is right is not written again


def cases():
    with open(os.path.join(ROOT, "tests", "data", "service_account", "cases.json")) as f:
        return json.load(f)


def what_was_made(spec):
    kept = ("volumes", "imagePullSecrets", "serviceAccountName", "serviceAccount", "automountServiceAccountToken")
    made = {"spec": {k: spec[k] for k in kept if k in spec},
            "mounts": {c["name"]: c.get("volumeMounts", []) for k in ("initContainers", "containers") for c in spec.get(k, [])}}
    return json.loads(re.sub(r"kube-api-access-(?!mine)[a-z0-9]{5}\b", "kube-api-access-XXXXX", json.dumps(made)))


@pytest.mark.parametrize("case", cases(), ids=lambda c: c["name"])
def test_a_pod_gets_of_its_account_what_kube_apiserver_gives_it(cay, case):
    """What a kube-apiserver 1.36.3 answered. The one difference: nobody gets a token without asking for it."""
    if case["account"] is not None:
        account(cay, case["spec"]["serviceAccountName"], **case["account"])
    body = {"metadata": {"name": "p"}, "spec": case["spec"]}
    if "error" in case["kubernetes"]:
        with pytest.raises(ApiError) as e:
            cay.api("POST", PODS + "?dryRun=All", body)
        assert e.value.code == 403 and e.value.status["message"] == case["kubernetes"]["error"]
        return
    made = what_was_made(cay.api("POST", PODS + "?dryRun=All", body)["spec"])
    if case["name"] == "both are silent":
        assert "volumes" not in made["spec"] and made["mounts"] == {"c": []}
    else:
        assert made == case["kubernetes"]


@pytest.mark.parametrize("token,message", [
    ({"path": "t", "expirationSeconds": 599}, "sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"),
    ({"path": "t", "expirationSeconds": 0}, "sources[0].serviceAccountToken.expirationSeconds: Invalid value: 0: may not specify a duration less than 10 minutes"),
    ({"path": "t", "expirationSeconds": 2**32 + 1},
     "sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"),
    ({"path": ""}, "path: Required value"),
    ({"path": "/x"}, 'path: Invalid value: "/x": must be a relative path'),
    ({"path": "a/../x"}, "path: Invalid value: \"a/../x\": must not contain '..'"),
    ({"path": "..x"}, "path: Invalid value: \"..x\": must not start with '..'"),
])
def test_what_a_token_may_be(cay, token, message):
    """In the words of a kube-apiserver, which then misses the volume where it is mounted."""
    with pytest.raises(ApiError) as e:
        cay.api("POST", PODS + "?dryRun=All", pod("v", account="default", sources=[{"serviceAccountToken": token}]))
    assert e.value.code == 422 and e.value.status["message"].startswith(f'Pod "v" is invalid: [spec.volumes[0].projected.{message}, spec.containers[0].volumeMounts')


def test_the_volume_is_the_servers_and_not_the_clients(cay):
    account(cay, "owned")
    body = {"apiVersion": "v1", "kind": "Pod", **pod("owned", account="owned", automountServiceAccountToken=True)}
    made = cay.api("POST", PODS + "?dryRun=All&fieldManager=me", body)
    owned = json.dumps([m["fieldsV1"] for m in made["metadata"]["managedFields"] if m["manager"] == "me"])
    assert "f:automountServiceAccountToken" in owned and "f:volumes" not in owned and "f:volumeMounts" not in owned


def test_a_program_reads_who_it_is(cay):
    uid = account(cay)["metadata"]["uid"]
    sources = [token_source("api"), token_source("deep/vault", audience="vault", expirationSeconds=1200)]
    obj = create(cay, pod("reader", sources=sources))
    api, vault = sh(cay, "reader", "cat /t/api"), sh(cay, "reader", "cat /t/deep/vault")
    node = cay.api("GET", f"/api/v1/nodes/{obj['spec']['nodeName']}")["metadata"]
    got = claims(api)
    assert got["sub"] == "system:serviceaccount:default:worker" and got["aud"] == [ISSUER] and got["exp"] - got["iat"] == 3600
    assert got["kubernetes.io"] == {"namespace": "default", "serviceaccount": {"name": "worker", "uid": uid},
                                    "pod": {"name": "reader", "uid": obj["metadata"]["uid"]},
                                    "node": {"name": node["name"], "uid": node["uid"]}}
    assert claims(vault)["aud"] == ["vault"] and claims(vault)["exp"] - claims(vault)["iat"] == 1200
    said = review(cay, api)
    assert said["authenticated"] and said["audiences"] == [ISSUER]
    assert said["user"] == {"username": got["sub"], "uid": uid,
                            "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
                            "extra": {EXTRA + "credential-id": ["JTI=" + got["jti"]], EXTRA + "node-name": [node["name"]],
                                      EXTRA + "node-uid": [node["uid"]], EXTRA + "pod-name": ["reader"],
                                      EXTRA + "pod-uid": [obj["metadata"]["uid"]]}}
    assert status_with(cay, api) == 200 and status_with(cay, api, PODS) == 403  # it has no rights yet
    # Each is good for its audience alone.
    assert status_with(cay, vault) == 401 and not review(cay, vault)["authenticated"]
    assert review(cay, vault, "elsewhere", "vault")["audiences"] == ["vault"]
    assert not review(cay, vault, "elsewhere")["authenticated"] and not review(cay, api, "vault")["authenticated"]
    # And as long as its Pod.
    cay.kubectl("delete", "pod", "reader", "--grace-period=0", "--force", "--wait")
    assert status_with(cay, api) == 401
    assert not review(cay, api)["authenticated"] and not review(cay, vault, "vault")["authenticated"]


def test_only_whoever_is_to_read_a_token_can(cay):
    """The ids and modes of a kubelet: with one user for all containers, or a group for volumes, a token is closed to others."""
    account(cay, "modes")
    cay.api("POST", f"{CORE}/configmaps", {"metadata": {"name": "plain"}, "data": {"m": "x"}})
    sources = [token_source("token"), {"configMap": {"name": "plain"}}]
    look = "cd /t; stat -L -c '%u %g %a' token m; cat token | wc -w"
    for name, security, want in (("open", {}, "0 0 644\n0 0 644\n1\n"), ("user", {"runAsUser": 1000, "runAsGroup": 1000}, "1000 0 600\n0 0 644\n1\n"),
                                 ("group", {"runAsUser": 1000, "fsGroup": 2000}, "1000 2000 640\n0 2000 644\n1\n")):
        create(cay, pod(name, account="modes", sources=sources, securityContext=security))
        assert sh(cay, name, look) == want, name
        assert sh(cay, name, "touch /t/x 2>/dev/null || echo refused") == "refused\n"


def test_a_neighbour_finds_no_token_of_another(cay):
    account(cay, "rich")
    mine = create(cay, pod("rich", account="rich", sources=[token_source("token")]))["metadata"]["uid"]
    token = sh(cay, "rich", "cat /t/token")
    create(cay, pod("poor", account="rich"))
    assert sh(cay, "poor", "ls -d /t /var/run/secrets 2>/dev/null; grep -c rich /proc/mounts", check=False) == "0\n"
    found = sh(cay, "poor", f"find / -xdev \\( -name '*{mine}*' -o -name '..data' \\) 2>/dev/null; cat /proc/mounts", check=False)
    assert mine not in found and "..data" not in found
    at = sh(cay, "rich", "cut -d' ' -f 1-4 /proc/mounts | grep ' /t '")
    assert " tmpfs " in at and " ro," in at, at  # in memory, and not to be written to
    assert token.split(".")[2] not in cay.log()


def test_tokens_are_renewed_under_a_running_program_across_kills_of_the_daemon(fresh):
    """A daemon that starts again renews every token. A program that reads all the time sees whole tokens only."""
    cay = fresh()
    account(cay)
    watch = ('while :; do x=$(cat /t/a /t/b) || continue; case $x in *.*.*.*.*) ;; *) echo "$x" >> /tmp/torn;; esac; '
             'echo "$x" > /tmp/next; mv /tmp/next /tmp/last; done')
    create(cay, pod("steady", ("sh", "-c", watch), sources=[token_source("a"), token_source("b", audience="b")]))
    seen = [sh(cay, "steady", "cat /t/a")]
    for _ in range(3):
        cay.kill()
        cay.start()
        wait_until(lambda: sh(cay, "steady", "cat /t/a", check=False) not in ("", seen[-1]))
        seen.append(sh(cay, "steady", "cat /t/a"))
        assert review(cay, seen[-1])["authenticated"]
    # Killed at some moment of the renewals, before the daemon is ready.
    for delay in (0.05, 0.1, 0.2, 0.3):
        cay.kill()
        cay.spawn()
        time.sleep(delay)
        cay.kill()
        cay.start()
    wait_until(lambda: sh(cay, "steady", "cat /t/a", check=False) not in ("", seen[-1]))
    assert review(cay, sh(cay, "steady", "cat /t/a"))["authenticated"]
    assert sh(cay, "steady", "cat /tmp/torn 2>/dev/null; [ -s /tmp/last ] && ls -A /t | grep -c '^[.][.][0-9]'") == "2\n"
    obj = cay.api("GET", f"{PODS}/steady")
    assert obj["status"]["containerStatuses"][0]["restartCount"] == 0
    assert len({claims(t)["jti"] for t in seen}) == len(seen)


def test_a_sandbox_that_is_woken_has_a_fresh_token(cay):
    account(cay, "sleeper")
    spec = pod("sleeper", account="sleeper", automountServiceAccountToken=True)["spec"]
    sandbox(cay, "sleeper", spec)
    cay.wait(SANDBOXES, "sleeper", ready)
    old = sh(cay, "sleeper", f"cat {ACCESS}/token")
    assert sh(cay, "sleeper", f"cat {ACCESS}/namespace; cat {ACCESS}/ca.crt") == "default" + ca_of(cay)
    cay.api("PATCH", f"{SANDBOXES}/sleeper", {"spec": {"operatingMode": "Suspended"}}, content_type="application/merge-patch+json")
    wait_until(lambda: not [p for p in cay.api("GET", PODS)["items"] if p["metadata"]["name"] == "sleeper"])
    assert not review(cay, old)["authenticated"]
    cay.api("PATCH", f"{SANDBOXES}/sleeper", {"spec": {"operatingMode": "Running"}}, content_type="application/merge-patch+json")
    cay.wait(PODS, "sleeper", ready)
    new = sh(cay, "sleeper", f"cat {ACCESS}/token")
    assert review(cay, new)["user"]["extra"][EXTRA + "pod-uid"] == [cay.api("GET", f"{PODS}/sleeper")["metadata"]["uid"]]
    assert claims(new)["jti"] != claims(old)["jti"] and claims(new)["exp"] - claims(new)["iat"] == 3607


def test_a_sandbox_waits_for_its_account(cay):
    spec = pod("early", account="late")["spec"]
    sandbox(cay, "early", spec)
    cay.wait(SANDBOXES, "early", lambda o: o and "service account default/late" in json.dumps(o.get("status", {})))
    account(cay, "late")
    cay.wait(SANDBOXES, "early", ready)


@pytest.mark.long
def test_a_pod_that_is_held_after_its_end_has_no_token(cay):
    """A finalizer keeps the object; a minute after its time its tokens are worth nothing all the same."""
    account(cay, "held")
    body = pod("held", account="held")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    create(cay, body)
    bound = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "held"}}}
    token = cay.api("POST", f"{CORE}/serviceaccounts/held/token", bound)["status"]["token"]
    cay.api("DELETE", f"{PODS}/held?gracePeriodSeconds=0")
    assert review(cay, token)["authenticated"]
    wait_until(lambda: not review(cay, token)["authenticated"], timeout=90)
    cay.api("PATCH", f"{PODS}/held", {"metadata": {"finalizers": None}}, content_type="application/merge-patch+json")
