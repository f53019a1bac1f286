# SPDX-License-Identifier: Apache-2.0
"""Claims, volumes and classes as objects: who is bound to whom, and what becomes of the data when a claim goes."""

import http.client
import json
import os
import random
import sqlite3
import threading

import pytest

from cay_local import ApiError, Cay, wait_until
from test_disk import claim, clone_of, limits, message, user_of
from test_node_pods import CORE, PODS, create, events, phase, ready, sh

CLAIMS = f"{CORE}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
MERGE = "application/merge-patch+json"
DRIVER = "disk-pool.cay.dev"
PROVISIONER = "cay.dev/disk-pool"
GONE = (OSError, http.client.HTTPException, ValueError)  # the server, in the middle of a request


def storage_class(cay, name, **more):
    return cay.api("POST", CLASSES, dict({"metadata": {"name": name}, "provisioner": PROVISIONER}, **more))


def volume(name, handle, size="16Mi", labels=None, **spec):
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": dict({
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
        "csi": {"driver": DRIVER, "volumeHandle": handle}}, **spec)}


def bound(cay, name):
    obj = cay.wait(CLAIMS, name, phase("Bound"))
    pv = cay.wait(VOLUMES, obj["spec"]["volumeName"], phase("Bound"))
    assert pv["spec"]["claimRef"]["uid"] == obj["metadata"]["uid"]
    return obj, pv


def end(cay, *pods):
    for name in pods:
        cay.api("DELETE", f"{PODS}/{name}")
    for name in pods:
        cay.wait(PODS, name, lambda o: o is None)


def test_a_claim_of_the_default_class_gets_a_volume_that_goes_with_it(cay):
    usual = cay.api("GET", f"{CLASSES}/cay")
    assert usual["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    assert (usual["provisioner"], usual["reclaimPolicy"], usual["volumeBindingMode"], usual["allowVolumeExpansion"]) == (
        PROVISIONER, "Delete", "Immediate", True)
    uid = claim(cay, "plain", "16Mi")
    obj, pv = bound(cay, "plain")
    assert obj["spec"]["storageClassName"] == "cay" and obj["spec"]["volumeName"] == f"pvc-{uid}"
    assert obj["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"
    assert pv["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert pv["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == PROVISIONER
    assert pv["spec"]["persistentVolumeReclaimPolicy"] == "Delete" and pv["spec"]["capacity"]["storage"] == "16Mi"
    assert pv["spec"]["csi"] == {"driver": DRIVER, "volumeHandle": uid}
    term = pv["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]
    node = cay.api("GET", "/api/v1/nodes")["items"][0]["metadata"]
    assert term == {"key": "kubernetes.io/hostname", "operator": "In", "values": [node["labels"]["kubernetes.io/hostname"]]}
    assert cay.data_dir not in json.dumps(pv)
    create(cay, user_of("plain", "plain"))
    sh(cay, "plain", "echo kept > /v/f")
    assert os.path.exists(cay.pool("volumes", uid, "f"))
    # In use, none of the two can be removed.
    cay.kubectl("delete", "pv", f"pvc-{uid}", "--wait=false")
    cay.kubectl("delete", "pvc", "plain", "--wait=false")
    assert cay.api("GET", f"{VOLUMES}/pvc-{uid}")["metadata"]["deletionTimestamp"]
    assert sh(cay, "plain", "cat /v/f").stdout == "kept\n"
    end(cay, "plain")
    cay.wait(CLAIMS, "plain", lambda o: o is None)
    cay.wait(VOLUMES, f"pvc-{uid}", lambda o: o is None)
    wait_until(lambda: not os.path.exists(cay.pool("volumes", uid)))


def test_what_is_retained_can_be_bound_again_with_its_data(cay):
    storage_class(cay, "keeps", reclaimPolicy="Retain")
    uid = claim(cay, "first", "16Mi", storageClassName="keeps")
    create(cay, user_of("first", "first"))
    sh(cay, "first", "echo old > /v/f")
    end(cay, "first")
    cay.kubectl("delete", "pvc", "first")
    name = f"pvc-{uid}"
    cay.wait(VOLUMES, name, phase("Released"))
    # Nobody gets at it by name, not even a claim like the first.
    claim(cay, "first", "16Mi", storageClassName="keeps", volumeName=name)
    create(cay, user_of("second", "first"), lambda o: "already bound to a different claim" in message(o))
    assert "already bound to a different claim" in wait_until(lambda: events(cay, "first").get("FailedBinding"))
    cay.api("PATCH", f"{VOLUMES}/{name}", {"spec": {"claimRef": None}}, content_type=MERGE)
    bound(cay, "first")
    cay.wait(PODS, "second", phase("Running"))
    assert sh(cay, "second", "cat /v/f").stdout == "old\n"
    end(cay, "second")
    cay.kubectl("delete", "pvc", "first")
    cay.wait(VOLUMES, name, phase("Released"))
    cay.kubectl("delete", "pv", name)
    wait_until(lambda: not os.path.exists(cay.pool("volumes", uid)))


def test_volumes_made_by_hand_are_bound_by_name_selector_and_size(cay):
    made = {"small": volume("small", "hand-small"), "large": volume("large", "hand-large", "64Mi"),
            "blue": volume("blue", "hand-blue", "32Mi", {"colour": "blue"}),
            "kept": volume("kept", "hand-kept", claimRef={"namespace": "default", "name": "mine"}),
            "other": volume("other", "hand-other", storageClassName="another"),
            "many": volume("many", "hand-many", accessModes=["ReadOnlyMany"])}
    for body in made.values():
        cay.api("POST", VOLUMES, body)
    cay.wait(VOLUMES, "small", phase("Available"))
    wants = {"mine": ({}, "16Mi", "kept"), "named": ({"volumeName": "large"}, "16Mi", "large"),
             "picks": ({"selector": {"matchLabels": {"colour": "blue"}}}, "16Mi", "blue"), "fits": ({}, "16Mi", "small")}
    for name, (more, size, _) in wants.items():
        claim(cay, name, size, storageClassName="by-hand", **more)
    for name, (_, _, expected) in wants.items():
        obj, pv = bound(cay, name)
        assert pv["metadata"]["name"] == expected
        assert obj["status"]["capacity"] == pv["spec"]["capacity"]  # what it has, not what it asked for
    claim(cay, "none-left", "16Mi", storageClassName="")
    assert wait_until(lambda: events(cay, "none-left").get("FailedBinding")) == (
        "no persistent volumes available for this claim and no storage class is set")
    create(cay, user_of("named", "named"))
    assert limits(cay)["volumes/hand-large"][1] == 64 << 20
    end(cay, "named")
    cay.kubectl("delete", "pvc", *wants, "none-left")
    cay.kubectl("delete", "pv", *made)
    wait_until(lambda: not os.path.exists(cay.pool("volumes", "hand-large")))


def test_a_class_may_wait_for_the_first_pod(cay):
    storage_class(cay, "lazy", volumeBindingMode="WaitForFirstConsumer")
    claim(cay, "lazy", "16Mi", storageClassName="lazy")
    assert wait_until(lambda: events(cay, "lazy").get("WaitForFirstConsumer")) == (
        "waiting for first consumer to be created before binding")
    assert cay.api("GET", f"{CLAIMS}/lazy")["status"]["phase"] == "Pending"
    create(cay, user_of("lazy", "lazy"))
    bound(cay, "lazy")
    with pytest.raises(ApiError) as refused:
        cay.api("PATCH", f"{CLAIMS}/lazy", {"spec": {"resources": {"requests": {"storage": "32Mi"}}}}, content_type=MERGE)
    assert refused.value.code == 403
    assert "only dynamically provisioned pvc can be resized and the storageclass" in refused.value.status["message"]


def test_a_claim_waits_for_a_class_that_is_not_there_and_says_so(cay):
    claim(cay, "early", "16Mi", storageClassName="later")
    why = 'storageclass.storage.k8s.io "later" not found'
    create(cay, user_of("early", "early"), lambda o: f'persistentvolumeclaim "early" is not bound: {why}' in message(o))
    assert wait_until(lambda: events(cay, "early").get("ProvisioningFailed")) == why
    storage_class(cay, "later")
    bound(cay, "early")
    cay.wait(PODS, "early", phase("Running"))
    storage_class(cay, "tuned", parameters={"type": "ssd"})
    claim(cay, "tuned", "16Mi", storageClassName="tuned")
    assert wait_until(lambda: events(cay, "tuned").get("ProvisioningFailed")) == (
        'storageclass.storage.k8s.io "tuned": parameters: cay.dev/disk-pool has none')
    storage_class(cay, "foreign", provisioner="example.com/nfs")
    claim(cay, "foreign", "16Mi", storageClassName="foreign")
    assert "'example.com/nfs'" in wait_until(lambda: events(cay, "foreign").get("ExternalProvisioning"))


def test_a_volume_for_one_pod_waits_for_its_end(cay):
    claim(cay, "single", "16Mi", accessModes=["ReadWriteOncePod"])
    create(cay, user_of("one", "single"))
    create(cay, user_of("two", "single"), lambda o: "is used by another Pod, and its access mode is ReadWriteOncePod" in message(o))
    sh(cay, "one", "echo first > /v/f")
    end(cay, "one")
    cay.wait(PODS, "two", ready)
    assert sh(cay, "two", "cat /v/f").stdout == "first\n"


def with_own_volume(name, **spec):
    body = user_of(name, "")
    body["spec"]["volumes"] = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": dict({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}, **spec)}}}]
    return body


def test_an_ephemeral_volume_is_a_claim_that_goes_with_its_pod(cay):
    obj = create(cay, with_own_volume("own"))
    made, _ = bound(cay, "own-v")
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", obj["metadata"]["uid"], True)
    assert made["metadata"]["labels"] == {"a": "b"} and limits(cay)[f"volumes/{made['metadata']['uid']}"][1] == 16 << 20
    cay.kubectl("delete", "pvc", "own-v", "--wait=false")  # in use
    sh(cay, "own", "echo x > /v/f")
    assert cay.api("GET", f"{CLAIMS}/own-v")["metadata"]["deletionTimestamp"]
    end(cay, "own")
    cay.wait(CLAIMS, "own-v", lambda o: o is None)
    cay.wait(VOLUMES, made["spec"]["volumeName"], lambda o: o is None)
    # A claim of that name that is somebody else's is not the Pod's.
    claim(cay, "taken-v", "16Mi")
    create(cay, with_own_volume("taken"), lambda o: 'persistentvolumeclaim "taken-v" was not created for this Pod' in message(o))
    with pytest.raises(ApiError, match="volumeClaimTemplate.spec.accessModes: Required value"):
        create(cay, with_own_volume("wrong", accessModes=[]))


def test_a_volume_of_another_kind_is_bound_and_not_mounted(cay):
    body = volume("nfs", "x", storageClassName="nfs")
    body["spec"].update(csi=None, nfs={"server": "192.0.2.1", "path": "/"})
    cay.api("POST", VOLUMES, body)
    claim(cay, "nfs", "16Mi", storageClassName="nfs")
    bound(cay, "nfs")
    create(cay, user_of("nfs", "nfs"), lambda o: 'persistentvolume "nfs": this node mounts no volumes but those of' in message(o))
    # Nor can it be deleted or recycled here.
    cay.api("PATCH", f"{VOLUMES}/nfs", {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}}, content_type=MERGE)
    end(cay, "nfs")
    cay.kubectl("delete", "pvc", "nfs")
    assert "set spec.persistentVolumeReclaimPolicy to Retain" in cay.wait(VOLUMES, "nfs", phase("Failed"))["status"]["message"]
    cay.api("PATCH", f"{VOLUMES}/nfs", {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}, content_type=MERGE)
    assert "message" not in cay.wait(VOLUMES, "nfs", phase("Released"))["status"]


def test_a_volume_may_be_read_only_whatever_its_pods_say(cay):
    body = volume("reads", "hand-reads", storageClassName="reads", claimRef={"namespace": "default", "name": "reads"})
    body["spec"]["csi"]["readOnly"] = True
    cay.api("POST", VOLUMES, body)
    claim(cay, "reads", "16Mi", storageClassName="reads")
    create(cay, user_of("reads", "reads"))
    assert "Read-only file system" in sh(cay, "reads", "touch /v/x 2>&1; true").stdout


def test_a_claim_whose_volume_was_torn_away_is_lost(cay):
    uid = claim(cay, "torn", "16Mi")
    bound(cay, "torn")
    cay.api("PATCH", f"{VOLUMES}/pvc-{uid}", {"metadata": {"finalizers": None}}, content_type=MERGE)
    cay.api("DELETE", f"{VOLUMES}/pvc-{uid}")
    cay.wait(CLAIMS, "torn", phase("Lost"))
    assert "has lost its PersistentVolume" in wait_until(lambda: events(cay, "torn").get("ClaimLost"))


def test_contents_are_given_to_the_fs_group_and_links_lead_nowhere(cay):
    """A volume that a hostile sandbox has filled, then mounted by a Pod of another user with an fsGroup."""
    canary = os.path.join(cay.data_dir, "canary")
    os.makedirs(canary, mode=0o700)
    secret = os.path.join(canary, "secret")
    with open(secret, "w"):
        os.chmod(secret, 0o600)
    uid = claim(cay, "grouped", "32Mi")
    create(cay, user_of("before", "grouped"))
    sh(cay, "before", f"cd /v; umask 077; mkdir -p d/e; echo data > d/e/f; ln d/e/f d/hard; mkfifo d/fifo; ln -s {secret} d/link; "
                      f"ln -s {canary} d/e/dir; cp /bin/true d/suid; chmod 6755 d/suid; chown -R 0:0 .")
    end(cay, "before")
    body = user_of("after", "grouped")
    body["spec"]["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000, "supplementalGroups": [3000]}
    create(cay, body)
    assert set(sh(cay, "after", "id -G").stdout.split()) == {"1000", "2000", "3000"}
    assert sh(cay, "after", "cd /v/d; cat e/f; echo more >> e/f; echo new > e/new; stat -c '%u:%g %a' . e/f e/new suid fifo").stdout.split("\n") == [
        "data", "0:2000 2770", "0:2000 660", "1000:2000 644", "0:2000 775", "0:2000 660", ""]
    assert os.stat(cay.pool("volumes", uid, "d", "e")).st_gid == 2000
    for path, mode in ((canary, 0o700), (secret, 0o600)):
        st = os.stat(path)
        assert (st.st_gid, st.st_mode & 0o7777) == (0, mode), path
    # With OnRootMismatch, what is right at the top is left alone; by default everything is looked at.
    sh(cay, "after", "chmod 600 /v/d/e/new")
    end(cay, "after")
    body["spec"]["securityContext"]["fsGroupChangePolicy"] = "OnRootMismatch"
    create(cay, body)
    assert sh(cay, "after", "stat -c %a /v/d/e/new").stdout == "600\n"
    end(cay, "after")
    del body["spec"]["securityContext"]["fsGroupChangePolicy"]
    create(cay, body)
    assert sh(cay, "after", "stat -c %a /v/d/e/new").stdout == "660\n"


SPEC = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}, "csi": {"driver": DRIVER, "volumeHandle": "x"}}
CLASS = {"provisioner": PROVISIONER}


@pytest.mark.parametrize("path,body,field", [
    (VOLUMES, {"spec": SPEC}, None),
    (VOLUMES, {"spec": dict(SPEC, accessModes=[])}, "spec.accessModes"),
    (VOLUMES, {"spec": dict(SPEC, accessModes=["Often"])}, "spec.accessModes"),
    (VOLUMES, {"spec": dict(SPEC, accessModes=["ReadWriteOncePod", "ReadWriteMany"])}, "spec.accessModes"),
    (VOLUMES, {"spec": dict(SPEC, capacity={"storage": "0"})}, "spec.capacity[storage]"),
    (VOLUMES, {"spec": dict(SPEC, capacity={"storage": "1", "cpu": "1"})}, "spec.capacity"),
    (VOLUMES, {"spec": dict(SPEC, persistentVolumeReclaimPolicy="Forget")}, "spec.persistentVolumeReclaimPolicy"),
    (VOLUMES, {"spec": dict(SPEC, volumeMode="Tape")}, "spec.volumeMode"),
    (VOLUMES, {"spec": dict(SPEC, storageClassName="a b")}, "spec.storageClassName"),
    (VOLUMES, {"spec": dict(SPEC, csi=None)}, "spec"),
    (VOLUMES, {"spec": dict(SPEC, hostPath={"path": "/x"})}, "spec.csi"),
    (VOLUMES, {"spec": dict(SPEC, csi={"driver": DRIVER, "volumeHandle": "../x"})}, "spec.csi.volumeHandle"),
    (VOLUMES, {"spec": dict(SPEC, csi={"driver": DRIVER, "volumeHandle": ""})}, "spec.csi.volumeHandle"),
    (VOLUMES, {"spec": dict(SPEC, csi=None, local={"path": "/x"})}, "spec.nodeAffinity"),
    (VOLUMES, {"spec": dict(SPEC, csi=None, hostPath={"path": "/a/../b"})}, "spec.hostPath.path"),
    (VOLUMES, {"spec": dict(SPEC, csi=None, hostPath={"path": "/a", "type": "Door"})}, "spec.hostPath.type"),
    (VOLUMES, {"spec": dict(SPEC, nodeAffinity={})}, "spec.nodeAffinity.required"),
    (VOLUMES, {"spec": dict(SPEC, nodeAffinity={"required": {"nodeSelectorTerms": []}})}, "spec.nodeAffinity.required.nodeSelectorTerms"),
    (CLASSES, CLASS, None),
    (CLASSES, {"provisioner": ""}, "provisioner"),
    (CLASSES, {"provisioner": "a b"}, "provisioner"),
    (CLASSES, dict(CLASS, reclaimPolicy="Recycle"), "reclaimPolicy"),
    (CLASSES, dict(CLASS, volumeBindingMode="Never"), "volumeBindingMode"),
    (CLASSES, dict(CLASS, parameters={"": "x"}), "parameters"),
])
def test_what_kubernetes_refuses_is_refused_by_its_field(cay, path, body, field):
    body = dict({"metadata": {"generateName": "x-"}}, **body)
    if not field:
        made = cay.api("POST", f"{path}?dryRun=All", body)
        spec = made.get("spec", made)
        assert spec.get("persistentVolumeReclaimPolicy", "Retain") == "Retain" and spec.get("reclaimPolicy", "Delete") == "Delete"
        return
    with pytest.raises(ApiError) as refused:
        cay.api("POST", f"{path}?dryRun=All", body)
    assert refused.value.code == 422
    assert [c["field"] for c in refused.value.status["details"]["causes"]] == [field]


@pytest.mark.parametrize("path,patch,field", [
    (VOLUMES, {"spec": {"csi": {"volumeHandle": "y"}}}, "spec.persistentvolumesource"),
    (VOLUMES, {"spec": {"volumeMode": "Block"}}, "volumeMode"),
    (VOLUMES, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, None),
    (CLASSES, {"provisioner": "a/b"}, "provisioner"), (CLASSES, {"reclaimPolicy": "Retain"}, "reclaimPolicy"),
    (CLASSES, {"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode"),
    (CLASSES, {"parameters": {"a": "b"}}, "parameters"), (CLASSES, {"allowVolumeExpansion": True}, None),
])
def test_what_stays_as_it_was_made(cay, path, patch, field):
    with_name = {"metadata": {"name": "stays"}}
    try:
        cay.api("POST", path, dict(with_name, spec=SPEC) if path == VOLUMES else dict(with_name, **CLASS))
    except ApiError as e:
        assert e.code == 409
    if not field:
        cay.api("PATCH", f"{path}/stays?dryRun=All", patch, content_type=MERGE)
        return
    with pytest.raises(ApiError) as refused:
        cay.api("PATCH", f"{path}/stays?dryRun=All", patch, content_type=MERGE)
    assert refused.value.code == 422
    assert [c["field"] for c in refused.value.status["details"]["causes"]] == [field]


def test_kubectl_shows_volumes_and_classes(cay):
    claim(cay, "shown", "16Mi")
    bound(cay, "shown")
    assert "cay (default)" in cay.kubectl("get", "sc").stdout
    row = next(line for line in cay.kubectl("get", "pv").stdout.splitlines() if "default/shown" in line)
    assert row.split()[1:7] == ["16Mi", "RWO", "Delete", "Bound", "default/shown", "cay"]


def age(cay):
    """Takes everything out of the store that a version without volumes and classes did not write."""
    with sqlite3.connect(os.path.join(cay.data_dir, "store.db")) as db:
        db.execute("DELETE FROM objects WHERE key LIKE 'persistentvolumes/%' OR key LIKE 'storageclasses%'")
        rows = db.execute("SELECT key, value FROM objects WHERE key LIKE 'persistentvolumeclaims/%'").fetchall()
        for key, value in rows:
            obj = json.loads(value)
            obj["metadata"].pop("annotations", None)
            obj["spec"].pop("volumeName", None)
            obj["spec"].pop("storageClassName", None)
            db.execute("UPDATE objects SET value = ?, sum = NULL WHERE key = ?", (json.dumps(obj).encode(), key))
    db.close()
    return len(rows)


def test_claims_of_an_earlier_version_get_their_volumes(fresh):
    cay = fresh()
    uid = claim(cay, "old", "16Mi")
    claim(cay, "unused", "16Mi")
    create(cay, user_of("old", "old"))
    sh(cay, "old", "echo before > /v/f")
    cay.kill()
    assert age(cay) == 2
    cay.start()
    obj, pv = bound(cay, "old")
    assert pv["spec"]["csi"]["volumeHandle"] == uid and obj["spec"]["storageClassName"] == "cay"
    bound(cay, "unused")
    assert sh(cay, "old", "cat /v/f").stdout == "before\n"
    create(cay, user_of("new", "old"))
    assert sh(cay, "new", "cat /v/f").stdout == "before\n"
    cay.api("PATCH", f"{CLAIMS}/old", {"spec": {"resources": {"requests": {"storage": "32Mi"}}}}, content_type=MERGE)
    cay.wait(CLAIMS, "old", lambda o: o["status"]["capacity"]["storage"] == "32Mi")
    cay.wait(VOLUMES, pv["metadata"]["name"], lambda o: o["spec"]["capacity"]["storage"] == "32Mi")


def churn(cay, number, known, seed):
    """Makes and deletes claims until the server goes, and Pods with volumes of their own. known: what was acknowledged last of
    the claims, None while it is not certain."""
    client, chance = Cay.__new__(Cay), random.Random(seed)
    client.__dict__.update(cay.__dict__, _conn=None)

    def claims_one(name):
        there, known[name] = known.get(name), None
        if there:
            client.api("DELETE", f"{CLAIMS}/{name}")
        else:
            claim(client, name, "16Mi", **({"dataSource": clone_of("origin")} if chance.random() < 0.3 else {}))
        known[name] = not there

    def runs_one(name):
        try:
            client.api("POST", PODS, with_own_volume(name))
        except ApiError:
            client.api("DELETE", f"{PODS}/{name}")

    try:
        while True:
            try:
                claims_one(f"c{number}-{chance.randrange(6)}")
                runs_one(f"p{number}-{chance.randrange(3)}")
            except ApiError as e:
                assert e.code in (404, 409), e  # the name is not free yet, or already is
    except GONE:
        pass


def agree(cay):
    """Whether every claim has its volume, every volume its claim, and every directory its volume."""
    claims = {c["metadata"]["uid"]: c["status"]["phase"] for c in cay.api("GET", CLAIMS)["items"]}
    volumes = {v["spec"]["claimRef"]["uid"]: v["status"]["phase"] for v in cay.api("GET", VOLUMES)["items"]}
    return claims == volumes and set(claims.values()) == {"Bound"} and set(os.listdir(cay.pool("volumes"))) <= set(claims)


def test_kills_in_the_middle_of_binding_lose_nothing_and_leave_nothing(fresh):
    cay, known, chance = fresh(), {}, random.Random(5)
    claim(cay, "origin", "16Mi")
    create(cay, user_of("origin", "origin"))
    sh(cay, "origin", "echo data > /v/f")
    n = n_own = 0
    for _ in range(8):
        threads = [threading.Thread(target=churn, args=(cay, i, known, chance.random())) for i in range(3)]
        for t in threads:
            t.start()
        threading.Event().wait(chance.uniform(0.05, 0.4))
        cay.kill()
        for t in threads:
            t.join()
        cay.start()
        there = {c["metadata"]["name"] for c in cay.api("GET", CLAIMS)["items"]}
        assert not [name for name, expected in known.items() if expected and name not in there]
        wait_until(lambda: agree(cay), timeout=120)
        wait_until(lambda: not cay.census()[1], timeout=120)  # Pods that were deleted may still be ending
        known.update({name: name in there for name in known})
        n, n_own = n + len(there), n_own + len([name for name in there if name.startswith("p")])
    assert n > 30 and n_own > 5, "the kills came before anything happened"
