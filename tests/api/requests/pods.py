# SPDX-License-Identifier: Apache-2.0
"""What a Pod may be: one odd field in each request, which none of them stores, and the defaults of those that are accepted."""

PODS = "/api/v1/namespaces/$NS/pods?dryRun=All"
LONG = "a" * 64
# Here Pods have a node at once, and neither priorities nor tolerations by default: docs/reference/differences.md.
DROP = ["spec.nodeName", "spec.priority", "spec.preemptionPolicy", "spec.tolerations", "status", "metadata"]


def create(name, spec, **meta):
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **meta}, "spec": {"automountServiceAccountToken": False, **spec}}
    return {"name": name, "method": "POST", "path": PODS, "body": body, "drop": DROP}


def container(**fields):
    return {"name": "c", "image": "i:1", **fields}


def specs(*rows):
    """Of each row a Pod with these fields."""
    return [create(name, {"containers": [container()], **fields}) for name, fields in rows]


def containers(*rows):
    """Of each row a Pod whose container has these fields."""
    return [create(name, {"containers": [container(**fields)]}) for name, fields in rows]


def each(field, **values):
    """Rows of a field, one for each value."""
    return [(f"{field} {name.replace('_', ' ')}", {field: value}) for name, value in values.items()]


def volumes(*rows):
    return [create(name, {"volumes": [v if "name" in v else {"name": "v", **v}], "containers": [container()]}) for name, v in rows]


def mounts(*rows):
    two = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
    return [create(name, {"volumes": two, "containers": [container(volumeMounts=list(m))]}) for name, m in rows]


def contexts(*rows):
    return [(name, {"securityContext": c}) for name, c in rows]


def probes(*rows):
    return [(name, {"livenessProbe": p}) for name, p in rows]


def http(**fields):
    return {"httpGet": {"port": 80, **fields}}


def resources(*rows):
    return [(name, {"resources": r}) for name, r in rows]


def env(*rows):
    return [(name, {"env": list(e)}) for name, e in rows]


def source(**fields):
    return {"name": "A", "valueFrom": fields}


def affinity(*rows):
    return specs(*((name, {"affinity": a}) for name, a in rows))


def node_terms(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key="a", op="In", **rest):
    return {"matchExpressions": [{"key": key, "operator": op, **rest}]}


def pod_term(**fields):
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a", **fields}]}}


def tolerations(*rows):
    return specs(*((name, {"tolerations": [t]}) for name, t in rows))


def spread(*rows):
    base = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"a": "b"}}}
    return specs(*((name, {"topologySpreadConstraints": [{k: v for k, v in {**base, **t}.items() if v is not None}]}) for name, t in rows))


def inits(*rows):
    return [create(name, {"containers": [container()], "initContainers": [container(**{"name": "i", **fields})]}) for name, fields in rows]


def keyed(volume, field):
    """Volumes of files that come from keys."""
    return [
        (f"{volume} without name", {volume: {}}),
        (f"{volume} mode 0777", {volume: {field: "a", "defaultMode": 0o777}}),
        (f"{volume} mode too large", {volume: {field: "a", "defaultMode": 0o1000}}),
        (f"{volume} mode negative", {volume: {field: "a", "defaultMode": -1}}),
        (f"{volume} items", {volume: {field: "a", "items": [{"key": "k", "path": "a/b", "mode": 0o400}], "optional": True}}),
        (f"{volume} item without key", {volume: {field: "a", "items": [{"path": "p"}]}}),
        (f"{volume} item without path", {volume: {field: "a", "items": [{"key": "k"}]}}),
        (f"{volume} item path absolute", {volume: {field: "a", "items": [{"key": "k", "path": "/p"}]}}),
        (f"{volume} item path up", {volume: {field: "a", "items": [{"key": "k", "path": "a/../b"}]}}),
        (f"{volume} item path dotdot", {volume: {field: "a", "items": [{"key": "k", "path": "..a"}]}}),
        (f"{volume} item mode", {volume: {field: "a", "items": [{"key": "k", "path": "p", "mode": 512}]}}),
    ]


def projections(*rows):
    return [(f"projected {name}", {"projected": p}) for name, p in rows]


STORIES = {
    "spec": [
        create("defaults", {"containers": [container()]}),
        create("defaults of latest", {"containers": [container(image="i")]}),
        create("defaults of digest", {"containers": [container(image="reg:5000/i@sha256:" + "0" * 64)]}),
        create("defaults with port in registry", {"containers": [container(image="reg:5000/i")]}),
        create("no containers", {}),
        create("empty containers", {"containers": []}),
        {"name": "no spec", "method": "POST", "path": PODS, "body": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}},
    ] + specs(
        *each("restartPolicy", always="Always", on_failure="OnFailure", never="Never", wrong="Sometimes", lower="always", empty=""),
        *each("dnsPolicy", default="Default", host="ClusterFirstWithHostNet", wrong="Cluster", empty=""),
        *each("terminationGracePeriodSeconds", zero=0, negative=-1, large=1 << 40),
        *each("activeDeadlineSeconds", zero=0, one=1, negative=-5, large=1 << 31, largest=(1 << 31) - 1),
        *each("nodeName", upper="Node", underscore="a_b"),
        *each("hostname", upper="Host", dotted="a.b", long=LONG, good="h-1"),
        *each("subdomain", upper="Sub", dotted="a.b", good="s"),
        *each("schedulerName", upper="My", other="other"),
        *each("priorityClassName", unknown="none-such"),
        *each("runtimeClassName", unknown="none-such"),
        *each("preemptionPolicy", wrong="Maybe", never="Never"),
        *each("nodeSelector", bad_key={"a b": "c"}, bad_value={"a": "b c"}, good={"disk": "ssd"}, two_slashes={"a/b/c": "d"}),
        *each("hostNetwork", true=True), *each("hostPID", true=True), *each("hostIPC", true=True),
        *each("shareProcessNamespace", true=True), *each("hostUsers", false=False, true=True),
        *each("setHostnameAsFQDN", true=True), *each("enableServiceLinks", false=False),
        *each("automountServiceAccountToken", false=False),
        *each("imagePullSecrets", unnamed=[{}], good=[{"name": "a"}], twice=[{"name": "a"}, {"name": "a"}]),
        ("host PID and shared", {"hostPID": True, "shareProcessNamespace": True}),
        ("host users and network", {"hostUsers": False, "hostNetwork": True}),
        ("host users and PID", {"hostUsers": False, "hostPID": True}),
        ("host users and IPC", {"hostUsers": False, "hostIPC": True}),
        ("unknown field", {"nonsense": 1}),
        ("priority", {"priority": 5}),
        ("service account by its old name", {"serviceAccount": "default"}),
        ("ephemeral containers", {"ephemeralContainers": [container(name="e")]}),
        *each("hostnameOverride", upper="Host", good="a.b"),
        ("hostnameOverride with host network", {"hostnameOverride": "a", "hostNetwork": True}),
        ("hostnameOverride with FQDN", {"hostnameOverride": "a", "setHostnameAsFQDN": True}),
        ("several at once", {"restartPolicy": "x", "dnsPolicy": "y", "activeDeadlineSeconds": 0, "hostname": "H"}),
    ),
    "gates and claims": specs(
        *each("readinessGates", good=[{"conditionType": "www.a.b/c"}], none=[{}], bad=[{"conditionType": "a b"}]),
        *each("schedulingGates", unnamed=[{}], bad=[{"name": "a b"}], twice=[{"name": "a/b"}, {"name": "a/b"}]),
        ("schedulingGates with node", {"schedulingGates": [{"name": "a/b"}], "nodeName": "n"}),
        *each("os", linux={"name": "linux"}, wrong={"name": "plan9"}, none={}),
        *each("resourceClaims", unnamed=[{"resourceClaimName": "a"}], none=[{"name": "a"}],
              both=[{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}],
              twice=[{"name": "a", "resourceClaimName": "b"}, {"name": "a", "resourceClaimName": "b"}],
              bad_name=[{"name": "A", "resourceClaimName": "b"}], bad_claim=[{"name": "a", "resourceClaimName": "B"}],
              bad_template=[{"name": "a", "resourceClaimTemplateName": "B"}], good=[{"name": "a", "resourceClaimName": "b"}]),
        *each("overhead", without_class={"cpu": "1"}),
        *each("resources", limits={"limits": {"cpu": "1"}}, below={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
              other={"limits": {"a.b/c": "1"}}, claims={"claims": [{"name": "a"}]}),
    ) + [
        create("claim of a container", {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
                                        "containers": [container(resources={"claims": [{"name": "a"}]})]}),
        create("unknown claim of a container", {"containers": [container(resources={"claims": [{"name": "a"}]})]}),
        create("claim of a container twice", {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}],
                                              "containers": [container(resources={"claims": [{"name": "a"}, {"name": "a"}]})]}),
    ],
    "windows": [
        create("os windows", {"os": {"name": "windows"}, "containers": [container()]}),
        create("os windows with host network", {"os": {"name": "windows"}, "hostNetwork": True, "containers": [container()]}),
        create("os windows with user", {"os": {"name": "windows"}, "securityContext": {"runAsUser": 1, "fsGroup": 2},
                                        "containers": [container(securityContext={"privileged": False, "capabilities": {"add": ["A"]}})]}),
        create("os linux with windows options", {"os": {"name": "linux"}, "containers": [
            container(securityContext={"windowsOptions": {"runAsUserName": "a"}})]}),
        create("windows options", {"securityContext": {"windowsOptions": {"runAsUserName": ""}}, "containers": [container()]}),
        create("host process", {"securityContext": {"windowsOptions": {"hostProcess": True}}, "containers": [container()]}),
    ],
    "dns and hosts": specs(
        *each("dnsConfig", good={"nameservers": ["1.2.3.4"], "searches": ["a.b"], "options": [{"name": "ndots", "value": "2"}]},
              bad_server={"nameservers": ["1.2.3"]}, too_many_servers={"nameservers": ["1.1.1.1"] * 4},
              bad_search={"searches": ["a_b.c!"]}, too_many_searches={"searches": ["a"] * 33}, dot={"searches": ["."]},
              long_searches={"searches": ["a" * 60 + "." + "b" * 60 + "." + "c" * 60 + "." + "d" * 50] * 12},
              option_without_name={"options": [{"value": "2"}]}),
        ("dns none without servers", {"dnsPolicy": "None"}),
        ("dns none with servers", {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}),
        ("dns none with searches", {"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}}),
        *each("hostAliases", good=[{"ip": "1.2.3.4", "hostnames": ["a", "b.c"]}], no_ip=[{"hostnames": ["a"]}],
              bad_ip=[{"ip": "x", "hostnames": ["a"]}], bad_name=[{"ip": "1.2.3.4", "hostnames": ["A_"]}],
              twice=[{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}], zeros=[{"ip": "010.1.1.1"}]),
    ),
    "security of the Pod": specs(*contexts(
        ("all good", {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4], "runAsNonRoot": True}),
        ("user negative", {"runAsUser": -1}), ("user too large", {"runAsUser": 1 << 31}), ("user largest", {"runAsUser": (1 << 31) - 1}),
        ("group negative", {"runAsGroup": -1}), ("fs group too large", {"fsGroup": 1 << 31}),
        ("supplemental negative", {"supplementalGroups": [1, -1]}),
        ("supplemental policy", {"supplementalGroupsPolicy": "Strict"}), ("supplemental policy wrong", {"supplementalGroupsPolicy": "Loose"}),
        ("fs change policy", {"fsGroupChangePolicy": "OnRootMismatch"}), ("fs change policy wrong", {"fsGroupChangePolicy": "Never"}),
        ("sysctl", {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]}),
        ("sysctl without name", {"sysctls": [{"value": "1"}]}), ("sysctl bad name", {"sysctls": [{"name": "a b", "value": "1"}]}),
        ("sysctl twice", {"sysctls": [{"name": "a.b", "value": "1"}, {"name": "a.b", "value": "2"}]}),
        ("sysctl upper", {"sysctls": [{"name": "A.b", "value": "1"}]}), ("sysctl slash", {"sysctls": [{"name": "net/ipv4/x", "value": "1"}]}),
        ("seccomp", {"seccompProfile": {"type": "RuntimeDefault"}}), ("seccomp without type", {"seccompProfile": {}}),
        ("seccomp wrong", {"seccompProfile": {"type": "Nice"}}), ("seccomp local", {"seccompProfile": {"type": "Localhost"}}),
        ("seccomp local file", {"seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"}}),
        ("seccomp local up", {"seccompProfile": {"type": "Localhost", "localhostProfile": "../b.json"}}),
        ("seccomp local absolute", {"seccompProfile": {"type": "Localhost", "localhostProfile": "/b.json"}}),
        ("seccomp file of another type", {"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "b.json"}}),
        ("apparmor", {"appArmorProfile": {"type": "RuntimeDefault"}}), ("apparmor without type", {"appArmorProfile": {}}),
        ("apparmor wrong", {"appArmorProfile": {"type": "Nice"}}), ("apparmor local", {"appArmorProfile": {"type": "Localhost"}}),
        ("apparmor local spaces", {"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}}),
        ("apparmor local long", {"appArmorProfile": {"type": "Localhost", "localhostProfile": "a" * 4096}}),
        ("apparmor name of another type", {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}}),
        ("selinux change policy", {"seLinuxChangePolicy": "Recursive"}), ("selinux change policy wrong", {"seLinuxChangePolicy": "x"}),
        ("selinux", {"seLinuxOptions": {"level": "s0"}}),
    )),
    "security of a container": containers(*contexts(
        ("all good", {"runAsUser": 1, "runAsGroup": 2, "readOnlyRootFilesystem": True, "capabilities": {"add": ["A"], "drop": ["ALL"]}}),
        ("user negative", {"runAsUser": -1}), ("group negative", {"runAsGroup": -1}),
        ("admin without escalation", {"capabilities": {"add": ["CAP_SYS_ADMIN"]}, "allowPrivilegeEscalation": False}),
        ("admin by short name without escalation", {"capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": False}),
        ("proc mount", {"procMount": "Default"}), ("proc mount unmasked", {"procMount": "Unmasked"}), ("proc mount wrong", {"procMount": "x"}),
        ("proc mount empty", {"procMount": ""}),
        ("seccomp wrong", {"seccompProfile": {"type": "Nice"}}), ("apparmor wrong", {"appArmorProfile": {"type": "Nice"}}),
        ("everything wrong", {"capabilities": {"add": ["CAP_SYS_ADMIN"], "drop": ["A"]}, "allowPrivilegeEscalation": False, "runAsUser": -2, "procMount": "y",
                              "seccompProfile": {"type": "z"}}),
    )),
    "containers": [
        create("two of a name", {"containers": [container(), container()]}),
        create("three of a name", {"containers": [container(), container(), container()]}),
        create("init of the same name", {"containers": [container()], "initContainers": [container()]}),
        create("everything missing", {"containers": [{}]}),
        create("good and bad", {"containers": [container(), {"name": "B", "image": ""}]}),
    ] + containers(
        *each("name", missing="", upper="C", underscore="a_b", dot="a.b", long=LONG, dash="-a"),
        *each("image", missing="", leading=" i", trailing="i ", space=" "),
        *each("imagePullPolicy", always="Always", wrong="Often", empty="", lower="always"),
        *each("terminationMessagePolicy", good="FallbackToLogsOnError", wrong="Log", empty=""),
        *each("terminationMessagePath", empty="", other="/x"),
        *each("restartPolicy", always="Always", wrong="Sometimes", never="Never", on_failure="OnFailure", empty=""),
        *each("stdin", true=True), *each("tty", true=True), *each("workingDir", relative="a"),
        *each("command", empty=[], list=["a"]),
        *each("resizePolicy", good=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
              twice=[{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2,
              unknown=[{"resourceName": "gpu", "restartPolicy": "NotRequired"}],
              wrong=[{"resourceName": "cpu", "restartPolicy": "x"}], empty=[{}]),
        *each("restartPolicyRules", alone=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
        ("restart rules", {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]}),
        ("restart rules action", {"restartPolicy": "Never", "restartPolicyRules": [{"action": "x", "exitCodes": {"operator": "In", "values": [1]}}]}),
        ("restart rules no codes", {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}),
        ("restart rules operator", {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "x", "values": [1]}}]}),
        ("restart rules no values", {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}]}),
    ),
    "ports": containers(*(
        (name, {"ports": ports}) for name, ports in (
            ("good", [{"containerPort": 80, "name": "http"}, {"containerPort": 53, "protocol": "UDP"}]),
            ("zero", [{"containerPort": 0}]), ("missing", [{"name": "a"}]), ("negative", [{"containerPort": -1}]),
            ("large", [{"containerPort": 65536}]), ("largest", [{"containerPort": 65535}]),
            ("host negative", [{"containerPort": 1, "hostPort": -1}]), ("host large", [{"containerPort": 1, "hostPort": 70000}]),
            ("protocol wrong", [{"containerPort": 1, "protocol": "ICMP"}]), ("protocol lower", [{"containerPort": 1, "protocol": "tcp"}]),
            ("protocol empty", [{"containerPort": 1, "protocol": ""}]), ("sctp", [{"containerPort": 1, "protocol": "SCTP"}]),
            ("name upper", [{"containerPort": 1, "name": "Http"}]), ("name long", [{"containerPort": 1, "name": "a" * 16}]),
            ("name digits", [{"containerPort": 1, "name": "80"}]), ("name dashes", [{"containerPort": 1, "name": "a--b"}]),
            ("name dash", [{"containerPort": 1, "name": "-a"}]), ("name several", [{"containerPort": 1, "name": "-" + "1" * 16 + "--"}]),
            ("name twice", [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
            ("same port twice", [{"containerPort": 1}, {"containerPort": 1}]),
            ("host port twice", [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]),
            ("host port twice of two protocols", [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9, "protocol": "UDP"}]),
        ))) + [
            create("host port of two containers", {"containers": [container(ports=[{"containerPort": 1, "hostPort": 9}]),
                                                                  container(name="d", ports=[{"containerPort": 1, "hostPort": 9}])]}),
            create("host network", {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}),
            create("host network with another port", {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])]}),
    ],
    "environment": containers(*env(
        ("good", [{"name": "A", "value": "1"}, {"name": "a.b-c_D", "value": ""}]),
        ("unnamed", [{"value": "1"}]), ("digit first", [{"name": "1A"}]), ("space", [{"name": "a b"}]), ("equals", [{"name": "a=b"}]),
        ("not ascii", [{"name": "ü"}]), ("twice", [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        ("empty source", [source()]), ("value and source", [{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        ("two sources", [source(fieldRef={"fieldPath": "metadata.name"}, secretKeyRef={"name": "a", "key": "b"})]),
        ("field", [source(fieldRef={"fieldPath": "metadata.name"})]), ("field without path", [source(fieldRef={})]),
        ("field of another version", [source(fieldRef={"apiVersion": "v2", "fieldPath": "metadata.name"})]),
        ("field unknown", [source(fieldRef={"fieldPath": "metadata.nope"})]), ("field spec", [source(fieldRef={"fieldPath": "spec.nodeName"})]),
        ("field label", [source(fieldRef={"fieldPath": "metadata.labels['a']"})]),
        ("field labels", [source(fieldRef={"fieldPath": "metadata.labels"})]),
        ("field label bad", [source(fieldRef={"fieldPath": "metadata.labels['a b']"})]),
        ("field annotation upper", [source(fieldRef={"fieldPath": "metadata.annotations['A']"})]),
        ("field host ips", [source(fieldRef={"fieldPath": "status.hostIPs"})]),
        ("field subscript", [source(fieldRef={"fieldPath": "spec.nodeName['a']"})]),
        ("resource", [source(resourceFieldRef={"resource": "limits.cpu"})]),
        ("resource without name", [source(resourceFieldRef={})]), ("resource unknown", [source(resourceFieldRef={"resource": "limits.gpu"})]),
        ("resource divisor", [source(resourceFieldRef={"resource": "limits.cpu", "divisor": "1m"})]),
        ("resource divisor wrong", [source(resourceFieldRef={"resource": "limits.cpu", "divisor": "2"})]),
        ("resource memory divisor", [source(resourceFieldRef={"resource": "requests.memory", "divisor": "1Mi"})]),
        ("resource memory divisor wrong", [source(resourceFieldRef={"resource": "requests.memory", "divisor": "1m"})]),
        ("resource hugepages", [source(resourceFieldRef={"resource": "limits.hugepages-2Mi"})]),
        ("config", [source(configMapKeyRef={"name": "a", "key": "b"})]), ("config without name", [source(configMapKeyRef={"key": "b"})]),
        ("config without key", [source(configMapKeyRef={"name": "a"})]), ("config bad key", [source(configMapKeyRef={"name": "a", "key": "b c"})]),
        ("config bad name", [source(configMapKeyRef={"name": "A", "key": "b"})]),
        ("secret without name", [source(secretKeyRef={"key": "b"})]), ("secret without key", [source(secretKeyRef={"name": "a"})]),
        ("secret key dots", [source(secretKeyRef={"name": "a", "key": ".."})]),
        ("file", [source(fileKeyRef={"volumeName": "v", "path": "p", "key": "K"})]),
    )) + containers(*(
        (name, {"envFrom": list(e)}) for name, e in (
            ("from config", [{"configMapRef": {"name": "a"}}]), ("from prefix", [{"prefix": "a=", "configMapRef": {"name": "a"}}]),
            ("from good prefix", [{"prefix": "X_", "secretRef": {"name": "a"}}]),
            ("from config without name", [{"configMapRef": {}}]), ("from secret without name", [{"secretRef": {}}]),
            ("from bad name", [{"secretRef": {"name": "A"}}]), ("from nothing", [{}]),
            ("from both", [{"configMapRef": {"name": "a"}, "secretRef": {"name": "a"}}]),
        ))),
    "resources": containers(*resources(
        ("limits", {"limits": {"cpu": "1", "memory": "1Gi"}}), ("requests", {"requests": {"cpu": "100m", "memory": "64Mi"}}),
        ("written oddly", {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5, "memory": 1048576}}),
        ("exponent", {"limits": {"cpu": "1e1", "memory": "1e9"}}), ("fraction of a milli", {"limits": {"cpu": "1.0005"}}),
        ("fraction of a byte", {"limits": {"memory": "1.5"}}), ("milli bytes", {"limits": {"memory": "100m"}}),
        ("below", {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}), ("memory below", {"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}}),
        ("negative", {"limits": {"cpu": "-1"}}), ("negative request", {"requests": {"memory": "-1Gi"}}),
        ("not a quantity", {"limits": {"cpu": "lots"}}), ("unit of nothing", {"limits": {"memory": "1GB"}}), ("empty", {"limits": {"memory": ""}}),
        ("space", {"limits": {"memory": "1 Gi"}}),
        ("unknown", {"limits": {"gpu": "1"}}), ("unknown request", {"requests": {"gpu": "1"}}), ("bad name", {"limits": {"a b": "1"}}),
        ("extended", {"limits": {"a.com/gpu": "1"}}), ("extended fraction", {"limits": {"a.com/gpu": "1.5"}}),
        ("extended below", {"limits": {"a.com/gpu": "2"}, "requests": {"a.com/gpu": "1"}}), ("extended request", {"requests": {"a.com/gpu": "1"}}),
        ("kubernetes domain", {"limits": {"kubernetes.io/x": "1"}}), ("requests prefix", {"limits": {"requests.a.com/gpu": "1"}}),
        ("storage", {"limits": {"storage": "1Gi"}}), ("ephemeral", {"limits": {"ephemeral-storage": "1Gi"}}), ("pods", {"limits": {"pods": "1"}}),
        ("hugepages alone", {"limits": {"hugepages-2Mi": "2Mi"}}),
        ("hugepages", {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}}),
        ("hugepages odd", {"limits": {"hugepages-2Mi": "3Mi", "memory": "1Gi"}}),
        ("hugepages below", {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}, "requests": {"hugepages-2Mi": "2Mi"}}),
        ("hugepages request", {"requests": {"hugepages-2Mi": "2Mi", "cpu": "1"}}),
        ("hugepages size", {"limits": {"hugepages-x": "2Mi", "memory": "1Gi"}}),
        ("zero", {"limits": {"cpu": "0"}}),
    )),
    "mounts": mounts(
        ("good", [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w", "readOnly": True, "subPath": "a/b"}]),
        ("unnamed", [{"mountPath": "/v"}]), ("unknown", [{"name": "x", "mountPath": "/v"}]), ("no path", [{"name": "v"}]),
        ("relative", [{"name": "v", "mountPath": "v"}]), ("colon", [{"name": "v", "mountPath": "/a:b"}]), ("same path", [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v"}]),
        ("sub absolute", [{"name": "v", "mountPath": "/v", "subPath": "/a"}]), ("sub up", [{"name": "v", "mountPath": "/v", "subPath": "a/.."}]),
        ("sub dots", [{"name": "v", "mountPath": "/v", "subPath": "..a"}]),
        ("expression", [{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)"}]),
        ("expression up", [{"name": "v", "mountPath": "/v", "subPathExpr": "../$(A)"}]),
        ("sub and expression", [{"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b"}]),
        ("propagation", [{"name": "v", "mountPath": "/v", "mountPropagation": "HostToContainer"}]),
        ("propagation wrong", [{"name": "v", "mountPath": "/v", "mountPropagation": "x"}]),
        ("bidirectional without privilege", [{"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"}]),
        ("recursive read only", [{"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled"}]),
        ("recursive read only of a writable", [{"name": "v", "mountPath": "/v", "recursiveReadOnly": "Enabled"}]),
        ("recursive read only wrong", [{"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "x"}]),
        ("recursive read only propagated", [{"name": "v", "mountPath": "/v", "readOnly": True, "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"}]),
    ) + [
        create("devices", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}],
                           "containers": [container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])]}),
        create("devices of no claim", {"volumes": [{"name": "v", "emptyDir": {}}], "containers": [container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])]}),
        create("devices without path", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}], "containers": [container(volumeDevices=[{"name": "v"}])]}),
        create("devices unknown", {"containers": [container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])]}),
        create("devices up", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}], "containers": [container(volumeDevices=[{"name": "v", "devicePath": "/dev/../x"}])]}),
        create("of a volume that is wrong", {"volumes": [{"name": "v", "hostPath": {}}], "containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]}),
        create("device and mount", {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "a"}}], "containers": [
            container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}], volumeMounts=[{"name": "v", "mountPath": "/v"}])]}),
    ],
    "volumes": [
        create("two of a name", {"volumes": [{"name": "v"}, {"name": "v"}], "containers": [container()]}),
        create("defaults", {"volumes": [{"name": "a"}, {"name": "b", "emptyDir": {}}, {"name": "c", "hostPath": {"path": "/x"}}, {"name": "d", "secret": {"secretName": "s"}},
                                        {"name": "e", "configMap": {"name": "m"}}, {"name": "f", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                                        {"name": "g", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "m"}}]}},
                                        {"name": "h", "persistentVolumeClaim": {"claimName": "x"}}], "containers": [container()]}),
    ] + volumes(
        ("unnamed", {"name": "", "emptyDir": {}}), ("name upper", {"name": "V", "emptyDir": {}}), ("name dotted", {"name": "a.b", "emptyDir": {}}),
        ("name long", {"name": LONG, "emptyDir": {}}),
        ("two sources", {"emptyDir": {}, "configMap": {"name": "a"}}), ("three sources", {"hostPath": {"path": "/a"}, "emptyDir": {}, "secret": {"secretName": "a"}}),
        ("empty dir in memory", {"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}), ("empty dir medium", {"emptyDir": {"medium": "Tape"}}),
        ("empty dir written oddly", {"emptyDir": {"sizeLimit": "1024Mi"}}), ("empty dir negative", {"emptyDir": {"sizeLimit": "-1"}}), ("empty dir hugepages", {"emptyDir": {"medium": "HugePages"}}),
        ("host without path", {"hostPath": {}}), ("host up", {"hostPath": {"path": "/a/../b"}}), ("host type", {"hostPath": {"path": "/a", "type": "Directory"}}),
        ("host type wrong", {"hostPath": {"path": "/a", "type": "Pipe"}}), ("host relative", {"hostPath": {"path": "a"}}),
        ("claim without name", {"persistentVolumeClaim": {}}), ("claim read only", {"persistentVolumeClaim": {"claimName": "a", "readOnly": True}}),
        ("claim bad name", {"persistentVolumeClaim": {"claimName": "A"}}),
        *keyed("secret", "secretName"), *keyed("configMap", "name"),
        ("downward", {"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}}),
        ("downward mode", {"downwardAPI": {"defaultMode": 512}}), ("downward no path", {"downwardAPI": {"items": [{"fieldRef": {"fieldPath": "metadata.name"}}]}}),
        ("downward nothing", {"downwardAPI": {"items": [{"path": "a"}]}}),
        ("downward both", {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}, "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}]}}),
        ("downward unknown field", {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}}),
        ("downward labels", {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.labels"}}]}}),
        ("downward resource without container", {"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}}),
        ("downward item mode", {"downwardAPI": {"items": [{"path": "a", "mode": -1, "fieldRef": {"fieldPath": "metadata.name"}}]}}),
        ("downward path absolute", {"downwardAPI": {"items": [{"path": "/a", "fieldRef": {"fieldPath": "metadata.name"}}]}}),
        *projections(
            ("empty", {}), ("nothing", {"sources": [{}]}), ("two at once", {"sources": [{"configMap": {"name": "a"}, "secret": {"name": "a"}}]}),
            ("mode", {"defaultMode": 1000, "sources": []}),
            ("config without name", {"sources": [{"configMap": {}}]}), ("secret without name", {"sources": [{"secret": {}}]}),
            ("same path", {"sources": [{"configMap": {"name": "a", "items": [{"key": "k", "path": "p"}]}}, {"secret": {"name": "b", "items": [{"key": "k", "path": "p"}]}}]}),
            ("token", {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 600}}]}),
            ("token short", {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 599}}]}),
            ("token long", {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1 << 33}}]}),
            ("token without path", {"sources": [{"serviceAccountToken": {}}]}), ("token up", {"sources": [{"serviceAccountToken": {"path": "../t"}}]}),
            ("downward nothing", {"sources": [{"downwardAPI": {"items": [{"path": "a"}]}}]}),
            ("item without key", {"sources": [{"configMap": {"name": "a", "items": [{"path": "p"}]}}]}),
            ("bundle", {"sources": [{"clusterTrustBundle": {"path": "p"}}]}),
            ("bundle both", {"sources": [{"clusterTrustBundle": {"path": "p", "name": "a", "signerName": "b/c"}}]}),
        ),
        ("ephemeral without template", {"ephemeral": {}}),
        ("ephemeral", {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}),
        ("ephemeral without modes", {"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}}),
        ("ephemeral without size", {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}),
        ("nfs", {"nfs": {"server": "a", "path": "/b"}}), ("nfs empty", {"nfs": {}}), ("nfs relative", {"nfs": {"server": "a", "path": "b"}}),
        ("csi", {"csi": {"driver": "a.b"}}), ("csi empty", {"csi": {}}), ("csi bad driver", {"csi": {"driver": "a b"}}),
        ("csi secret unnamed", {"csi": {"driver": "a.b", "nodePublishSecretRef": {}}}),
        ("image", {"image": {"reference": "a", "pullPolicy": "Always"}}), ("image empty", {"image": {}}), ("image policy", {"image": {"reference": "a", "pullPolicy": "x"}}),
        ("iscsi empty", {"iscsi": {}}), ("fc empty", {"fc": {}}), ("flex empty", {"flexVolume": {}}),
        ("gce empty", {"gcePersistentDisk": {}}), ("aws empty", {"awsElasticBlockStore": {}}), ("azure disk empty", {"azureDisk": {}}),
        ("cephfs empty", {"cephfs": {}}), ("rbd empty", {"rbd": {}}), ("git empty", {"gitRepo": {}}), ("git", {"gitRepo": {"repository": "a", "directory": "../b"}}),
    ),
    "probes": containers(*probes(
        ("defaults", http()), ("nothing", {}), ("two", {**http(), "exec": {"command": ["a"]}}), ("three", {**http(), "exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}),
        ("exec", {"exec": {"command": ["a"]}}), ("exec empty", {"exec": {}}), ("tcp", {"tcpSocket": {"port": "http"}}), ("tcp zero", {"tcpSocket": {"port": 0}}),
        ("tcp name", {"tcpSocket": {"port": "Http"}}), ("tcp empty", {"tcpSocket": {"port": ""}}), ("tcp large", {"tcpSocket": {"port": 65536}}),
        ("http port", http(port=0)), ("http port name", http(port="a_b")), ("http scheme", http(scheme="FTP")), ("http scheme lower", http(scheme="https")),
        ("http header", http(httpHeaders=[{"name": "X-A", "value": "b"}])), ("http header bad", http(httpHeaders=[{"name": "X A", "value": "b"}])),
        ("http header unnamed", http(httpHeaders=[{"name": "", "value": "b"}])), ("http path empty", http(path="")), ("http path relative", http(path="a")),
        ("grpc", {"grpc": {"port": 1}}), ("grpc zero", {"grpc": {"port": 0}}), ("grpc service", {"grpc": {"port": 1, "service": "a b"}}),
        *((f"{n} negative", {**http(), n: -1}) for n in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")),
        *((f"{n} zero", {**http(), n: 0}) for n in ("timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")),
        ("success of two", {**http(), "successThreshold": 2}), ("grace", {**http(), "terminationGracePeriodSeconds": 5}),
        ("grace zero", {**http(), "terminationGracePeriodSeconds": 0}), ("grace negative", {**http(), "terminationGracePeriodSeconds": -1}),
    )) + containers(
        ("readiness success of two", {"readinessProbe": {**http(), "successThreshold": 2}}),
        ("readiness grace", {"readinessProbe": {**http(), "terminationGracePeriodSeconds": 5}}),
        ("startup success of two", {"startupProbe": {**http(), "successThreshold": 2}}),
        ("startup nothing", {"startupProbe": {}}), ("readiness nothing", {"readinessProbe": {}}),
        ("all wrong", {"livenessProbe": {}, "readinessProbe": {}, "startupProbe": {}}),
    ),
    "lifecycle": containers(*((name, {"lifecycle": v}) for name, v in (
        ("empty", {}), ("start", {"postStart": {"exec": {"command": ["a"]}}}), ("start nothing", {"postStart": {}}), ("stop nothing", {"preStop": {}}),
        ("stop sleep", {"preStop": {"sleep": {"seconds": 5}}}), ("stop sleep long", {"preStop": {"sleep": {"seconds": 31}}}),
        ("stop sleep zero", {"preStop": {"sleep": {"seconds": 0}}}), ("stop sleep negative", {"preStop": {"sleep": {"seconds": -1}}}),
        ("stop http", {"preStop": http()}), ("stop http port", {"preStop": http(port=-1)}),
        ("two", {"preStop": {**http(), "exec": {"command": ["a"]}}}), ("exec empty", {"preStop": {"exec": {}}}),
        ("tcp", {"preStop": {"tcpSocket": {"port": 1}}}),
        ("signal", {"stopSignal": "SIGTERM"}), ("signal unknown", {"stopSignal": "SIGNONE"}),
    ))) + specs(("signal with os", {"os": {"name": "linux"}, "containers": [container(lifecycle={"stopSignal": "SIGTERM"})]}),
                ("signal unknown with os", {"os": {"name": "linux"}, "containers": [container(lifecycle={"stopSignal": "SIGNONE"})]})),
    "init containers": inits(
        ("plain", {}), ("sidecar", {"restartPolicy": "Always"}), ("sidecar with probe", {"restartPolicy": "Always", "readinessProbe": http()}),
        ("sidecar bad probe", {"restartPolicy": "Always", "livenessProbe": {}}), ("probe", {"readinessProbe": http()}),
        ("liveness", {"livenessProbe": http()}), ("startup", {"startupProbe": http()}), ("lifecycle", {"lifecycle": {"preStop": http()}}),
        ("sidecar lifecycle", {"restartPolicy": "Always", "lifecycle": {"preStop": {}}}),
        ("policy wrong", {"restartPolicy": "x"}), ("policy never", {"restartPolicy": "Never"}), ("unnamed", {"name": ""}), ("no image", {"image": ""}),
        ("bad port", {"ports": [{"containerPort": 0}]}), ("resize policy", {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}),
        ("resize policy of a sidecar", {"restartPolicy": "Always", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}),
    ) + [
        create("two of a name", {"containers": [container()], "initContainers": [container(name="i"), container(name="i")]}),
        create("host port of two", {"containers": [container()], "initContainers": [
            container(name="i", ports=[{"containerPort": 1, "hostPort": 9}]), container(name="j", ports=[{"containerPort": 1, "hostPort": 9}])]}),
    ],
    "tolerations": tolerations(
        ("all", {"operator": "Exists"}), ("equal", {"key": "a", "value": "b", "effect": "NoSchedule"}), ("key missing", {"value": "b"}),
        ("key bad", {"key": "a b"}), ("operator wrong", {"key": "a", "operator": "In"}), ("value with exists", {"key": "a", "operator": "Exists", "value": "b"}),
        ("value bad", {"key": "a", "value": "b c"}), ("effect wrong", {"key": "a", "effect": "Never"}),
        ("seconds", {"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}), ("seconds of another effect", {"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}),
        ("greater", {"key": "a", "operator": "Gt", "value": "5"}), ("equal and empty key", {"operator": "Equal"}),
    ),
    "affinity": affinity(
        ("node good", node_terms(expression(values=["b"]))), ("node no terms", node_terms()), ("node empty term", node_terms({})),
        ("node no values", node_terms(expression())), ("node values of exists", node_terms(expression(op="Exists", values=["b"]))),
        ("node operator", node_terms(expression(op="Like", values=["b"]))), ("node key", node_terms(expression(key="a b", values=["b"]))),
        ("node value", node_terms(expression(values=["b c"]))), ("node greater", node_terms(expression(op="Gt", values=["1"]))),
        ("node greater of two", node_terms(expression(op="Gt", values=["1", "2"]))), ("node greater not a number", node_terms(expression(op="Gt", values=["x"]))),
        ("node field", node_terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})),
        ("node field unknown", node_terms({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["n"]}]})),
        ("node field of two", node_terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]})),
        ("node field operator", node_terms({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]})),
        ("node preferred", {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": expression(values=["b"])}]}}),
        ("node weight zero", {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": expression(values=["b"])}]}}),
        ("node weight large", {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 101, "preference": expression(op="x")}]}}),
        ("pod good", pod_term(labelSelector={"matchLabels": {"a": "b"}}, namespaces=["a"])), ("pod no topology", pod_term(topologyKey="")),
        ("pod topology bad", pod_term(topologyKey="a b")), ("pod namespace bad", pod_term(namespaces=["A"])),
        ("pod selector operator", pod_term(labelSelector=expression(op="Gt"))), ("pod selector values", pod_term(labelSelector=expression())),
        ("pod selector label", pod_term(labelSelector={"matchLabels": {"a b": "c"}})), ("pod namespace selector", pod_term(namespaceSelector=expression(op="x"))),
        ("pod match keys", pod_term(labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["x"])),
        ("pod match keys without selector", pod_term(matchLabelKeys=["x"])),
        ("pod match keys in both", pod_term(labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["x"], mismatchLabelKeys=["x"])),
        ("pod match keys in selector", pod_term(labelSelector=expression(key="x", values=["b"]), matchLabelKeys=["x"])),
        ("pod match keys bad", pod_term(labelSelector={"matchLabels": {"a": "b"}}, matchLabelKeys=["x y"])),
        ("pod preferred weight", {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "a"}}]}}),
        ("pod anti", {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}]}}),
        ("pod anti preferred", {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 200, "podAffinityTerm": {"topologyKey": ""}}]}}),
    ),
    "topology": spread(
        ("good", {}), ("skew zero", {"maxSkew": 0}), ("skew missing", {"maxSkew": None}), ("skew negative", {"maxSkew": -1}), ("key missing", {"topologyKey": None}),
        ("key bad", {"topologyKey": "a b"}), ("action missing", {"whenUnsatisfiable": None}), ("action wrong", {"whenUnsatisfiable": "x"}),
        ("domains", {"minDomains": 2}), ("domains zero", {"minDomains": 0}), ("domains of another action", {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}),
        ("affinity policy", {"nodeAffinityPolicy": "x"}), ("taints policy", {"nodeTaintsPolicy": "x"}), ("policies", {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}),
        ("selector bad", {"labelSelector": expression(op="x")}), ("match keys", {"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["x"]}),
        ("match keys without selector", {"matchLabelKeys": ["x"], "labelSelector": None}), ("match keys in selector", {"labelSelector": {"matchLabels": {"x": "b"}}, "matchLabelKeys": ["x"]}),
        ("match keys bad", {"labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["x y"]}),
    ) + specs(("twice", {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}] * 2})),
}
