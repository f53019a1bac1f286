# SPDX-License-Identifier: Apache-2.0
"""namespaces/NAME/finalize: the finalizers in the spec of a Namespace, as a kube-apiserver 1.36 and its controller treat them."""

import pytest

from cay_local import ApiError, wait_until

NAMESPACES = "/api/v1/namespaces"


def finalize(server, name, *finalizers):
    return server.api("PUT", f"{NAMESPACES}/{name}/finalize",
                      {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": list(finalizers)}})


def test_only_finalize_changes_them(server):
    server.api("POST", NAMESPACES, {"metadata": {"name": "fin-a"}})
    assert finalize(server, "fin-a", "kubernetes", "example.com/x")["spec"]["finalizers"] == ["kubernetes", "example.com/x"]
    plain = server.api("PUT", f"{NAMESPACES}/fin-a", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fin-a"}, "spec": {}})
    assert plain["spec"]["finalizers"] == ["kubernetes", "example.com/x"]
    for call, code in ((lambda: finalize(server, "fin-none"), 404), (lambda: server.api("GET", f"{NAMESPACES}/fin-a/finalize"), 405)):
        with pytest.raises(ApiError) as e:
            call()
        assert e.value.code == code
    with pytest.raises(ApiError) as e:
        finalize(server, "fin-a", "foo")
    assert e.value.code == 422 and e.value.status["message"] == (
        'Namespace "fin-a" is invalid: spec.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name nor is it fully qualified')
    finalize(server, "fin-a", "kubernetes")
    server.api("DELETE", f"{NAMESPACES}/fin-a")


def test_that_of_somebody_else_holds_a_namespace_until_they_let_go(server):
    server.api("POST", NAMESPACES, {"metadata": {"name": "fin-b"}})
    finalize(server, "fin-b", "kubernetes", "example.com/x")
    server.api("DELETE", f"{NAMESPACES}/fin-b")
    held = server.wait(NAMESPACES, "fin-b", lambda n: n is None or n["spec"].get("finalizers") == ["example.com/x"])
    assert held and held["status"]["phase"] == "Terminating"
    finalize(server, "fin-b")

    def gone():
        try:
            server.api("GET", f"{NAMESPACES}/fin-b")
        except ApiError as e:
            return e.code == 404
        return False
    wait_until(gone)
