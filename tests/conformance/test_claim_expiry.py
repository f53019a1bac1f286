# SPDX-License-Identifier: Apache-2.0
"""The end of a SandboxClaim: cases 215 to 226 of docs/reference/cases.md."""

import pytest
from kit import at, condition, container, owned, owner_reference, said

EXPIRED = ("False", "ClaimExpired", "Claim expired. Sandbox cleanup initiated.")
ENDS = {"restartPolicy": "Never", "containers": [container(command=["true"])]}
HOLD = {"metadata": {"finalizers": ["example.com/hold"]}}
LET_GO = {"metadata": {"finalizers": None}}


def expired(claim):
    return claim and said(claim) == EXPIRED


def is_ready_on(claim):
    return (said(claim) or [""])[0] == "True"


def is_deleting(obj):
    return obj and "deletionTimestamp" in obj["metadata"]


def test_case_215_retain_keeps_the_claim(ns):
    ns.cold()
    ns.claim("mine", "cold", lifecycle={"shutdownTime": at(2)})
    ready = ns.ready("sandboxclaims", "mine")
    assert ready["spec"]["lifecycle"]["shutdownPolicy"] == "Retain"
    assert "shutdownTime" not in ns.get("sandboxes", "mine")["spec"]
    claim = ns.wait("sandboxclaims", "mine", lambda c: expired(c) and "sandbox" not in c["status"])
    assert condition(claim, "Ready")["lastTransitionTime"] >= claim["spec"]["lifecycle"]["shutdownTime"], "too early"
    for kind in ("sandboxes", "pods"):
        ns.gone(kind, "mine")
    event = ns.event("mine", "ClaimExpired")
    assert (event["type"], event["action"], event["note"]) == ("Normal", "Claim Expired", "Claim expired")


def test_case_215_retain_ends_an_adopted_sandbox_after_it_was_told(ns):
    ns.warm()
    ns.claim("mine", "warm")
    name = ns.ready("sandboxclaims", "mine")["status"]["sandbox"]["name"]
    ns.patch("sandboxes", name, HOLD)
    ns.patch("sandboxclaims", "mine", {"spec": {"lifecycle": {"shutdownTime": at(-1)}}})
    ns.wait("sandboxclaims", "mine", expired)
    ns.wait("sandboxes", name, is_deleting)
    ns.patch("sandboxes", name, LET_GO)
    ns.gone("sandboxes", name)
    ns.wait("sandboxclaims", "mine", lambda c: expired(c) and "sandbox" not in c["status"])


def test_case_216_somebody_elses_sandbox_is_not_deleted(ns):
    ns.cold()
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    other = ns.claim("other", "cold")
    ns.ready("sandboxclaims", "other")
    # One step: the Sandbox goes to another claim while this one is already past its time.
    ns.patch("sandboxclaims", "mine", {"spec": {"lifecycle": {"shutdownTime": at(3)}}})
    ns.patch("sandboxes", "mine", {"metadata": {
        "ownerReferences": [owner_reference(other, "extensions.agents.x-k8s.io/v1beta1", "SandboxClaim")]}})
    claim = ns.reason("sandboxclaims", "mine", "ClaimExpired")
    claim = ns.wait("sandboxclaims", "mine", lambda c: "sandbox" not in c["status"])
    assert said(claim)[2].startswith("Claim expired.")
    assert owned(ns.get("sandboxes", "mine"), other) and not is_deleting(ns.get("sandboxes", "mine"))


@pytest.mark.parametrize("policy", ["Delete", "DeleteForeground"])
def test_case_217_delete(ns, policy):
    ns.cold()
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    version = ns.version("sandboxclaims")
    ns.patch("sandboxclaims", "mine", {"spec": {"lifecycle": {"shutdownTime": at(-1), "shutdownPolicy": policy}}})
    for kind in ("sandboxclaims", "sandboxes", "pods"):
        ns.gone(kind, "mine")
    seen = ns.history("sandboxclaims", version, lambda what, c: what == "DELETED" or is_deleting(c))
    assert any(expired(c) for _, c in seen), "the end was not told before it came"
    events = [e for e in ns.events("mine", "ClaimExpired", 2) if e["action"] == "Deleting"]
    assert [e["note"] for e in events] == [f"Deleting Claim (ShutdownPolicy={policy})"]


def test_case_218_finished_is_mirrored_and_waits_for_the_ttl(ns):
    ns.cold(pod=ENDS)
    ns.claim("mine", "cold", lifecycle={"ttlSecondsAfterFinished": 600})
    claim = ns.wait("sandboxclaims", "mine", lambda c: condition(c, "Finished"))
    assert condition(claim, "Finished") == condition(ns.get("sandboxes", "mine"), "Finished")
    assert [c["type"] for c in claim["status"]["conditions"]] == ["Finished", "Ready"]
    assert said(claim)[:2] == ("False", "PodSucceeded") and ns.get("sandboxes", "mine")


def test_cases_219_and_226_ttl_zero_retain(ns):
    ns.cold(pod=dict(ENDS, containers=[container(command=["sh", "-c", "exit 3"])]))
    ns.claim("mine", "cold")
    finished = condition(ns.wait("sandboxclaims", "mine", lambda c: condition(c, "Finished")), "Finished")
    ns.patch("sandboxes", "mine", HOLD)
    ns.patch("sandboxclaims", "mine", {"spec": {"lifecycle": {"ttlSecondsAfterFinished": 0}}})
    claim = ns.wait("sandboxclaims", "mine", expired)
    assert condition(claim, "Finished") == finished and finished["reason"] == "PodFailed"
    ns.wait("sandboxes", "mine", is_deleting)
    assert expired(ns.get("sandboxclaims", "mine"))
    ns.patch("sandboxes", "mine", LET_GO)
    ns.gone("sandboxes", "mine")
    claim = ns.wait("sandboxclaims", "mine", lambda c: "sandbox" not in c["status"])
    assert expired(claim) and condition(claim, "Finished") == finished


def test_cases_219_and_220_ttl_zero_tells_before_it_deletes(ns):
    version = ns.version("sandboxclaims")
    ns.cold(pod=ENDS)
    ns.claim("mine", "cold", lifecycle={"ttlSecondsAfterFinished": 0, "shutdownPolicy": "Delete"})
    seen = ns.history("sandboxclaims", version, lambda what, c: what == "DELETED")
    assert any(expired(c) and condition(c, "Finished") for _, c in seen)
    ns.gone("sandboxes", "mine")


def test_case_222_foreground_deletion_waits_for_the_pod(ns):
    ns.cold(service=True)
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    ns.patch("pods", "mine", HOLD)
    ns.patch("sandboxclaims", "mine", {"spec": {"lifecycle": {"shutdownTime": at(-1), "shutdownPolicy": "DeleteForeground"}}})
    ns.wait("pods", "mine", is_deleting)
    claim, sandbox = ns.get("sandboxclaims", "mine"), ns.get("sandboxes", "mine")
    assert is_deleting(claim) and is_deleting(sandbox) and "foregroundDeletion" in claim["metadata"]["finalizers"]
    ns.patch("pods", "mine", LET_GO)
    for kind in ("pods", "services", "sandboxes", "sandboxclaims"):
        ns.gone(kind, "mine")


def test_case_223_ttl_after_finished(ns):
    ns.cold(pod=ENDS, service=True)
    ns.claim("mine", "cold", lifecycle={"ttlSecondsAfterFinished": 1, "shutdownPolicy": "Delete"})
    finished = condition(ns.wait("sandboxclaims", "mine", lambda c: condition(c, "Finished")), "Finished")
    for kind in ("sandboxclaims", "sandboxes", "pods", "services"):
        ns.gone(kind, "mine")
    assert at(0) > finished["lastTransitionTime"]


def test_case_224_the_earlier_of_both_times(ns):
    ns.cold(pod=ENDS)
    ns.claim("mine", "cold", lifecycle={"ttlSecondsAfterFinished": 600, "shutdownTime": at(2), "shutdownPolicy": "Delete"})
    ns.wait("sandboxclaims", "mine", lambda c: condition(c, "Finished"))
    ns.gone("sandboxclaims", "mine")


def test_case_225_finished_without_a_time_is_kept(ns):
    ns.cold(pod=ENDS)
    ns.claim("mine", "cold", lifecycle={"shutdownPolicy": "Delete"})
    ns.wait("sandboxclaims", "mine", lambda c: condition(c, "Finished"))
    ns.claim("later", "cold", lifecycle={"ttlSecondsAfterFinished": 1, "shutdownPolicy": "Delete"})
    ns.exists("sandboxes", "later")
    ns.gone("sandboxclaims", "later")
    assert not is_deleting(ns.get("sandboxclaims", "mine")) and ns.get("sandboxes", "mine")


def test_a_sandbox_that_expires_by_itself_shows_on_the_claim(ns):
    ns.cold()
    ns.claim("mine", "cold")
    ns.ready("sandboxclaims", "mine")
    ns.patch("sandboxes", "mine", {"spec": {"shutdownTime": at(-1)}})
    claim = ns.reason("sandboxclaims", "mine", "SandboxExpired")
    assert said(claim) == ("False", "SandboxExpired", "Underlying Sandbox resource has expired independently of the Claim.")
    assert claim["status"]["sandbox"]["name"] == "mine" and not is_ready_on(claim)
