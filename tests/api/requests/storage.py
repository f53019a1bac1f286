# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumeClaims, PersistentVolumes and StorageClasses: one odd field in each request."""

CLAIMS = "/api/v1/namespaces/$NS/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
JSON_PATCH = "application/json-patch+json"
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "c"}
VOLUME = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": {"driver": "a.b", "volumeHandle": "v"}}


def without_none(fields):
    return {k: v for k, v in fields.items() if v is not None}


def create(name, path, kind, **fields):
    version = path.split("/apis/")[-1].rsplit("/", 1)[0] if "/apis/" in path else "v1"
    return {"name": name, "method": "POST", "path": path + "?dryRun=All", "drop": ["metadata", "status"],
            "body": {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}}


def claims(*rows):
    return [create(name, CLAIMS, "PersistentVolumeClaim", spec=without_none({**CLAIM, **spec})) for name, spec in rows]


def volumes(*rows):
    return [create(name, VOLUMES, "PersistentVolume", spec=without_none({**VOLUME, **spec})) for name, spec in rows]


def classes(*rows):
    return [create(name, CLASSES, "StorageClass", **without_none({"provisioner": "a/b", **fields})) for name, fields in rows]


def source(**fields):
    return {"csi": None, **fields}


def patches(path, *rows):
    return [{"name": what, "method": "PATCH", "path": path + "?dryRun=All", "type": JSON_PATCH, "drop": ["metadata", "status"],
             "body": [{"op": "add", "path": "/" + at, "value": value}]} for what, at, value in rows]


def size(value):
    return {"resources": {"requests": {"storage": value}}}


STORIES = {
    "claims": claims(
        ("good", {}), ("no modes", {"accessModes": None}), ("empty modes", {"accessModes": []}), ("mode wrong", {"accessModes": ["Sometimes"]}),
        ("two modes", {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}), ("alone with others", {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}),
        ("alone", {"accessModes": ["ReadWriteOncePod"]}), ("alone with a wrong one", {"accessModes": ["ReadWriteOncePod", "x"]}),
        ("no resources", {"resources": None}), ("no size", {"resources": {}}), ("size zero", size("0")), ("size negative", size("-1Gi")), ("size oddly written", size("1024Mi")),
        ("size no quantity", size("big")), ("size of a fraction", size("1.5Gi")), ("limits", {"resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}}}),
        ("class bad", {"storageClassName": "A"}), ("class empty", {"storageClassName": ""}), ("mode of the volume wrong", {"volumeMode": "x"}), ("mode of the volume", {"volumeMode": "Filesystem"}),
        ("selector", {"selector": {"matchLabels": {"a": "b"}}}), ("selector bad", {"selector": {"matchLabels": {"a b": "c"}}}),
        ("selector operator", {"selector": {"matchExpressions": [{"key": "a", "operator": "x"}]}}), ("volume", {"volumeName": "v"}),
        ("source", {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}}), ("source empty", {"dataSource": {}}), ("source without name", {"dataSource": {"kind": "PersistentVolumeClaim"}}),
        ("source of another kind", {"dataSource": {"kind": "Pod", "name": "a"}}), ("source group bad", {"dataSource": {"apiGroup": "A", "kind": "X", "name": "a"}}),
        ("reference without kind", {"dataSourceRef": {"name": "a"}}), ("two sources", {"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"}, "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"}}),
        ("everything wrong", {"accessModes": ["x"], "resources": {}, "storageClassName": "A", "volumeMode": "y"}),
    ),
    "change of a claim": [
        dict(create("create", CLAIMS, "PersistentVolumeClaim", spec=CLAIM), path=CLAIMS),
        *patches(CLAIMS + "/x", ("same", "spec/volumeMode", "Filesystem"), ("mode of the volume wrong", "spec/volumeMode", "x"), ("labels", "metadata/labels", {"a": "b"})),
        {"name": "delete", "method": "DELETE", "path": CLAIMS + "/x", "see": ["kind"]},
    ],
    "volumes": volumes(
        ("good", {}), ("no modes", {"accessModes": None}), ("mode wrong", {"accessModes": ["x"]}), ("alone with others", {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}),
        ("no capacity", {"capacity": None}), ("capacity empty", {"capacity": {}}), ("capacity zero", {"capacity": {"storage": "0"}}), ("capacity negative", {"capacity": {"storage": "-1"}}),
        ("capacity of cpu", {"capacity": {"cpu": "1"}}), ("capacity oddly written", {"capacity": {"storage": "1024Mi"}}),
        ("no source", source()), ("two sources", {"nfs": {"server": "a", "path": "/"}}), ("reclaim wrong", {"persistentVolumeReclaimPolicy": "Keep"}),
        ("reclaim", {"persistentVolumeReclaimPolicy": "Delete"}), ("class bad", {"storageClassName": "A"}), ("mode of the volume wrong", {"volumeMode": "x"}),
        ("block", {"volumeMode": "Block"}), ("options", {"mountOptions": ["ro"]}),
        ("csi empty", source(csi={})), ("csi driver bad", source(csi={"driver": "a b", "volumeHandle": "v"})), ("csi secret", source(csi={"driver": "a.b", "volumeHandle": "v", "nodePublishSecretRef": {}})),
        ("host path", source(hostPath={"path": "/a"})), ("host path empty", source(hostPath={})), ("host path up", source(hostPath={"path": "/a/../b"})),
        ("host path type", source(hostPath={"path": "/a", "type": "x"})), ("host path root recycled", {**source(hostPath={"path": "/"}), "persistentVolumeReclaimPolicy": "Recycle"}),
        ("local", {**source(local={"path": "/a"})}), ("local up", source(local={"path": "/a/.."})),
        ("local with affinity", {**source(local={"path": "/a"}), "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}),
        ("affinity empty", {"nodeAffinity": {}}), ("affinity without terms", {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}),
        ("affinity operator", {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "x"}]}]}}}),
        ("affinity values", {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}}}),
        ("nfs", source(nfs={"server": "a", "path": "/b"})), ("nfs empty", source(nfs={})), ("nfs relative", source(nfs={"server": "a", "path": "b"})),
        ("fc empty", source(fc={})), ("iscsi empty", source(iscsi={})), ("flex empty", source(flexVolume={})), ("gce empty", source(gcePersistentDisk={})),
        ("aws empty", source(awsElasticBlockStore={})), ("rbd empty", source(rbd={})), ("cephfs empty", source(cephfs={})),
    ),
    "classes": classes(
        ("good", {}), ("no provisioner", {"provisioner": None}), ("provisioner bad", {"provisioner": "a b"}), ("provisioner upper", {"provisioner": "A/B"}),
        ("provisioner slashes", {"provisioner": "a/b/c"}), ("reclaim", {"reclaimPolicy": "Retain"}), ("reclaim wrong", {"reclaimPolicy": "Recycle"}), ("reclaim empty", {"reclaimPolicy": ""}),
        ("binding", {"volumeBindingMode": "WaitForFirstConsumer"}), ("binding wrong", {"volumeBindingMode": "Later"}), ("binding empty", {"volumeBindingMode": ""}),
        ("parameters", {"parameters": {"a": "b"}}), ("parameter without name", {"parameters": {"": "b"}}), ("many parameters", {"parameters": {f"p{i}": "" for i in range(513)}}),
        ("expansion", {"allowVolumeExpansion": True}), ("options", {"mountOptions": ["ro"]}),
        ("topologies", {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]}),
        ("topology without values", {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": []}]}]}),
        ("topology key", {"allowedTopologies": [{"matchLabelExpressions": [{"key": "a b", "values": ["a"]}]}]}),
        ("topology value twice", {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]}]}),
        ("topology key twice", {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}, {"key": "zone", "values": ["b"]}]}]}),
    ),
    "change of a class": [
        dict(create("create", CLASSES, "StorageClass", provisioner="a/b", parameters={"a": "b"}), path=CLASSES),
        *patches(CLASSES + "/x", ("provisioner", "provisioner", "c/d"), ("parameters", "parameters", {"c": "d"}), ("reclaim", "reclaimPolicy", "Retain"),
                 ("binding", "volumeBindingMode", "WaitForFirstConsumer"), ("expansion", "allowVolumeExpansion", True), ("nothing", "provisioner", "a/b")),
        {"name": "delete", "method": "DELETE", "path": CLASSES + "/x", "see": ["provisioner"]},
    ],
}
