# SPDX-License-Identifier: Apache-2.0
"""One user whose few requests are expensive, and another whose many are cheap: what each is given of the server's time."""

import http.client
import json
import ssl
import threading

from cay_local import wait_until

CORE = "/api/v1/namespaces/default"
MAPS = f"{CORE}/configmaps"


def user(cay, name):
    """A token of an account that may edit the namespace. It is of another one: the accounts of a namespace have one share."""
    cay.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    cay.api("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": name}})
    cay.api("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", {
        "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}]})
    return cay.api("POST", f"/api/v1/namespaces/{name}/serviceaccounts/{name}/token", {})["status"]["token"]


class Asker(threading.Thread):
    """Sends the same request again as soon as it is answered, and counts the answers."""

    def __init__(self, cay, token, method, path, body=None, content_type="application/json"):
        super().__init__(daemon=True)
        self.request = (method, path, body, {"Content-Type": content_type, **({"Authorization": "Bearer " + token} if token else {})})
        context = cay.context() if token is None else ssl._create_unverified_context()
        self.conn = http.client.HTTPSConnection("127.0.0.1", cay.port, timeout=120, context=context)
        self.answers, self.last_refusal, self.n_cut, self.over = {}, None, 0, False
        self.start()

    def run(self):
        while not self.over:
            try:
                self.conn.request(*self.request)
                answer = self.conn.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):  # a refusal does not wait for the rest of a long body
                self.conn.close()
                self.n_cut += 1
                continue
            self.answers[answer.status] = self.answers.get(answer.status, 0) + 1
            if answer.status == 429:
                self.last_refusal = (answer.getheader("Retry-After"), json.loads(text))
        self.conn.close()

    def end(self):
        self.over = True
        self.join()


def served(askers):
    return sum(a.answers.get(200, 0) + a.answers.get(201, 0) for a in askers)


def refused(askers):
    return sum(a.answers.get(429, 0) for a in askers)


def has_everything(askers, n=40):
    """Whether none of the next requests is refused."""
    refusals, end = refused(askers), served(askers) + n
    wait_until(lambda: served(askers) > end or refused(askers) > refusals)
    return refused(askers) == refusals


def noise(cay, token, n):
    """A dry-run apply of thousands of fields: nothing is stored, and no connection is slow."""
    body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "noise"},
                       "data": {f"key-{i:05}": "x" * 40 for i in range(8000)}})
    path = f"{MAPS}/noise?fieldManager=noise&dryRun=All"
    return [Asker(cay, token, "PATCH", path, body, "application/apply-patch+yaml") for _ in range(n)]


def quiet(cay, token):
    return Asker(cay, token, "GET", f"{MAPS}/kube-root-ca.crt")


def test_a_noisy_user_does_not_take_a_quiet_ones_time(fresh):
    cay = fresh()
    noisy_token, quiet_token = user(cay, "noisy"), user(cay, "quiet")
    wait_until(lambda: any(m["metadata"]["name"] == "kube-root-ca.crt" for m in cay.api("GET", MAPS)["items"]))
    noisy = noise(cay, noisy_token, 4)
    wait_until(lambda: has_everything(noisy))  # once the administrator's own requests are past

    before = served(noisy)
    asks = quiet(cay, quiet_token)
    wait_until(lambda: refused(noisy) > 20 and served([asks]) > 300, timeout=120)
    for a in [*noisy, asks]:
        a.end()
    # In turns it would be one for four.
    assert served([asks]) > served(noisy) - before, (served([asks]), served(noisy) - before)
    assert set(asks.answers) == {200} and not asks.n_cut, asks.answers
    assert all(set(a.answers) == {201, 429} for a in noisy), [a.answers for a in noisy]
    retry, status = next(a.last_refusal for a in noisy if a.last_refusal)
    assert retry == "1" and status["reason"] == "TooManyRequests" and status["details"]["retryAfterSeconds"] == 1
    assert 'those of user "system:serviceaccount:noisy:noisy" took' in status["message"]
    assert cay.metric("cay_api_limited_total") >= refused(noisy)

    noisy = noise(cay, noisy_token, 2)
    wait_until(lambda: has_everything(noisy))  # the time of the others is past
    for a in noisy:
        a.end()


def test_an_administrator_is_not_refused(fresh):
    cay = fresh()
    token = user(cay, "quiet")
    wait_until(lambda: any(m["metadata"]["name"] == "kube-root-ca.crt" for m in cay.api("GET", MAPS)["items"]))
    admin, asks = noise(cay, None, 3), quiet(cay, token)
    wait_until(lambda: served(admin) > 60 and served([asks]) > 20)
    for a in [*admin, asks]:
        a.end()
    assert not refused(admin) and set(asks.answers) == {200}
