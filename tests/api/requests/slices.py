# SPDX-License-Identifier: Apache-2.0
"""EndpointSlices and Endpoints: one odd field in each request."""

SLICES = "/apis/discovery.k8s.io/v1/namespaces/$NS/endpointslices"
ENDPOINTS = "/api/v1/namespaces/$NS/endpoints"


def slice_(fields, name="s"):
    body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": name}, "addressType": "IPv4", "endpoints": [], **fields}
    return {k: v for k, v in body.items() if v is not None}


def slices(*rows):
    return [{"name": name, "method": "POST", "path": SLICES + "?dryRun=All", "body": slice_(fields), "drop": ["metadata"]} for name, fields in rows]


def endpoint(kind="IPv4", **fields):
    return {"addressType": kind, "endpoints": [{"addresses": ["1.2.3.4" if kind == "IPv4" else "fd00::1" if kind == "IPv6" else "a.b"], **fields}]}


def subsets(*rows):
    return [{"name": name, "method": "POST", "path": ENDPOINTS + "?dryRun=All", "drop": ["metadata"],
             "body": {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}, "subsets": list(s)}} for name, s in rows]


def addresses(*values, ports=None):
    return {"addresses": [v if isinstance(v, dict) else {"ip": v} for v in values], **({"ports": ports} if ports else {})}


STORIES = {
    "slices": slices(
        ("good", endpoint()), ("no type", {"addressType": None}), ("type wrong", {"addressType": "IPv5"}), ("type name", endpoint("FQDN")), ("type v6", endpoint("IPv6")),
        ("no addresses", endpoint(addresses=[])), ("many addresses", endpoint(addresses=[f"10.0.0.{i}" for i in range(101)])),
        ("address bad", endpoint(addresses=["x"])), ("address of another family", endpoint(addresses=["fd00::1"])), ("v6 of another family", endpoint("IPv6", addresses=["1.2.3.4"])),
        ("address zeros", endpoint(addresses=["010.1.1.1"])), ("address loopback", endpoint(addresses=["127.0.0.1"])), ("address link local", endpoint(addresses=["169.254.0.1"])),
        ("address unspecified", endpoint(addresses=["0.0.0.0"])), ("address multicast", endpoint(addresses=["224.0.0.1"])), ("v6 loopback", endpoint("IPv6", addresses=["::1"])),
        ("v6 link local", endpoint("IPv6", addresses=["fe80::1"])), ("name bad", endpoint("FQDN", addresses=["a_b"])), ("name of one part", endpoint("FQDN", addresses=["a"])),
        ("name empty", endpoint("FQDN", addresses=[""])),
        ("host name bad", endpoint(hostname="A")), ("host name", endpoint(hostname="a")), ("node bad", endpoint(nodeName="A")), ("zone", endpoint(zone="z")),
        ("conditions", endpoint(conditions={"ready": True, "serving": False})), ("target", endpoint(targetRef={"kind": "Pod", "name": "p"})),
        ("hints", endpoint(hints={"forZones": [{"name": "a"}]})), ("hints twice", endpoint(hints={"forZones": [{"name": "a"}, {"name": "a"}]})),
        ("hints bad", endpoint(hints={"forZones": [{"name": "a b"}]})), ("hints many", endpoint(hints={"forZones": [{"name": f"z{i}"} for i in range(9)]})),
        ("hints of nodes", endpoint(hints={"forNodes": [{"name": "A"}]})), ("topology bad", endpoint(deprecatedTopology={"a b": "c"})),
        *((f"port {n}", {"ports": p}) for n, p in (
            ("good", [{"port": 80, "name": "a"}]), ("defaults", [{"port": 80}]), ("empty", [{}]), ("zero", [{"port": 0}]), ("large", [{"port": 70000}]),
            ("protocol wrong", [{"port": 1, "protocol": "x"}]), ("protocol empty", [{"port": 1, "protocol": ""}]), ("name bad", [{"port": 1, "name": "A"}]),
            ("name twice", [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]), ("unnamed twice", [{"port": 1}, {"port": 2}]),
            ("app protocol bad", [{"port": 1, "appProtocol": "a b"}]))),
    ),
    "change of a slice": [
        {"name": "create", "method": "POST", "path": SLICES, "body": slice_(endpoint(), "u"), "drop": ["metadata"]},
        {"name": "type", "method": "PUT", "path": SLICES + "/u?dryRun=All", "body": slice_(endpoint("IPv6"), "u")},
        {"name": "endpoints", "method": "PUT", "path": SLICES + "/u?dryRun=All", "body": slice_(endpoint(addresses=["1.2.3.5"]), "u"), "drop": ["metadata"]},
        {"name": "bad endpoints", "method": "PUT", "path": SLICES + "/u?dryRun=All", "body": slice_(endpoint(addresses=["1.2.3"]), "u")},
        {"name": "delete", "method": "DELETE", "path": SLICES + "/u", "see": ["status"]},
    ],
    "endpoints": subsets(
        ("none", []), ("good", [addresses("1.2.3.4", ports=[{"port": 80}])]), ("empty", [{}]), ("ports alone", [{"ports": [{"port": 1}]}]),
        ("no ip", [addresses({})]), ("ip bad", [addresses("x")]), ("ip loopback", [addresses("127.0.0.1")]), ("ip link local", [addresses("169.254.9.9")]),
        ("ip unspecified", [addresses("0.0.0.0")]), ("ip multicast", [addresses("224.0.0.9")]), ("ip zeros", [addresses("010.0.0.1")]), ("not ready", [{"notReadyAddresses": [{"ip": "x"}]}]),
        ("host name bad", [addresses({"ip": "1.2.3.4", "hostname": "A"})]), ("node bad", [addresses({"ip": "1.2.3.4", "nodeName": "A"})]),
        *((f"port {n}", [addresses("1.2.3.4", ports=p)]) for n, p in (
            ("zero", [{"port": 0}]), ("missing", [{"name": "a"}]), ("large", [{"port": 65536}]), ("protocol wrong", [{"port": 1, "protocol": "x"}]),
            ("name bad", [{"port": 1, "name": "A"}]), ("two unnamed", [{"port": 1}, {"port": 2}]), ("app protocol bad", [{"port": 1, "appProtocol": ""}]))),
    ),
}
