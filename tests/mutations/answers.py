# SPDX-License-Identifier: Apache-2.0
"""Faults in answers that the replay of a kube-apiserver's compares. tools/mutate supplies mutation()."""

REPLAY = "pytest api/test_replay.py -k"

MUTATIONS = (
    mutation("newer-events-change", "server/admit/admit.c",
             "	if (old && op->kind->validate_change)\n", "	if (!old && op->kind->validate_change)\n",
             "an Event of events.k8s.io keeps all but its series", "pytest api/test_replay.py -k core"),
    mutation("bodies-of-any-kind", "api/decode.c",
             "	if (!e && as)\n		e = check_body_kind(as, in, &n);\n", "	if (!e && as && !in)\n		e = check_body_kind(as, in, &n);\n",
             "a token, an eviction and a scale are asked for by their own kind", "pytest api/test_replay.py -k subresources"),
    mutation("update-creates-without-the-right", "server/http.c",
             "	bool creates = r->verb == VERB_UPDATE ? r->kind->flags & KIND_PUT_CREATES : body_applies(c);\n",
             "	bool creates = r->verb != VERB_UPDATE && body_applies(c);\n",
             "an update that creates takes the right to create", "unit server an_update_that_creates"),
    mutation("update-creates-anything", "server/admit/admit.c",
             "	} else if (op->external && (op->kind->flags & KIND_PUT_CREATES) && !*op->sub) {\n",
             "	} else if (op->external && !*op->sub) {\n",
             "an update creates only what it does in Kubernetes", f"{REPLAY} life"),
    mutation("all-namespaces-at-once", "server/http.c",
             "	    ((namespaced && !*r->ns) || r->kind->flags & KIND_CONTENTS))\n", "	    namespaced && !*r->ns)\n",
             "namespaces are deleted one by one", f"{REPLAY} deleted"),
    mutation("deletion-by-hand", "server/admit/meta.c",
             "	check_deletion(op, meta, was);\n", "",
             "only a deletion sets deletionTimestamp", f"{REPLAY} sets"),
    mutation("any-finalizer", "api/meta.c",
             "	if (!(flags & (KIND_CRD | KIND_DEFINES)))\n		check_standard(finalizers, c);\n", "",
             "a finalizer of a built-in kind is known or qualified", f"{REPLAY} finalizers"),
    mutation("the-future-is-now", "server/read/filter.c",
             "	if (wanted > newest) {\n", "	if (wanted > UINT64_MAX / 2) {\n",
             "a version from the future is not answered from the past", f"{REPLAY} lists"),
    mutation("unconditional-leases", "server/admit/meta.c",
             "KIND_CRD | KIND_DEFINES | KIND_CONDITIONAL", "KIND_CRD | KIND_DEFINES",
             "an update of a Lease names the version it is made from", f"{REPLAY} leases"),
    mutation("patch-errors-name-the-object", "server/admit/admit.c",
             "		op->details = DETAILS_NONE;\n		err_free(e);\n", "		err_free(e);\n",
             "an error in a patch is told as one of the request", f"{REPLAY} json"),
)
