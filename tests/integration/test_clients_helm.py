# SPDX-License-Identifier: Apache-2.0
"""helm 3 and 4, unmodified: the life of a chart with a definition, rights, a Service, a Sandbox and a claim (tests/clients/helm)."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from cay_local import AGENTS, EXTENSIONS, ROOT
from clients_kit import BUILDS, built

SOURCE = pathlib.Path(ROOT) / "tests" / "clients" / "helm"

pytestmark = [pytest.mark.long, BUILDS]  # each is built from its modules: minutes of a processor


@pytest.fixture(scope="module", params=["3", "4"])
def helm(module_instance, request):
    """Each in a server of its own: what one of them leaves behind, the other would find."""
    program = built(SOURCE / request.param, f"helm.sh/helm/v{request.param}/cmd/helm", f"helm-{request.param}")
    cay = module_instance()
    env = dict(os.environ, KUBECONFIG=cay.kubeconfig, HOME=cay.data_dir)

    def run(*args, check=True):
        r = subprocess.run([program, *args], capture_output=True, text=True, timeout=300, env=env)
        assert not check or r.returncode == 0, f"helm {' '.join(args)}: {r.stderr}{r.stdout}"
        return r

    run.cay = cay
    return run


def toy(cay):
    return cay.api("GET", "/apis/helm.example/v1/namespaces/default/toys/rel")["spec"]["colour"]


def revision(helm):
    return json.loads(helm("list", "-o", "json").stdout)[0]["revision"]


def test_the_life_of_a_chart(helm):
    cay, chart = helm.cay, str(SOURCE / "chart")
    assert "STATUS: deployed" in helm("install", "rel", chart, "--wait", "--timeout", "2m").stdout
    assert toy(cay) == "red" and revision(helm) == "1"
    ip = cay.api("GET", "/api/v1/namespaces/default/services/rel")["spec"]["clusterIP"]
    assert ip.count(".") == 3  # what helm waits for
    cay.wait_ready(f"{EXTENSIONS}/namespaces/default/sandboxclaims", "rel-claim")
    assert "Phase:          Succeeded" in helm("test", "rel", "--timeout", "2m").stdout

    helm("upgrade", "rel", chart, "--wait", "--timeout", "2m", "--set", "colour=blue,replicas=2")
    assert toy(cay) == "blue" and revision(helm) == "2"
    assert cay.api("GET", f"{AGENTS}/namespaces/default/sandboxes/rel")["metadata"]["labels"]["colour"] == "blue"
    assert cay.api("GET", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools/rel")["spec"]["replicas"] == 2
    assert cay.api("GET", "/api/v1/namespaces/default/services/rel")["spec"]["clusterIP"] == ip

    helm("rollback", "rel", "1", "--wait", "--timeout", "2m")
    assert toy(cay) == "red" and revision(helm) == "3"
    assert cay.api("GET", f"{EXTENSIONS}/namespaces/default/sandboxwarmpools/rel")["spec"]["replicas"] == 1
    assert [h["status"] for h in json.loads(helm("history", "rel", "-o", "json").stdout)] == ["superseded", "superseded", "deployed"]
    assert "kind: Toy" in helm("get", "manifest", "rel").stdout and "colour: red" in helm("get", "values", "rel", "--all").stdout
    assert re.search("cannot re-?use a name", helm("install", "rel", chart, check=False).stderr)

    assert "uninstalled" in helm("uninstall", "rel", "--wait", "--timeout", "2m").stdout
    for path in ("/api/v1/namespaces/default/services", f"{AGENTS}/namespaces/default/sandboxes", "/apis/helm.example/v1/namespaces/default/toys"):
        cay.wait(path, "rel", lambda o: o is None)
    assert cay.api("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.helm.example")  # helm keeps these
