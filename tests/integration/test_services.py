# SPDX-License-Identifier: Apache-2.0
"""Services of real Pods: their names, their slices as kubectl shows them, and the ways to them."""

import re

import pytest
from cay_local import wait_until
from test_node_pods import CORE, create, pod

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
# Asks the name server in /etc/resolv.conf for records and prints one line for each question: the code, then the answers in order.
ASK = """
import socket, struct, sys
server = next(l.split()[1] for l in open('/etc/resolv.conf') if l.startswith('nameserver'))
types = {'A': 1, 'CNAME': 5, 'AAAA': 28, 'SRV': 33}
def name(wire, at):
    labels, after = [], None
    while wire[at]:
        if wire[at] >= 192:
            after = after or at + 2
            at = (wire[at] & 63) << 8 | wire[at + 1]
        else:
            labels.append(wire[at + 1:at + 1 + wire[at]].decode())
            at += 1 + wire[at]
    return '.'.join(labels) + '.', after or at + 1
for kind, asked in zip(sys.argv[1::2], sys.argv[2::2]):
    q = struct.pack('>6H', 7, 256, 1, 0, 0, 0) + b''.join(bytes([len(p)]) + p.encode() for p in asked.split('.')) + struct.pack('>B2H', 0, types[kind], 1)
    s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(60); s.sendto(q, (server, 53)); w = s.recv(2000)
    found, at = [], len(q)
    for _ in range(struct.unpack('>H', w[6:8])[0]):
        at = name(w, at)[1]
        t, _, _, n = struct.unpack('>2HIH', w[at:at + 10]); at += 10
        found.append({1: lambda: socket.inet_ntoa(w[at:at + 4]), 28: lambda: socket.inet_ntop(socket.AF_INET6, w[at:at + 16]), 5: lambda: name(w, at)[0],
                      33: lambda: '%d:%s' % (struct.unpack('>H', w[at + 4:at + 6])[0], name(w, at + 6)[0])}[t]())
        at += n
    print(w[3] & 15, *sorted(found))
"""


@pytest.fixture(scope="module")
def node(module_instance):
    cay = module_instance("--egress", "none")
    create(cay, pod("box", "sleep", "1000"))
    return cay


def ask(cay, *questions):
    """[(type, name below cluster.local)] → a line for each."""
    words = [word for kind, name in questions for word in (kind, f"{name}.cluster.local")]
    return cay.kubectl("exec", "box", "--", "python3", "-c", ASK, *words).stdout.splitlines()


def service(cay, name, **spec):
    return cay.api("POST", f"{CORE}/services", {"metadata": {"name": name}, "spec": spec})["spec"]


def labelled(name, app, *command, **more):
    body = pod(name, *command, **more)
    body["metadata"]["labels"] = {"app": app}
    return body


def slices(cay, name):
    return [s for s in cay.api("GET", SLICES)["items"] if s["metadata"]["labels"].get("kubernetes.io/service-name") == name]


def ready(cay, name):
    return {e["addresses"][0] for s in slices(cay, name) for e in s["endpoints"] or [] if e["conditions"].get("ready")}


def test_names_of_services_and_of_their_ports(node):
    ports = [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 5353, "protocol": "UDP"}]
    ip = create(node, labelled("web-0", "web", "sleep", "1000", container={"ports": ports}, hostname="first", subdomain="heads"))["status"]["podIP"]
    both = [{"name": "http", "port": 80, "targetPort": "http"}, {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"}]
    own = service(node, "web", selector={"app": "web"}, ports=both, ipFamilyPolicy="RequireDualStack")["clusterIPs"]
    service(node, "heads", selector={"app": "web"}, ports=both, clusterIP="None")
    service(node, "abroad", type="ExternalName", externalName="www.example.com")
    service(node, "alias", type="ExternalName", externalName="web.default.svc.cluster.local")
    service(node, "hand", clusterIP="None", ports=[{"name": "db", "port": 5432}])
    node.api("POST", SLICES, {"metadata": {"name": "hand-1", "labels": {"kubernetes.io/service-name": "hand"}}, "addressType": "IPv4",
                              "endpoints": [{"addresses": ["192.0.2.7"]}, {"addresses": ["192.0.2.8"], "conditions": {"ready": False}}],
                              "ports": [{"name": "db", "port": 5433}]})
    tail = "default.svc.cluster.local."
    rows = [
        ("A", "web.default.svc", f"0 {own[0]}"), ("AAAA", "web.default.svc", f"0 {own[1]}"),
        ("SRV", "_http._tcp.web.default.svc", f"0 80:web.{tail}"), ("SRV", "_dns._udp.web.default.svc", f"0 53:web.{tail}"),
        ("SRV", "web.default.svc", f"0 53:web.{tail} 80:web.{tail}"), ("A", "_http._tcp.web.default.svc", "0"),
        ("SRV", "_http._udp.web.default.svc", "3"), ("SRV", "_nope._tcp.web.default.svc", "3"), ("SRV", "http.tcp.web.default.svc", "3"),
        ("A", "heads.default.svc", f"0 {ip}"), ("SRV", "_http._tcp.heads.default.svc", f"0 8080:first.heads.{tail}"),
        ("SRV", "_dns._udp.heads.default.svc", f"0 5353:first.heads.{tail}"), ("A", "first.heads.default.svc", f"0 {ip}"),
        ("A", "abroad.default.svc", "0 www.example.com."), ("CNAME", "abroad.default.svc", "0 www.example.com."),
        ("A", "alias.default.svc", f"0 {own[0]} web.{tail}"), ("AAAA", "alias.default.svc", f"0 {own[1]} web.{tail}"),
        ("A", "hand.default.svc", "0 192.0.2.7"), ("SRV", "_db._tcp.hand.default.svc", f"0 5433:192-0-2-7.hand.{tail}"),
        ("A", "192-0-2-7.hand.default.svc", "0 192.0.2.7"), ("AAAA", "hand.default.svc", "0"), ("A", "nobody.default.svc", "3"),
    ]
    said = ask(node, *((kind, name) for kind, name, _ in rows))
    assert [(kind, name, line) for (kind, name, _), line in zip(rows, said)] == rows


def test_kubectl_exposes_a_pod_and_shows_where_it_leads(node):
    first = create(node, labelled("shop-0", "shop", "sleep", "1000"))["status"]["podIP"]
    node.kubectl("expose", "pod", "shop-0", "--name", "shop", "--port", "80", "--target-port", "8080")
    node.kubectl("create", "service", "nodeport", "gate", "--tcp", "80:8080")
    wait_until(lambda: ready(node, "shop") == {first})
    second = create(node, labelled("shop-1", "shop", "sleep", "1000"))["status"]["podIP"]
    wait_until(lambda: ready(node, "shop") == {first, second})
    shown = node.kubectl("get", "service", "shop", "gate", "--no-headers").stdout
    assert re.search(r"^shop +ClusterIP +10\.96\.\d+\.\d+ +<none> +80/TCP +\d", shown, re.M), shown
    assert re.search(r"^gate +NodePort +10\.96\.\d+\.\d+ +<none> +80:3[0-2]\d{3}/TCP +\d", shown, re.M), shown
    shown = node.kubectl("get", "endpointslices", "--no-headers").stdout
    pair = ",".join((first, second))
    assert re.search(rf"^shop-\w+ +IPv4 +8080 +{pair} +\d", shown, re.M), shown
    assert re.search(r"^gate-\w+ +IPv4 +<unset> +<unset> +\d", shown, re.M), shown
    node.kubectl("delete", "pod", "shop-1", "--grace-period=0", "--force")
    wait_until(lambda: ready(node, "shop") == {first})
    node.kubectl("delete", "service", "shop")
    wait_until(lambda: not slices(node, "shop"))
