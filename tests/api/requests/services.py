# SPDX-License-Identifier: Apache-2.0
"""What a Service may be: one odd field in each request. Addresses and node ports that are given out are in tests/data/services."""

SERVICES = "/api/v1/namespaces/$NS/services"
JSON_PATCH = "application/json-patch+json"
LONG = "a" * 64


def service(name, spec):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def create(name, spec, meta="s"):
    spec = {k: v for k, v in {"ports": [{"port": 80}], **spec}.items() if v is not None}
    return {"name": name, "method": "POST", "path": SERVICES + "?dryRun=All", "body": service(meta, spec),
            "drop": ["metadata", "spec.healthCheckNodePort"]}


def specs(*rows):
    return [create(name, spec) for name, spec in rows]


def each(field, **values):
    return [create(f"{field} {name.replace('_', ' ')}", {field: value}) for name, value in values.items()]


def ports(*rows):
    return [create(name, {"ports": list(p)}) for name, p in rows]


def of_type(kind, *rows):
    return [create(f"{kind} {name}", {"type": kind, **spec}) for name, spec in rows]


def patches(name, *rows):
    return [{"name": what, "method": "PATCH", "path": f"{SERVICES}/{name}?dryRun=All", "type": JSON_PATCH, "drop": ["metadata"],
             "body": [{"op": "add", "path": f"/spec/{path}", "value": value}]} for what, path, value in rows]


STORIES = {
    "names": [create(f"name {n}", {}, meta=n) for n in ("a.b", "1a", "-a", "A", "a_b", LONG)],
    "spec": [create("no ports", {"ports": None}), create("empty ports", {"ports": []}), create("nothing", {"ports": None, "type": None})]
    + each("type", empty="", wrong="Cluster", lower="clusterip")
    + each("sessionAffinity", wrong="Cookie", client="ClientIP", none="None", empty="")
    + each("internalTrafficPolicy", wrong="Near", local="Local", empty="")
    + each("externalTrafficPolicy", wrong="Near", local="Local")
    + each("trafficDistribution", wrong="Far", close="PreferClose", zone="PreferSameZone", node="PreferSameNode", empty="")
    + each("selector", bad_key={"a b": "c"}, bad_value={"a": "b c"}, empty={}, good={"a": "b"}, long={"a": LONG})
    + each("externalIPs", bad=["x"], loopback=["127.0.0.1"], link_local=["169.254.1.1"], unspecified=["0.0.0.0"], multicast=["224.0.0.1"], v6=["::1"],
           zeros=["010.1.1.1"], mapped=["::ffff:1.2.3.4"], good=["1.2.3.4"])
    + each("loadBalancerClass", of_another_type="a/b") + each("allocateLoadBalancerNodePorts", of_another_type=True)
    + each("loadBalancerSourceRanges", of_another_type=["10.0.0.0/8"], bad=["x"])
    + each("healthCheckNodePort", of_another_type=31000)
    + each("publishNotReadyAddresses", true=True)
    + each("ipFamilyPolicy", wrong="Both") + each("ipFamilies", wrong=["IPv5"], twice=["IPv4", "IPv4"])
    + each("clusterIP", bad="x", none="None", mapped="::ffff:10.0.0.1") + each("clusterIPs", bad=["x"], three=["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    "affinity": specs(
        *((f"timeout {n}", {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": n}}}) for n in (0, -1, 1, 86400, 86401)),
        ("config without client", {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {}}),
        ("config of none", {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}}),
    ),
    "ports": ports(
        ("zero", [{"port": 0}]), ("missing", [{}]), ("negative", [{"port": -1}]), ("large", [{"port": 65536}]), ("largest", [{"port": 65535}]),
        ("protocol wrong", [{"port": 1, "protocol": "HTTP"}]), ("protocol lower", [{"port": 1, "protocol": "udp"}]), ("sctp", [{"port": 1, "protocol": "SCTP"}]),
        ("name upper", [{"port": 1, "name": "A"}]), ("name long", [{"port": 1, "name": LONG}]), ("name dotted", [{"port": 1, "name": "a.b"}]),
        ("two unnamed", [{"port": 1}, {"port": 2}]), ("one unnamed", [{"port": 1, "name": "a"}, {"port": 2}]), ("name twice", [{"port": 1, "name": "a"}, {"port": 2, "name": "a"}]),
        ("port twice", [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}]), ("port of two protocols", [{"port": 1, "name": "a"}, {"port": 1, "name": "b", "protocol": "UDP"}]),
        ("target name", [{"port": 1, "targetPort": "http"}]), ("target bad name", [{"port": 1, "targetPort": "Http"}]), ("target large", [{"port": 1, "targetPort": 70000}]),
        ("target negative", [{"port": 1, "targetPort": -1}]), ("target zero", [{"port": 1, "targetPort": 0}]), ("target empty", [{"port": 1, "targetPort": ""}]),
        ("target digits", [{"port": 1, "targetPort": "80"}]), ("app protocol", [{"port": 1, "appProtocol": "kubernetes.io/h2c"}]), ("app protocol bad", [{"port": 1, "appProtocol": "a b"}]),
        ("app protocol empty", [{"port": 1, "appProtocol": ""}]),
        ("node port of a cluster address", [{"port": 1, "nodePort": 30001}]), ("everything wrong", [{"port": 0, "protocol": "x", "name": "A", "targetPort": "-"}]),
    ),
    "types": of_type("ExternalName", ("without name", {"ports": None}), ("bad", {"externalName": "a_b"}), ("upper", {"externalName": "A.b"}), ("dot", {"externalName": "a.b."}),
                     ("address", {"externalName": "1.2.3.4"}), ("with cluster address", {"externalName": "a.b", "clusterIP": "10.0.0.1"}),
                     ("with families", {"externalName": "a.b", "ipFamilies": ["IPv4"]}), ("with policy", {"externalName": "a.b", "ipFamilyPolicy": "SingleStack"}),
                     ("with traffic policy", {"externalName": "a.b", "internalTrafficPolicy": "Local"}), ("headless", {"externalName": "a.b", "clusterIP": "None"}))
    + of_type("NodePort", ("good", {}), ("headless", {"clusterIP": "None"}),
              ("twice", {"ports": [{"port": 1, "name": "a", "nodePort": 30005}, {"port": 2, "name": "b", "nodePort": 30005}]}),
              ("policy wrong", {"externalTrafficPolicy": "x"}), ("policy local", {"externalTrafficPolicy": "Local"}),
              ("health port", {"healthCheckNodePort": 31001}))
    + of_type("LoadBalancer", ("good", {}), ("headless", {"clusterIP": "None"}), ("class bad", {"loadBalancerClass": "a b"}), ("class", {"loadBalancerClass": "a/b"}),
              ("ranges", {"loadBalancerSourceRanges": ["10.0.0.0/8", " 10.1.0.0/16 "]}), ("ranges bad", {"loadBalancerSourceRanges": ["10.0.0.0", "x/8"]}),
              ("ranges bits", {"loadBalancerSourceRanges": ["10.0.0.1/8"]}), ("ranges zeros", {"loadBalancerSourceRanges": ["010.0.0.0/8"]}),
              ("without node ports", {"allocateLoadBalancerNodePorts": False}), ("local", {"externalTrafficPolicy": "Local"})),
    "headless": specs(
        ("plain", {"clusterIP": "None"}), ("without ports", {"clusterIP": "None", "ports": None}), ("with list", {"clusterIPs": ["None"]}),
        ("none and more", {"clusterIP": "None", "clusterIPs": ["None", "10.0.0.1"]}), ("selectorless", {"clusterIP": "None", "selector": None}),
    ),
    "updates": [
        {"name": "create", "method": "POST", "path": SERVICES, "body": service("u", {"ports": [{"port": 80}], "selector": {"a": "b"}}), "drop": ["metadata"]},
        *patches("u", ("cluster address", "clusterIP", "10.0.0.77"), ("headless", "clusterIP", "None"),
                 ("type to node port", "type", "NodePort"), ("type wrong", "type", "x"), ("type to external name", "type", "ExternalName"), ("ports", "ports", [{"port": 81}]),
                 ("no ports", "ports", []), ("port zero", "ports/0/port", 0), ("selector", "selector", {"c": "d"}), ("selector bad", "selector", {"c d": "e"}),
                 ("affinity", "sessionAffinity", "ClientIP"), ("affinity wrong", "sessionAffinity", "x"), ("policy", "internalTrafficPolicy", "Local")),
        {"name": "status", "method": "PATCH", "path": SERVICES + "/u/status?dryRun=All", "type": "application/merge-patch+json",
         "body": {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}, "drop": ["metadata"]},
        {"name": "delete", "method": "DELETE", "path": SERVICES + "/u", "see": ["status"]},
    ],
    "status of a load balancer": [
        {"name": "create", "method": "POST", "path": SERVICES, "body": service("lb", {"type": "LoadBalancer", "ports": [{"port": 80}]}), "drop": ["metadata"]},
        *({"name": n, "method": "PATCH", "path": SERVICES + "/lb/status?dryRun=All", "type": "application/merge-patch+json",
           "body": {"status": {"loadBalancer": {"ingress": [i]}}}, "drop": ["metadata"]} for n, i in (
               ("address", {"ip": "1.2.3.4"}), ("bad address", {"ip": "1.2.3"}), ("host name", {"hostname": "a.b"}), ("bad host name", {"hostname": "a_b"}),
               ("host name that is an address", {"hostname": "1.2.3.4"}), ("mode", {"ip": "1.2.3.4", "ipMode": "Proxy"}), ("mode wrong", {"ip": "1.2.3.4", "ipMode": "x"}),
               ("mode without address", {"hostname": "a.b", "ipMode": "VIP"}))),
        *patches("lb", ("class", "loadBalancerClass", "a/b"), ("type", "type", "ClusterIP")),
        {"name": "delete", "method": "DELETE", "path": SERVICES + "/lb", "see": ["status"]},
    ],
}
