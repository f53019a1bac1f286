# SPDX-License-Identifier: Apache-2.0
"""IPAddresses, which record the addresses of Services, and ServiceCIDRs, which are the blocks they come from."""
from shapes import APPLY, JSON_PATCH, SERVICE, STRATEGIC, TABLE, Kind, delete, get, patch, post, put

BASE = "/apis/networking.k8s.io/v1"
REF = {"group": "example.com", "resource": "gateways", "namespace": "$NS", "name": "g"}
IP = Kind(BASE, "ipaddresses", "IPAddress", {"spec": {"parentRef": REF}}, namespaced=False)
CIDR = Kind(BASE, "servicecidrs", "ServiceCIDR", {"spec": {"cidrs": ["10.200.0.0/24"]}}, namespaced=False)
MINE = "10.96.201.7"
HELD = "10.96.201.8"  # by a Service
WANTED = {"ports": [{"port": 80}], "clusterIP": HELD}


def try_ip(name, ref=REF, ip=MINE, **rest):
    return post(name, IP.path + "?dryRun=All", IP.object(ip, spec={} if ref is None else {"parentRef": ref}, **rest))


def ref(**changes):
    return {k: v for k, v in dict(REF, **changes).items() if v is not None}


def try_cidr(name, *cidrs, **rest):
    return post(name, CIDR.path + "?dryRun=All", CIDR.object("blocks", spec={"cidrs": list(cidrs)}, **rest))


STORIES = {
    "kinds": [get("addresses", BASE, see=["resources.name=ipaddresses"]), get("blocks", BASE, see=["resources.name=servicecidrs"]),
              get("status of blocks", BASE, see=["resources.name=servicecidrs/status"]), get("status of addresses", BASE, see=["resources.name=ipaddresses/status"])],
    "life of an address": [
        post("create", IP.path, IP.object(MINE)),
        post("again", IP.path, IP.object(MINE)),
        get("get", IP.at(MINE)),
        get("list", IP.path + f"?fieldSelector=metadata.name%3D{MINE}", drop=["metadata"]),
        get("as a table", IP.at(MINE), accept=TABLE, see=["kind", "columnDefinitions", "rows.0.cells.0", "rows.0.cells.1"]),
        put("the same", IP.at(MINE), IP.object(MINE)),
        put("labels", IP.at(MINE), IP.object(MINE, metadata={"labels": {"a": "b"}})),
        put("another owner", IP.at(MINE), IP.object(MINE, spec={"parentRef": ref(name="h")})),
        put("no owner", IP.at(MINE), IP.object(MINE, spec={})),
        patch("an annotation", IP.at(MINE), {"metadata": {"annotations": {"x": "y"}}}),
        patch("an owner", IP.at(MINE), {"spec": {"parentRef": {"name": "h"}}}),
        patch("a label, strategic", IP.at(MINE), {"metadata": {"labels": {"c": "d"}}}, type=STRATEGIC),
        patch("no label", IP.at(MINE), [{"op": "remove", "path": "/metadata/labels/a"}], type=JSON_PATCH),
        put("of another name", IP.at(MINE), IP.object(HELD)),
        put("one that is not there", IP.at("10.96.201.9"), IP.object("10.96.201.9")),
        get("no status", IP.at(MINE, "status")),
        post("a service that wants it", SERVICE.path, SERVICE.object("late", spec={"ports": [{"port": 80}], "clusterIP": MINE})),
        delete("delete", IP.at(MINE)),
        get("gone", IP.at(MINE)),
        delete("again gone", IP.at(MINE)),
    ],
    "names of addresses": [try_ip(name, ip=ip) for name, ip in {
        "words": "address", "leading zeros": "10.96.201.007", "a block": "10.96.201.0/24", "v6": "2001:db8::5", "v6, long": "2001:db8:0:0:0:0:0:5",
        "v6, upper case": "2001:DB8::5", "v4 as v6": "::ffff:10.96.201.7", "any": "0.0.0.0", "short": "10.96.1", "percent": "fe80::1%eth0"}.items()],
    "owners of addresses": [
        try_ip("none", None), try_ip("empty", {}), try_ip("no resource", ref(resource=None)), try_ip("no name", ref(name=None)),
        try_ip("no namespace", ref(namespace=None)), try_ip("no group", ref(group=None)), try_ip("a bad group", ref(group="A_B")),
        try_ip("a bad resource", ref(resource="a/b")), try_ip("a dotted resource", ref(resource="..")), try_ip("a bad name", ref(name="a%b/c")),
        try_ip("a bad namespace", ref(namespace="a/b")), try_ip("all bad", {"group": "-", "resource": ".", "name": "..", "namespace": "%"}),
        try_ip("text", "x"), try_ip("unknown", dict(REF, uid="u"))],
    "address of a service": [
        post("a service", SERVICE.path, SERVICE.object("held", spec=WANTED)),
        get("its address", IP.at(HELD)),
        get("by label", IP.path + "?labelSelector=ipaddress.kubernetes.io%2Fip-family%3DIPv4,ipaddress.kubernetes.io%2Fmanaged-by%3Dipallocator.k8s.io"
            f"&fieldSelector=metadata.name%3D{HELD}", drop=["metadata"]),
        get("as a table", IP.at(HELD), accept=TABLE, see=["rows.0.cells.0", "rows.0.cells.1"]),
        post("the same address", IP.path, IP.object(HELD)),
        post("another service", SERVICE.path, SERVICE.object("twin", spec=WANTED)),
        patch("another owner", IP.at(HELD), {"spec": {"parentRef": {"name": "twin"}}}),
        patch("a label", IP.at(HELD), {"metadata": {"labels": {"a": "b"}}}),
        delete("its end alone, tried", IP.at(HELD) + "?dryRun=All", see=["kind"]),
        patch("a name of somebody else's", SERVICE.at("held"), {"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": None, "clusterIPs": None}}),
        get("is given back", IP.at(HELD)),
        patch("an address again", SERVICE.at("held"), {"spec": {"type": "ClusterIP", "externalName": None, "clusterIP": HELD}}),
        get("is taken again", IP.at(HELD)),
        post("only tried", SERVICE.path + "?dryRun=All", SERVICE.object("dry", spec=dict(WANTED, clusterIP="10.96.201.10"))),
        get("of one that was tried", IP.at("10.96.201.10")),
        delete("the service", SERVICE.at("held"), see=["kind"]),
        get("is gone with it", IP.at(HELD)),
        post("headless", SERVICE.path, SERVICE.object("headless"), see=["spec.clusterIP"]),
        get("None", IP.at("None")),
    ],
    "blocks": [
        try_cidr("one", "10.200.0.0/24"), try_cidr("both", "10.200.0.0/24", "2001:db8::/108"), try_cidr("none"),
        try_cidr("three", "10.200.0.0/24", "2001:db8::/108", "10.201.0.0/24"), try_cidr("two of one family", "10.200.0.0/24", "10.201.0.0/24"),
        try_cidr("an address", "10.200.0.0"), try_cidr("words", "block"), try_cidr("bits behind", "10.200.0.5/24"), try_cidr("leading zeros", "010.200.0.0/24"),
        try_cidr("long v6", "2001:db8:0:0::/64"), try_cidr("twice", "10.200.0.0/24", "10.200.0.0/24"), try_cidr("bad and good", "x", "10.200.0.0/24"),
        post("no spec", CIDR.path + "?dryRun=All", {"metadata": {"name": "blocks"}}), try_cidr("a bad name", "10.200.0.0/24", metadata={"name": "A_B"}),
        post("text", CIDR.path + "?dryRun=All", CIDR.object("blocks", spec={"cidrs": "10.200.0.0/24"})),
    ],
    "the blocks of this server": [
        get("get", CIDR.at("kubernetes"), drop=["metadata.finalizers", "spec.cidrs"]),
        get("as a table", CIDR.at("kubernetes"), accept=TABLE, see=["kind", "columnDefinitions", "rows.0.cells.0"]),
        get("status", CIDR.at("kubernetes", "status"), see=["status"]),
        post("again", CIDR.path, CIDR.object("kubernetes")),
        patch("another block", CIDR.at("kubernetes"), {"spec": {"cidrs": ["10.200.0.0/24", "2001:db8::/108", "10.201.0.0/24"]}}, see=["code"]),
        patch("no blocks", CIDR.at("kubernetes"), {"spec": None}),
        patch("a label", CIDR.at("kubernetes") + "?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, see=["metadata.labels"]),
        patch("a label, applied", CIDR.at("kubernetes") + "?dryRun=All&fieldManager=m", '{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR",'
              '"metadata":{"name":"kubernetes","labels":{"a":"b"}}}', type=APPLY, see=["metadata.labels"]),
        get("another", CIDR.at("not-there")),
        delete("only tried", CIDR.at("kubernetes") + "?dryRun=All", see=["kind"]),
    ],
}
