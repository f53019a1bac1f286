# SPDX-License-Identifier: Apache-2.0
"""Services of real Pods: their names, their slices as kubectl shows them, and the ways to them."""

import json
import os
import random
import re
import socket
import subprocess
import threading
import urllib.request

import pytest
from cay_local import wait_until
from test_local_user import as_user
from test_node_pods import CORE, create, events, pod

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


def labelled(name, app, *command, role="none", **more):
    body = pod(name, *command, **more)
    body["metadata"]["labels"] = {"app": app, "role": role}
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
    shown = node.kubectl("get", "endpoints", "--no-headers").stdout
    assert re.search(rf"^shop +{first}:8080,{second}:8080 +\d", shown, re.M) and re.search(r"^gate +<none> +\d", shown, re.M), shown
    node.kubectl("delete", "pod", "shop-1", "--grace-period=0", "--force")
    wait_until(lambda: ready(node, "shop") == {first})
    node.kubectl("delete", "service", "shop")
    wait_until(lambda: not slices(node, "shop"))


# Says its name, then repeats what it hears, and ends when its caller does.
ECHO = """
import socket, socketserver, sys
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(socket.gethostname().encode() + b'\\n')
        while data := self.request.recv(65536):
            self.request.sendall(data)
        self.request.shutdown(socket.SHUT_WR)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True; request_queue_size = 128
Server(('0.0.0.0', 8080), Echo).serve_forever()
"""
PROBE = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}


def echo(name, app):
    return labelled(name, app, "python3", "-c", ECHO, container={"readinessProbe": PROBE})


def visit(port, host="127.0.0.1", send=b"", source=None):
    """Who answered, and what came back."""
    with socket.create_connection((host, port), timeout=60, source_address=source and (source, 0)) as s:
        writer = threading.Thread(target=lambda: (s.sendall(send), s.shutdown(socket.SHUT_WR)))
        writer.start()
        heard = b"".join(iter(lambda: s.recv(65536), b""))
        writer.join()
    name, _, rest = heard.partition(b"\n")
    return name.decode(), rest


def answers(port, **more):
    try:
        return visit(port, **more)[0]
    except OSError:
        return ""


def listeners(port):
    out = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True, check=True).stdout
    return sorted(line.split()[3] for line in out.splitlines())


@pytest.fixture(scope="module")
def echoes(node):
    """Two Pods that answer, and a Service with a node port in front of them."""
    for name in ("echo-0", "echo-1"):
        create(node, echo(name, "echo"))
    port = service(node, "echo", type="NodePort", selector={"app": "echo"}, ports=[{"port": 80, "targetPort": 8080}])["ports"][0]["nodePort"]
    wait_until(lambda: len(ready(node, "echo")) == 2)
    wait_until(lambda: listeners(port))
    return port


def test_a_node_port_leads_to_ready_pods_from_loopback_alone(node, echoes):
    assert listeners(echoes) == sorted([f"127.0.0.1:{echoes}", f"[::1]:{echoes}"])
    seen = set()
    wait_until(lambda: seen.add(answers(echoes)) or seen >= {"echo-0", "echo-1"})
    assert seen == {"echo-0", "echo-1"}
    assert answers(echoes, host="::1") in seen
    much = os.urandom(1 << 20) * 8
    assert visit(echoes, send=much)[1] == much
    node.kubectl("label", "pod", "echo-1", "app=other", "--overwrite")
    wait_until(lambda: len(ready(node, "echo")) == 1)
    assert {answers(echoes) for _ in range(12)} == {"echo-0"}
    node.kubectl("label", "pod", "echo-1", "app=echo", "--overwrite")
    wait_until(lambda: len(ready(node, "echo")) == 2)


def test_a_client_stays_with_its_pod_if_the_service_says_so(node, echoes):
    port = service(node, "sticky", type="NodePort", selector={"app": "echo"}, sessionAffinity="ClientIP",
                   ports=[{"port": 80, "targetPort": 8080}])["ports"][0]["nodePort"]
    wait_until(lambda: len(ready(node, "sticky")) == 2 and listeners(port))
    assert {answers(port) for _ in range(12)} in ({"echo-0"}, {"echo-1"})
    assert {answers(port, source=f"127.0.0.{n}") for n in range(2, 42)} == {"echo-0", "echo-1"}


def test_a_node_port_ends_with_its_service(node, echoes):
    port = service(node, "brief", type="NodePort", selector={"app": "echo"}, ports=[{"port": 80, "targetPort": 8080}])["ports"][0]["nodePort"]
    wait_until(lambda: answers(port))
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        assert s.recv(100)
        node.api("PATCH", f"{CORE}/services/brief", {"spec": {"type": "ClusterIP"}}, content_type="application/merge-patch+json")
        assert s.recv(100) == b"", "a connection outlived its port"
    assert not listeners(port)


def test_a_port_of_another_program_is_told_and_tried_again(node, echoes):
    with socket.socket() as taken:
        for port in random.sample(range(30000, 32768), 2768):
            try:
                taken.bind(("127.0.0.1", port))
                break
            except OSError:
                continue
        taken.listen()
        service(node, "late", type="NodePort", selector={"app": "echo"}, ports=[{"port": 80, "targetPort": 8080, "nodePort": port}])
        service(node, "datagrams", type="NodePort", selector={"app": "echo"}, ports=[{"port": 53, "protocol": "UDP"}])
        wait_until(lambda: "TCP alone" in events(node, "datagrams").get("NodePortNotOpen", ""))
        wait_until(lambda: "NodePortNotOpen" in events(node, "late"))
        assert str(port) in events(node, "late")["NodePortNotOpen"]
        assert not listeners(port)[1:]
    node.kubectl("annotate", "service", "late", "look=again")  # or ten seconds
    wait_until(lambda: answers(port))


def test_another_user_of_the_machine_does_not_get_in(node, echoes):
    connect = """
import socket
s = socket.create_connection(('127.0.0.1', port), timeout=20)
try:
    print(s.recv(100).decode().strip() or 'closed')
except ConnectionResetError:
    print('closed')
"""
    assert answers(echoes)
    assert as_user(connect, port=echoes) == "closed"

    def recorded():
        with open(f"{node.data_dir}/audit.log") as log:
            return [line for line in map(json.loads, log) if line.get("subresource") == "nodeport" and line["name"] == "echo" and line["port"] == echoes]
    refused = wait_until(lambda: next((line for line in recorded() if line.get("note") == "forbidden"), None))
    assert refused["user"].startswith("uid ") and refused["user"] != "uid 0 of this machine" and "pod" not in refused
    entered = wait_until(lambda: next((line for line in recorded() if "note" not in line), None))
    assert entered["user"] == "uid 0 of this machine" and entered["verb"] == "connect" and entered["resource"] == "services"
    assert entered["namespace"] == "default" and entered["pod"] in ("echo-0", "echo-1") and entered["sent"] > 0


def test_an_endpoint_must_be_a_pod_of_the_services_own_namespace(node, echoes):
    """Whoever may write slices could aim the daemon at any address: another tenant's Pod, or the host's own network."""
    node.api("POST", "/api/v1/namespaces", {"metadata": {"name": "foe"}})
    made = node.api("POST", "/api/v1/namespaces/foe/services", {"metadata": {"name": "aim"}, "spec": {
        "type": "NodePort", "ports": [{"port": 80, "targetPort": 8080}]}})
    port = made["spec"]["ports"][0]["nodePort"]
    mine = labelled("echo-0", "mine", "sleep", "1000")
    node.api("POST", "/api/v1/namespaces/foe/pods", mine)
    victim = next(iter(ready(node, "echo")))
    for name, ref in (("plain", None), ("named", {"kind": "Pod", "name": "echo-0", "namespace": "default"}), ("own", {"kind": "Pod", "name": "echo-0"})):
        node.api("POST", "/apis/discovery.k8s.io/v1/namespaces/foe/endpointslices", {
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": "aim", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
            "addressType": "IPv4", "endpoints": [dict({"addresses": [victim], "conditions": {"ready": True}}, **({"targetRef": ref} if ref else {}))],
            "ports": [{"name": "", "port": 8080}]})
    wait_until(lambda: listeners(port))
    assert {answers(port) for _ in range(10)} == {""}
    node.api("DELETE", "/api/v1/namespaces/foe")


def test_the_ports_of_the_daemon_are_not_taken_by_services(node):
    """Not even by those that had them before it was started there."""
    named = {name: service(node, name, type="NodePort", ports=[{"port": 80}])["ports"][0]["nodePort"] for name in ("like-api", "like-router")}
    wait_until(lambda: all(listeners(port) for port in named.values()))
    node.stop()
    node.port, node.router_port = named.values()
    node.start()
    for name, port in named.items():
        wait_until(lambda: str(port) in events(node, name).get("NodePortNotOpen", ""))
        assert listeners(port) == [f"127.0.0.1:{port}"]
    with urllib.request.urlopen(f"http://127.0.0.1:{node.router_port}/healthz", timeout=60) as answer:
        assert answer.status == 200


# -- addresses of Services, between sandboxes -----------------------------------------------------------------------------------------

# Says its name over TCP at 8080 and over UDP at 5353.
TWO_WAYS = """
import socket, socketserver, threading
name = socket.gethostname().encode()
class Say(socketserver.BaseRequestHandler):
    def handle(self): self.request.sendall(name)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True; address_family = socket.AF_INET6
def datagrams():
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 5353))
    while True:
        try: s.sendto(name, s.recvfrom(100)[1])
        except OSError: pass  # the rules changed between the two
threading.Thread(target=datagrams, daemon=True).start()
Server(('::', 8080), Say).serve_forever()
"""
# For each "tcp IP PORT", what it says; "refused", or "silent".
CALL = """
import socket, sys
def call(how, ip, port):
    s = socket.socket(socket.AF_INET6 if ':' in ip else socket.AF_INET, socket.SOCK_STREAM if how == 'tcp' else socket.SOCK_DGRAM)
    s.settimeout(float(sys.argv[1]))
    try:
        s.connect((ip, int(port)))
        if how == 'udp': s.send(b'x')
        return s.recv(100).decode() or 'ended'
    except ConnectionRefusedError:
        return 'refused'
    except OSError:
        return 'silent'
print(*(call(*what.split(' ')) for what in sys.argv[2:]))
"""


def call(cay, name, *what, timeout=1):
    return cay.kubectl("exec", name, "--", "python3", "-c", CALL, str(timeout), *what).stdout.split()


def let(cay, name, selector, direction, peer, **more):
    rule = {"Egress": {"egress": [{"to": [peer], **more}]}, "Ingress": {"ingress": [{"from": [peer], **more}]}}[direction]
    cay.api("POST", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", {
        "metadata": {"name": name}, "spec": {"podSelector": selector, "policyTypes": [direction], **rule}})


@pytest.fixture(scope="module")
def town(module_instance):
    """Two Pods behind a Service, one that may reach them, and one that may not."""
    cay = module_instance()
    client, server = ({"matchLabels": {"role": role}} for role in ("client", "server"))
    let(cay, "out", client, "Egress", {"podSelector": server})
    let(cay, "in", server, "Ingress", {"podSelector": client})
    for name in ("one", "two"):
        create(cay, labelled(name, "server", "python3", "-c", TWO_WAYS, role="server", container={"readinessProbe": PROBE}))
    create(cay, labelled("client", "client", "sleep", "1000", role="client"))
    create(cay, labelled("stranger", "stranger", "sleep", "1000"))
    ports = [{"name": "tcp", "port": 80, "targetPort": 8080}, {"name": "udp", "port": 53, "protocol": "UDP", "targetPort": 5353}]
    both = service(cay, "pair", selector={"app": "server"}, ports=ports, ipFamilyPolicy="RequireDualStack")["clusterIPs"]
    same = service(cay, "same", selector={"app": "server"}, ports=ports, sessionAffinity="ClientIP")["clusterIP"]
    return cay, both, same


def test_the_address_of_a_service_leads_to_its_pods_where_policies_let_it(town):
    cay, both, same = town
    for ip in both:
        tcp, udp = f"tcp {ip} 80", f"udp {ip} 53"
        wait_until(lambda: set(call(cay, "client", *[tcp] * 8, *[udp] * 8)) == {"one", "two"})
        assert call(cay, "client", f"tcp {ip} 81", f"tcp {ip} 8080") == ["silent"] * 2
        assert call(cay, "stranger", tcp, udp) == ["silent"] * 2
    stay = [f"tcp {same} 80"] * 10
    wait_until(lambda: "silent" not in call(cay, "client", *stay[:1]))
    assert len(set(call(cay, "client", *stay))) == 1


def test_a_pod_that_is_not_ready_gets_no_new_connections_and_a_service_without_any_refuses(town):
    cay, both, _ = town
    tcp = [f"tcp {ip} 80" for ip in both]
    cay.kubectl("label", "pod", "one", "app=away", "--overwrite")
    wait_until(lambda: set(call(cay, "client", *tcp * 3)) == {"two"})
    cay.kubectl("label", "pod", "two", "app=away", "--overwrite")
    wait_until(lambda: call(cay, "client", *tcp) == ["refused"] * 2)
    assert call(cay, "client", *tcp * 20) == ["refused"] * 40
    for ip in both:  # of these, the kernel sends few a second
        wait_until(lambda: call(cay, "client", f"udp {ip} 53") == ["refused"])
    for name in ("one", "two"):
        cay.kubectl("label", "pod", name, "app=server", "--overwrite")
    wait_until(lambda: set(call(cay, "client", *tcp * 8)) == {"one", "two"})


def test_the_filter_inside_knows_the_services_that_lead_to_its_peers(town):
    """Or to the sandbox itself, and no others."""
    cay, (ip, _), same = town
    other = service(cay, "other", selector={"app": "stranger"}, ports=[{"port": 80}])["clusterIP"]
    wait_until(lambda: ready(cay, "other"))

    def opened(name):
        pid = next(i["name"].split()[0] for i in cay.census()[0] if i["type"] == "process" and i["owner"] == f"default/{name}")
        return subprocess.run(["nsenter", "-t", pid, "-n", "nft", "list", "set", "inet", "cay", "peers_out"], capture_output=True, text=True, check=True).stdout

    wait_until(lambda: ip in opened("client") and same in opened("client"))
    assert other not in opened("client")
    wait_until(lambda: other in opened("stranger"))
    assert ip not in opened("stranger") and same not in opened("stranger")
    assert ip in opened("one") and same in opened("one") and other not in opened("one")


def behind_itself(cay, name, role="none"):
    """A Pod that is alone behind a Service of both families: what it has to call to reach itself."""
    create(cay, labelled(name, name, "python3", "-c", TWO_WAYS, role=role, container={"readinessProbe": PROBE}))
    ports = [{"name": "tcp", "port": 80, "targetPort": 8080}, {"name": "udp", "port": 53, "protocol": "UDP", "targetPort": 5353}]
    ips = service(cay, name, selector={"app": name}, ports=ports, ipFamilyPolicy="RequireDualStack")["clusterIPs"]
    wait_until(lambda: len(ready(cay, name)) == 2)
    return [what for ip in ips for what in (f"tcp {ip} 80", f"udp {ip} 53")]


def test_a_pod_reaches_itself_through_its_own_service(fresh):
    """Without any policy, and where policies let it reach others alone; nobody else gets any further by it."""
    cay = fresh()
    ways = behind_itself(cay, "alone")
    create(cay, labelled("stranger", "stranger", "sleep", "1000"))
    wait_until(lambda: call(cay, "alone", *ways) == ["alone"] * 4)
    assert call(cay, "stranger", *ways) == ["silent"] * 4
    client, server = ({"matchLabels": {"role": role}} for role in ("client", "server"))
    let(cay, "out", client, "Egress", {"podSelector": server}, ports=[{"port": 8080}])
    let(cay, "in", server, "Ingress", {"podSelector": client}, ports=[{"port": 8080}])
    let(cay, "shut", client, "Ingress", {"podSelector": server}, ports=[{"port": 1}])
    caged, served = behind_itself(cay, "caged", role="client"), behind_itself(cay, "server", role="server")
    wait_until(lambda: call(cay, "caged", *caged, *served[::2]) == ["caged"] * 4 + ["server"] * 2)
    wait_until(lambda: call(cay, "server", *served) == ["server"] * 4)
    assert call(cay, "caged", *served[1::2], *ways) == ["silent"] * 6
    assert call(cay, "alone", *ways, *caged, *served) == ["alone"] * 4 + ["silent"] * 8
    assert call(cay, "server", *ways, *caged) == ["silent"] * 8


def test_a_pod_is_called_by_itself_from_an_address_of_nobody(fresh):
    """One that leads nowhere, from whichever sandbox."""
    cay = fresh()
    who = TWO_WAYS.replace("sendall(name)", "sendall(self.client_address[0].encode())")
    ways = behind_itself(cay, "alone")
    create(cay, labelled("mirror", "mirror", "python3", "-c", who, container={"readinessProbe": PROBE}))
    ips = service(cay, "mirror", selector={"app": "mirror"}, ports=[{"port": 80, "targetPort": 8080}], ipFamilyPolicy="RequireDualStack")["clusterIPs"]
    wait_until(lambda: len(ready(cay, "mirror")) == 2)
    seen = []
    wait_until(lambda: seen.append(call(cay, "mirror", *[f"tcp {ip} 80" for ip in ips])) or not {"silent", "refused"} & set(seen[-1]))
    seen = [ip.removeprefix("::ffff:") for ip in seen[-1]]
    assert seen[0].endswith(".0") and seen[1].endswith("::"), seen
    wait_until(lambda: call(cay, "alone", *ways) == ["alone"] * 4)
    assert call(cay, "alone", *[f"{how} {ip} {port}" for ip in seen for how, port in (("tcp", 8080), ("udp", 5353))]) == ["refused", "silent"] * 2


# As CALL does for UDP, but always from the same port: for the kernel, it is one flow.
FLOW = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 4000)); s.settimeout(1)
try:
    s.connect((sys.argv[1], 53)); s.send(b'x'); print(s.recv(100).decode())
except OSError:
    print('silent')
"""


def test_datagrams_of_a_flow_go_to_another_pod_when_theirs_leaves(town):
    cay, _, _ = town
    for name in ("flow-0", "flow-1"):
        create(cay, labelled(name, "flow", "python3", "-c", TWO_WAYS, role="server", container={"readinessProbe": PROBE}))
    ips = service(cay, "flow", selector={"app": "flow"}, ports=[{"port": 53, "protocol": "UDP", "targetPort": 5353}], ipFamilyPolicy="RequireDualStack")["clusterIPs"]
    wait_until(lambda: len(ready(cay, "flow")) == 4)

    def flow(ip):
        return cay.kubectl("exec", "client", "--", "python3", "-c", FLOW, ip).stdout.strip()

    def leave_and_come(name):
        cay.kubectl("label", "pod", name, "app=away", "--overwrite")  # it would answer still
        yield
        cay.kubectl("label", "pod", name, "app=flow", "--overwrite")
        wait_until(lambda: len(ready(cay, "flow")) == 4)

    for ip in ips:
        wait_until(lambda: flow(ip) in ("flow-0", "flow-1"))
        first = flow(ip)
        other = {"flow-0": "flow-1", "flow-1": "flow-0"}[first]
        for _ in leave_and_come(first):
            wait_until(lambda: flow(ip) == other)
        assert {flow(ip) for _ in range(8)} == {other}, "a flow whose Pod is still there moved"
    cay.kubectl("delete", "pod", other, "--grace-period=0", "--force")
    wait_until(lambda: flow(ip) == first)
