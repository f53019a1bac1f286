# SPDX-License-Identifier: Apache-2.0
"""The Service and the volumes of a Sandbox: cases 90 to 109 of docs/reference/cases.md."""

import pytest
from kit import ADOPTABLE, HASH, ApiError, container, labels, name_hash, owned, said, vct

MARK = {HASH: name_hash("box")}
UNMARKED = f'missing required pool authorization label ("{ADOPTABLE}") or sandbox tracking label ("{HASH}")'


def ports_of(service):
    return [(p["name"], p.get("protocol", "TCP"), p["port"], p["targetPort"]) for p in service["spec"].get("ports", [])]


def with_ports(*ports, **pod):
    return dict(pod, containers=[container(ports=[dict(zip(("containerPort", "protocol", "name"), p)) for p in ports])])


def headless(name="box", ports=None, **more):
    return dict({"clusterIP": "None", "selector": {"wrong": "1"}, "ports": ports or []}, **more)


def test_case_90_headless_service_without_ports(ns):
    made = ns.sandbox("box", service=True)
    box = ns.ready("sandboxes", "box")
    service = ns.get("services", "box")
    assert service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == MARK and labels(service) == MARK
    assert ports_of(service) == [] and owned(service, made)
    assert box["status"]["service"] == "box" and box["status"]["serviceFQDN"] == f"box.{ns.name}.svc.cluster.local"
    assert said(box)[2] == "Pod is Ready; Service Exists"


@pytest.mark.parametrize("given,expected", [
    pytest.param([(8080,)], [("p-8080-tcp", "TCP", 8080)], id="91"),
    pytest.param([(9090, "UDP"), (8080, "TCP"), (8080, "TCP", "http"), (9090, "TCP"), (0,)],
                 [("http", "TCP", 8080), ("p-9090-tcp", "TCP", 9090), ("p-9090-udp", "UDP", 9090)], id="93"),
    pytest.param([(9090, "TCP", "http"), (8080, "TCP", "http")], [("p-8080-tcp", "TCP", 8080), ("http", "TCP", 9090)], id="94"),
    pytest.param([(9090, "TCP", "p-8080-tcp"), (8080,)], [("p-8080-tcp-2", "TCP", 8080), ("p-8080-tcp", "TCP", 9090)], id="95"),
])
def test_cases_91_93_94_and_95_ports_of_the_service(ns, given, expected):
    # The list of ports is keyed by port and protocol, so a second entry for one key comes from a second container.
    first, second = [], []
    for port in given:
        key = (port + ("TCP",))[:2]
        (second if key in [(p + ("TCP",))[:2] for p in first] else first).append(port)
    pod = with_ports(*first)
    if second:
        pod["containers"].append(dict(with_ports(*second)["containers"][0], name="second"))
    ns.sandbox("box", pod=pod, service=True, operatingMode="Suspended")
    assert ports_of(ns.exists("services", "box")) == [e + (e[2],) for e in expected]


def test_case_92_ports_of_a_native_sidecar_count_those_of_init_containers_do_not(ns):
    init = [container(name="plain", ports=[{"containerPort": 1000}]),
            container(name="sidecar", restartPolicy="Always", ports=[{"containerPort": 2000}])]
    ns.sandbox("box", pod=with_ports((8080,), initContainers=init), service=True, operatingMode="Suspended")
    assert [p[2] for p in ports_of(ns.exists("services", "box"))] == [2000, 8080]


def test_case_96_an_owned_service_is_repaired(ns):
    ns.sandbox("box", pod=with_ports((8080,)), service=True, operatingMode="Suspended")
    ns.exists("services", "box")
    ns.patch("services", "box", {"metadata": {"labels": {"mine": "1", HASH: "x"}},
                                 "spec": {"selector": {HASH: "x"}, "ports": [{"name": "odd", "port": 1, "targetPort": 1}]}})
    service = ns.wait("services", "box", lambda s: s["spec"]["selector"] == MARK)
    service = ns.wait("services", "box", lambda s: ports_of(s) == [("p-8080-tcp", "TCP", 8080, 8080)])
    assert labels(service) == dict(MARK, mine="1")


def test_case_97_what_the_controller_does_not_manage_is_kept(ns):
    ns.sandbox("box", pod=with_ports((8080,)), service=True, operatingMode="Suspended")
    service = ns.exists("services", "box")
    ports = [dict(p, appProtocol="h2c") for p in service["spec"]["ports"]]
    changed = ns.patch("services", "box", {"spec": {"ports": ports}})
    ns.patch("sandboxes", "box", {"spec": {"podTemplate": {"metadata": {"labels": {"a": "1"}}}}})
    ns.seen("sandboxes", "box")
    assert ns.get("services", "box") == changed


def test_case_98_a_foreign_service_is_refused(ns):
    ref = ns.foreign_owner()
    before = ns.create("services", "box", headless(), ownerReferences=[ref], labels=MARK)
    ns.sandbox("box", service=True, operatingMode="Suspended")
    box = ns.reason("sandboxes", "box", "ReconcilerError")
    assert said(box)[2] == (f'Error seen: service "box" is owned by ConfigMap/{ref["name"]} (UID: {ref["uid"]}), '
                            'not by sandbox "box"')
    assert ns.get("services", "box") == before and "service" not in box["status"]


@pytest.mark.parametrize("mark", [MARK, {ADOPTABLE: "true"}])
def test_cases_99_and_101_a_marked_service_is_adopted(ns, mark):
    ns.create("services", "box", headless(ports=[{"name": "odd", "port": 1, "targetPort": 1}]), labels=mark)
    made = ns.sandbox("box", service=True, operatingMode="Suspended")
    ns.wait("sandboxes", "box", lambda s: s["status"].get("service") == "box")
    service = ns.get("services", "box")
    assert owned(service, made) and service["spec"]["selector"] == MARK and ports_of(service) == []
    assert labels(service) == dict(mark, **MARK)


def test_case_100_a_service_with_an_address_is_refused(ns):
    ns.create("services", "box", headless(clusterIP="10.96.0.77", ports=[{"port": 1, "targetPort": 1}]), labels={ADOPTABLE: "true"})
    ns.sandbox("box", service=True, operatingMode="Suspended")
    box = ns.reason("sandboxes", "box", "ReconcilerError")
    assert said(box)[2] == ('Error seen: cannot adopt service "box": ClusterIP is "10.96.0.77" (expected "None", field is immutable)')
    assert "ownerReferences" not in ns.get("services", "box")["metadata"]


def test_case_101_an_unmarked_service_is_refused(ns):
    ns.create("services", "box", headless())
    ns.sandbox("box", service=True, operatingMode="Suspended")
    box = ns.reason("sandboxes", "box", "ReconcilerError")
    assert said(box)[2] == f'Error seen: cannot adopt unowned service "box": {UNMARKED}'


def test_cases_102_and_104_unset_makes_none_and_ignores_an_unowned_one(ns):
    before = ns.create("services", "box", headless(), labels=MARK)
    for name in ("box", "other"):
        ns.sandbox(name, operatingMode="Suspended")
        assert "service" not in ns.seen("sandboxes", name)["status"]
    assert ns.get("services", "box") == before and not ns.get("services", "other")


def test_cases_103_and_105_unset_keeps_false_deletes(ns):
    ns.sandbox("box", pod=with_ports((8080,)), service=True, operatingMode="Suspended")
    ns.wait("sandboxes", "box", lambda s: s and s.get("status", {}).get("service") == "box")
    ns.patch("sandboxes", "box", {"spec": {"service": None}})
    ns.seen("sandboxes", "box")
    ns.patch("services", "box", {"metadata": {"labels": {HASH: "x"}}, "spec": {
        "selector": {HASH: "x"}, "ports": [{"name": "odd", "port": 9090, "targetPort": 9090}]}})
    service = ns.wait("services", "box", lambda s: labels(s)[HASH] == MARK[HASH] and s["spec"]["selector"] == MARK)
    assert [p["port"] for p in service["spec"]["ports"]] == [9090]
    assert ns.get("sandboxes", "box")["status"]["service"] == "box"
    ns.patch("sandboxes", "box", {"spec": {"service": False}})
    ns.gone("services", "box")
    box = ns.wait("sandboxes", "box", lambda s: "service" not in s["status"])
    assert "serviceFQDN" not in box["status"]


def test_case_105_false_leaves_an_unowned_service(ns):
    before = ns.create("services", "box", headless(), labels=MARK)
    ns.sandbox("box", service=False, operatingMode="Suspended")
    assert "service" not in ns.seen("sandboxes", "box")["status"]
    assert ns.get("services", "box") == before


def test_case_107_a_claim_template_becomes_a_volume(ns):
    made = ns.sandbox("sandbox-name", volumeClaimTemplates=[vct("my-pvc", labels={"l": "1", HASH: "x"}, annotations={"a": "1"})],
                      pod={"containers": [container(volumeMounts=[{"name": "my-pvc", "mountPath": "/data"}])]})
    ns.ready("sandboxes", "sandbox-name")
    pvc = ns.get("persistentvolumeclaims", "my-pvc-sandbox-name")
    assert labels(pvc) == {"l": "1", HASH: "ab179450"} and pvc["metadata"]["annotations"]["a"] == "1" and owned(pvc, made)
    assert pvc["spec"]["resources"]["requests"]["storage"] == "1Gi"
    volumes = ns.get("pods", "sandbox-name")["spec"]["volumes"]
    assert [v["persistentVolumeClaim"]["claimName"] for v in volumes if v["name"] == "my-pvc"] == ["my-pvc-sandbox-name"]


@pytest.mark.parametrize("mark", [MARK, {ADOPTABLE: "true"}])
def test_case_108_a_marked_volume_is_adopted(ns, mark):
    ns.create("persistentvolumeclaims", "data-box", vct("data", "2Gi")["spec"], labels=mark)
    made = ns.sandbox("box", volumeClaimTemplates=[vct("data")], operatingMode="Suspended")
    pvc = ns.wait("persistentvolumeclaims", "data-box", lambda p: owned(p, made))
    assert labels(pvc) == mark and pvc["spec"]["resources"]["requests"]["storage"] == "2Gi"


def test_case_108_unmarked_and_foreign_volumes_are_refused(ns):
    ns.create("persistentvolumeclaims", "data-box", vct("data")["spec"])
    ns.sandbox("box", volumeClaimTemplates=[vct("data")], operatingMode="Suspended")
    box = ns.reason("sandboxes", "box", "ReconcilerError")
    assert said(box)[2] == f'Error seen: cannot adopt unowned PVC "data-box": {UNMARKED}'
    assert "ownerReferences" not in ns.get("persistentvolumeclaims", "data-box")["metadata"]
    ref = ns.foreign_owner()
    ns.create("persistentvolumeclaims", "data-other", vct("data")["spec"], ownerReferences=[ref])
    ns.sandbox("other", volumeClaimTemplates=[vct("data")], operatingMode="Suspended")
    other = ns.reason("sandboxes", "other", "ReconcilerError")
    assert said(other)[2] == (f'Error seen: PVC "data-other" is owned by ConfigMap/{ref["name"]} (UID: {ref["uid"]}), '
                              'not by sandbox "other"')


def test_case_109_claim_templates_are_immutable(ns):
    ns.sandbox("box", volumeClaimTemplates=[vct("data")], operatingMode="Suspended")
    ns.sandbox("bare", operatingMode="Suspended")
    for name, templates in (("box", [vct("data", "2Gi")]), ("box", None), ("box", [vct("data"), vct("more")]), ("bare", [vct("data")])):
        with pytest.raises(ApiError) as e:
            ns.patch("sandboxes", name, {"spec": {"volumeClaimTemplates": templates}})
        assert (e.value.code, e.value.reason) == (422, "Invalid")
        assert "volumeClaimTemplates is immutable" in str(e.value)
