# SPDX-License-Identifier: Apache-2.0
"""SandboxTemplate and its NetworkPolicy: cases 125 to 132 of docs/reference/cases.md."""

import pytest
from kit import TEMPLATE, ApiError, annotations, box, labels, name_hash, owner_reference

NAME = "test-template"
POLICY = f"{NAME}-network-policy"
SELECTOR = {"matchLabels": {TEMPLATE: "69155462"}}
DEFAULT = {
    "podSelector": SELECTOR,
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agent-sandbox-system"}},
                           "podSelector": {"matchLabels": {"app": "sandbox-router"}}}]}],
    "egress": [{"to": [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fc00::/7", "fe80::/10"]}}]}],
}
CUSTOM = {"ingress": [{"ports": [{"port": 8888, "protocol": "TCP"}]}], "egress": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}]}]}


def test_case_125_the_secure_default(ns):
    made = ns.template(NAME)
    policy = ns.exists("networkpolicies", POLICY)
    assert policy["spec"] == DEFAULT and not labels(policy)
    assert policy["metadata"]["ownerReferences"] == [
        owner_reference(made, "extensions.agents.x-k8s.io/v1beta1", "SandboxTemplate")]


def test_case_126_custom_rules_with_our_selector(ns):
    ns.template(NAME, networkPolicy=CUSTOM)
    policy = ns.exists("networkpolicies", POLICY)
    assert policy["spec"] == dict(CUSTOM, podSelector=SELECTOR, policyTypes=["Ingress", "Egress"])


def test_case_126_a_missing_list_denies_that_direction(ns):
    ns.template(NAME, networkPolicy={"ingress": CUSTOM["ingress"]})
    policy = ns.exists("networkpolicies", POLICY)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"] and not policy["spec"].get("egress")


def test_cases_127_and_130_unmanaged_makes_none_but_is_labelled(ns):
    ns.template(NAME, networkPolicyManagement="Unmanaged", networkPolicy=CUSTOM)
    ns.wait("sandboxtemplates", NAME, lambda t: labels(t).get(TEMPLATE) == "69155462")
    ns.template("managed")
    ns.exists("networkpolicies", "managed-network-policy")
    assert not ns.get("networkpolicies", POLICY)


def test_case_128_unmanaged_later_deletes_the_owned_one(ns):
    ns.template(NAME)
    ns.exists("networkpolicies", POLICY)
    ns.patch("sandboxtemplates", NAME, {"spec": {"networkPolicyManagement": "Unmanaged"}})
    ns.gone("networkpolicies", POLICY)
    ns.patch("sandboxtemplates", NAME, {"spec": {"networkPolicyManagement": "Managed"}})
    assert ns.exists("networkpolicies", POLICY)["spec"] == DEFAULT


def test_case_129_an_outdated_policy_is_replaced(ns):
    ns.template(NAME, networkPolicy=CUSTOM)
    ns.exists("networkpolicies", POLICY)
    ns.patch("networkpolicies", POLICY, {"spec": {"policyTypes": ["Ingress"], "egress": None}})
    ns.wait("networkpolicies", POLICY, lambda p: p["spec"].get("egress") == CUSTOM["egress"] and len(p["spec"]["policyTypes"]) == 2)
    ns.patch("sandboxtemplates", NAME, {"spec": {"networkPolicy": None}})
    ns.wait("networkpolicies", POLICY, lambda p: p["spec"] == DEFAULT)


def test_case_130_the_label_is_written_once(ns):
    ns.template(NAME)
    ns.exists("networkpolicies", POLICY)
    before = ns.wait("sandboxtemplates", NAME, lambda t: labels(t).get(TEMPLATE) == "69155462")
    ns.delete("networkpolicies", POLICY)
    ns.exists("networkpolicies", POLICY)
    assert ns.get("sandboxtemplates", NAME) == before


@pytest.mark.parametrize("management", ["Unmanaged", "Managed"])
def test_cases_131_and_132_somebody_elses_policy_is_left_alone(ns, management):
    before = ns.create("networkpolicies", POLICY, {"podSelector": {}, "policyTypes": ["Ingress"]})
    ns.template(NAME, networkPolicyManagement=management)
    ns.wait("sandboxtemplates", NAME, lambda t: labels(t).get(TEMPLATE))
    ns.template("later")
    ns.exists("networkpolicies", "later-network-policy")
    assert ns.get("networkpolicies", POLICY) == before


def test_deleting_a_template_deletes_its_policy(ns):
    ns.template(NAME)
    ns.exists("networkpolicies", POLICY)
    ns.delete("sandboxtemplates", NAME)
    ns.gone("networkpolicies", POLICY)


def test_templates_have_defaults_and_no_status(ns):
    made = ns.template(NAME)
    assert made["spec"]["networkPolicyManagement"] == "Managed"
    assert made["spec"]["envVarsInjectionPolicy"] == made["spec"]["volumeClaimTemplatesPolicy"] == "Disallowed"
    with pytest.raises(ApiError) as e:
        ns.server.api("GET", ns.path("sandboxtemplates", NAME, "status"))
    assert e.value.code == 404
    with pytest.raises(ApiError) as e:
        ns.create("sandboxtemplates", "odd", box(envVarsInjectionPolicy="Sometimes"))
    assert e.value.code == 422 and "spec.envVarsInjectionPolicy" in str(e.value)
    assert not annotations(made) and name_hash(NAME) == "69155462"
