/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/volume/volume.h"

struct kind;
struct map;
struct queue;

struct volumes {
	struct volumes_spec spec; /* its strings are ours */
	const struct kind *pvc, *secret, *config_map;
	struct map *pvcs;    /* uid → struct pvc, owned */
	struct queue *queue; /* of their uids */
	struct map *moves;   /* uids of those that are on their way into the disk pool */
	struct client_watch *watch_pvcs, *watch_secrets, *watch_config_maps;
	struct map *followers; /* "secret/ns/name" → map of the uids of Pods, owned */
	struct map *following; /* uid of a Pod → struct following, owned */
	struct queue *refresh; /* of uids of Pods */
};

/* follow.c */
void follow_open(struct volumes *v);
void follow_close(struct volumes *v);
void follow_start(struct volumes *v, const struct pod_view *p); /* once a Pod; again does no harm */
void follow_stop(struct volumes *v, const char *uid);
void follow_changed(struct volumes *v, const struct object *was, const struct object *now);

/* source.c: the same for a ConfigMap's "binaryData", which is base64. */
must_use struct err *source_binary(const struct object *o, const char *key, void **ret,
				   size_t *ret_len);

/* pvc.c */
void pvcs_start(struct volumes *v);
void pvcs_stop(struct volumes *v);
char *pvc_dir(const struct volumes *v, const char *uid);
int64_t pvc_size(const struct object *o); /* the bytes that it asks for; 0: it does not say */
/* Sees to it that a volume that nobody uses is in the disk pool. ERR_UNAVAILABLE: it is on its way
 * there; volumes_spec.changed() follows if it gets there. */
must_use struct err *pvc_moves(struct volumes *v, const struct object *o);
/* ERR_UNAVAILABLE: it is to be a clone, which has not been made yet; volumes_spec.changed() follows
 * when it has. */
must_use struct err *pvc_cloned(struct volumes *v, const struct object *o);
/* The PVC that a volume names; a new reference, or NULL. */
struct object *pvc_of(struct volumes *v, const char *ns, const struct pod_volume_view *volume);
