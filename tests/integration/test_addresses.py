# SPDX-License-Identifier: Apache-2.0
"""IPAddresses and the ServiceCIDR: what clients see of the addresses that Services have, also after kill -9."""

import http.client
import threading

from cay_local import AGENTS, Cay, wait_until

SERVICES = "/api/v1/namespaces/default/services"
BASE = "/apis/networking.k8s.io/v1"
IPS, CIDRS = BASE + "/ipaddresses", BASE + "/servicecidrs"


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def held(cay):
    """Every address that a Service has, with the Service."""
    return {ip: s["metadata"]["name"] for s in cay.api("GET", "/api/v1/services")["items"] for ip in s["spec"].get("clusterIPs", []) if ip != "None"}


def recorded(cay):
    return {i["metadata"]["name"]: i["spec"]["parentRef"]["name"] for i in cay.api("GET", IPS)["items"]}


def write_until_dead(cay, lane):
    c = Cay.__new__(Cay)
    c.__dict__.update(cay.__dict__, _conn=None)
    for i in range(10_000):
        try:
            c.api("POST", SERVICES, service(f"s-{lane}-{i}", ipFamilyPolicy="PreferDualStack"))
            if i % 2:
                c.api("DELETE", f"{SERVICES}/s-{lane}-{i - 1}")
        except (OSError, http.client.HTTPException, ValueError):
            return


def test_addresses_are_recorded_whenever_the_server_is_killed(fresh):
    cay = fresh()
    for round_ in range(4):
        lanes = [threading.Thread(target=write_until_dead, args=(cay, f"{round_}-{i}")) for i in range(3)]
        for lane in lanes:
            lane.start()
        goal = len(held(cay)) + 10
        wait_until(lambda: len(held(cay)) >= goal)
        cay.kill()
        for lane in lanes:
            lane.join()
        cay.start()
        assert recorded(cay) == held(cay) != {}


def test_kubectl_shows_addresses_and_blocks(fresh):
    cay = fresh("--service-cidr", "10.77.0.0/24,fd00:77::/112")
    cay.api("POST", SERVICES, service("web", clusterIP="10.77.0.9"))
    assert cay.kubectl("get", "servicecidr", "--no-headers").stdout.split()[:2] == ["kubernetes", "10.77.0.0/24,fd00:77::/112"]
    assert cay.kubectl("get", "ip", "10.77.0.9", "--no-headers").stdout.split() == ["10.77.0.9", "services/default/web"]
    labels = cay.kubectl("get", "ipaddress", "10.77.0.9", "--show-labels", "--no-headers").stdout
    assert "ipaddress.kubernetes.io/ip-family=IPv4" in labels  # kubectl 1.32 describes v1beta1, which a kube-apiserver 1.36 has not either
    assert "parentRef" in cay.kubectl("explain", "ipaddress.spec").stdout
    assert "cidrs" in cay.kubectl("explain", "servicecidrs.spec").stdout
    cay.kubectl("wait", "--for=condition=Ready", "servicecidr/kubernetes", "--timeout=10s")


def test_the_service_of_a_sandbox_has_no_address(fresh):
    cay = fresh()
    cay.api("POST", f"{AGENTS}/namespaces/default/sandboxes", {"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": {"name": "box"}, "spec": {
        "service": True, "podTemplate": {"spec": {"containers": [{"name": "main", "image": "host", "command": ["sleep", "infinity"]}]}}}})
    cay.wait_ready(f"{AGENTS}/namespaces/default/sandboxes", "box")
    assert cay.api("GET", f"{SERVICES}/box")["spec"]["clusterIP"] == "None"
    assert "box" not in recorded(cay).values() and recorded(cay) == held(cay)
