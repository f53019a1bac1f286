# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicies: one odd field in each request, which none of them stores."""

POLICIES = "/apis/networking.k8s.io/v1/namespaces/$NS/networkpolicies"


def policy(spec, name="p"):
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


def create(name, spec):
    return {"name": name, "method": "POST", "path": POLICIES + "?dryRun=All", "body": policy({"podSelector": {}, **spec}), "drop": ["metadata"]}


def specs(*rows):
    return [create(name, spec) for name, spec in rows]


def both(rows, member, peers):
    """Each row in a rule of both directions."""
    out = []
    for name, value in rows:
        for way, peer in (("ingress", "from"), ("egress", "to")):
            key = peer if member == "peers" else member
            out.append(create(f"{way} {name}", {way: [{key: value}]}))
    return out if peers else out[::2] + out[1::2]


PEERS = (
    ("nothing", [{}]), ("pods", [{"podSelector": {"matchLabels": {"a": "b"}}}]), ("all pods", [{"podSelector": {}}]), ("namespaces", [{"namespaceSelector": {}}]),
    ("pods of namespaces", [{"podSelector": {}, "namespaceSelector": {"matchLabels": {"a": "b"}}}]),
    ("bad label", [{"podSelector": {"matchLabels": {"a b": "c"}}}]), ("bad value", [{"podSelector": {"matchLabels": {"a": "b c"}}}]),
    ("bad operator", [{"podSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]),
    ("no values", [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}]),
    ("values of exists", [{"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}}]),
    ("expression without key", [{"podSelector": {"matchExpressions": [{"operator": "Exists"}]}}]),
    ("block", [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}]), ("block v6", [{"ipBlock": {"cidr": "fd00::/8", "except": ["fd00:1::/32"]}}]),
    ("block without cidr", [{"ipBlock": {}}]), ("block bad", [{"ipBlock": {"cidr": "10.0.0.0"}}]), ("block too long", [{"ipBlock": {"cidr": "10.0.0.0/33"}}]),
    ("block bits", [{"ipBlock": {"cidr": "10.0.0.1/8"}}]), ("block zeros", [{"ipBlock": {"cidr": "010.0.0.0/8"}}]), ("block prefix zeros", [{"ipBlock": {"cidr": "10.0.0.0/08"}}]),
    ("block mapped", [{"ipBlock": {"cidr": "::ffff:10.0.0.0/104"}}]), ("block everything", [{"ipBlock": {"cidr": "0.0.0.0/0"}}]), ("block word", [{"ipBlock": {"cidr": "x"}}]),
    ("except bad", [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["x"]}}]), ("except outside", [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}]),
    ("except same", [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}}]), ("except wider", [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["0.0.0.0/0"]}}]),
    ("except of another family", [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["fd00::/16"]}}]), ("except two", [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "y"]}}]),
    ("block and pods", [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]), ("bad block and pods", [{"ipBlock": {"cidr": "x"}, "namespaceSelector": {}}]),
)
PORTS = (
    ("port", [{"port": 80}]), ("port name", [{"port": "http"}]), ("port bad name", [{"port": "Http"}]), ("port zero", [{"port": 0}]), ("port large", [{"port": 65536}]),
    ("port protocol", [{"port": 80, "protocol": "UDP"}]), ("port bad protocol", [{"port": 80, "protocol": "ICMP"}]), ("protocol alone", [{"protocol": "SCTP"}]),
    ("range", [{"port": 80, "endPort": 90}]), ("range of one", [{"port": 80, "endPort": 80}]), ("range backwards", [{"port": 80, "endPort": 70}]),
    ("range too large", [{"port": 80, "endPort": 70000}]), ("range of a name", [{"port": "http", "endPort": 90}]), ("range without port", [{"endPort": 90}]),
    ("range zero", [{"port": 80, "endPort": 0}]), ("no port", [{}]), ("port empty", [{"port": ""}]),
)

STORIES = {
    "spec": specs(
        ("empty", {}), ("selector", {"podSelector": {"matchLabels": {"a": "b"}}}), ("selector bad", {"podSelector": {"matchLabels": {"a b": "c"}}}),
        ("selector expression", {"podSelector": {"matchExpressions": [{"key": "a", "operator": "x", "values": ["b c"]}]}}),
        ("types", {"policyTypes": ["Ingress", "Egress"]}), ("types wrong", {"policyTypes": ["Both"]}), ("types three", {"policyTypes": ["Ingress", "Egress", "Ingress"]}),
        ("types twice", {"policyTypes": ["Ingress", "Ingress"]}), ("egress alone", {"egress": [{}]}), ("egress empty", {"egress": []}), ("ingress empty", {"ingress": []}),
        ("rule empty", {"ingress": [{}]}), ("type without rules", {"policyTypes": ["Egress"]}),
    ) + [{"name": "no spec", "method": "POST", "path": POLICIES + "?dryRun=All", "drop": ["metadata"],
          "body": {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}}}],
    "peers": both(PEERS, "peers", True),
    "ports": both(PORTS, "ports", False),
    "updates": [
        {"name": "create", "method": "POST", "path": POLICIES, "body": policy({"podSelector": {}}, "u"), "drop": ["metadata"]},
        {"name": "good", "method": "PUT", "path": POLICIES + "/u?dryRun=All", "body": policy({"podSelector": {}, "ingress": [{"ports": [{"port": 1}]}]}, "u"), "drop": ["metadata"]},
        {"name": "bad", "method": "PUT", "path": POLICIES + "/u?dryRun=All", "body": policy({"podSelector": {}, "ingress": [{"ports": [{"port": 0}]}]}, "u")},
        {"name": "delete", "method": "DELETE", "path": POLICIES + "/u", "see": ["status"]},
    ],
}
