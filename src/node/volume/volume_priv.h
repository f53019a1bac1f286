/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/client.h"
#include "node/volume/volume.h"

struct kind;
struct map;
struct queue;

struct volumes {
	struct volumes_spec spec; /* its strings are ours */
	const struct kind *pvc, *pv, *class, *secret, *config_map;
	unsigned n_known;      /* of the kinds that binding needs, those that are known */
	struct map *pvcs;      /* uid → struct pvc, owned */
	struct map *unbound;   /* uids of those that wait for a class or a volume */
	struct map *pvs;       /* name → struct pv, owned */
	struct map *free_pvs;  /* names of those that no claim has */
	struct map *given_pvs; /* uid of a claim → name of the volume that was given to it, owned */
	struct map *handles;   /* handle → how many PersistentVolumes have it, as a pointer */
	struct map *dirs;      /* name → struct dir, owned: directories that nobody has any more */
	struct queue *queue;   /* of uids of claims */
	struct queue *pv_queue, *dir_queue; /* of names */
	struct map *moves;                  /* directories that a job is making or moving */
	struct map *groups;                 /* "uid of a Pod/volume" → struct grouping */
	unsigned n_grouping;
	usec group_report; /* after this time, and again, an Event says that it is still going on */
	struct map *once;  /* handle of a volume for one Pod → uid of that Pod, owned */
	struct map *once_waits; /* uids of claims that were refused to others */
	struct client_write class_write;
	struct client_watch *watch_pvcs, *watch_pvs, *watch_classes, *watch_secrets,
		*watch_config_maps;
	struct map *followers; /* "secret/ns/name" → map of the uids of Pods, owned */
	struct map *following; /* uid of a Pod → struct following, owned */
	struct queue *refresh; /* of uids of Pods */
	struct map *tokens; /* uid of a Pod → map of "volume/source" → struct held_token, owned */
	struct queue *renewals; /* of uids of Pods that have tokens */
};

/* volume.c: another of the kinds that binding needs is known. */
void volumes_known(void *v);
bool volumes_are_known(const struct volumes *v);

/* follow.c */
void follow_open(struct volumes *v);
void follow_close(struct volumes *v);
void follow_start(struct volumes *v, const struct pod_view *p); /* once a Pod; again does no harm */
void follow_stop(struct volumes *v, const char *uid);
void follow_changed(struct volumes *v, const struct object *was, const struct object *now);

/* token.c: *ret, the token of a source that has this key, is good until the Pod's are next asked
 * for. ERR_UNAVAILABLE. */
void tokens_open(struct volumes *v);
void tokens_close(struct volumes *v);
must_use struct err *token_need(struct volumes *v, const struct pod_view *p, const char *key,
				const struct pod_volume_source *s, const char **ret);
void tokens_forget(struct volumes *v, const char *uid); /* the Pod is gone */
/* When a token should be renewed, in seconds since 1970, as are the others. */
int64_t token_renewal(int64_t now, int64_t expires, uint64_t random);

/* source.c: the same for a ConfigMap's "binaryData", which is base64. */
must_use struct err *source_binary(const struct object *o, const char *key, void **ret,
				   size_t *ret_len);

/* pvc.c */
void pvcs_start(struct volumes *v);
void pvcs_stop(struct volumes *v);
void pvcs_known(struct volumes *v);
void pvc_tell(struct volumes *v, const char *uid); /* the Pods that wait for it */
void pvcs_wake(struct volumes *v);                 /* claims that wait for a class or a volume */
void pvcs_volume_changed(struct volumes *v, const struct object *pv, bool gone);
int64_t pvc_size(const struct object *o); /* the bytes that it asks for; 0: it does not say */
/* Sees to it that a volume that nobody uses is in the disk pool. ERR_UNAVAILABLE: it is on its way
 * there; volumes_spec.changed() follows if it gets there. */
must_use struct err *pvc_moves(struct volumes *v, const struct object *o, const struct object *pv);
/* Binds a claim that a Pod wants. ERR_UNAVAILABLE: it cannot be, or not yet;
 * volumes_spec.changed() follows when it has been. */
must_use struct err *pvc_ready(struct volumes *v, const struct object *o);
/* The PVC that a volume names; a new reference, or NULL. */
struct object *pvc_of(struct volumes *v, const char *ns, const struct pod_volume_view *volume);
/* ephemeral.c: the same with errors, if it is the Pod's to have; claim_need() makes it if it is to
 * be made for the Pod. ERR_UNAVAILABLE. */
must_use struct err *claim_of(struct volumes *v, const struct volume_pod *p,
			      const struct pod_volume_view *volume, struct object **ret);
must_use struct err *claim_need(struct volumes *v, const struct volume_pod *p,
				const struct pod_volume_view *volume, struct object **ret);
/* The PersistentVolume behind it, a new reference. ERR_UNAVAILABLE: there is none, or it is not a
 * directory of this node. */
must_use struct err *pvc_volume(struct volumes *v, const struct object *pvc, struct object **ret);

/* pv.c: objects are new references, or NULL. */
void pvs_start(struct volumes *v);
void pvs_stop(struct volumes *v);
struct object *pv_get(struct volumes *v, const char *name);
struct object *pv_of(struct volumes *v, const struct object *pvc); /* bound to each other */
void pv_look(struct volumes *v, const char *name);                 /* its claim has changed */
/* Makes the volume of a claim. class may be NULL. */
void pv_make(struct volumes *v, const struct object *pvc, const char *class_name,
	     const struct object *class, struct client_write *w);
void pv_give(struct volumes *v, const struct object *o, const struct object *pvc);
void pv_resize(struct volumes *v, const struct object *o, const struct json *size);

/* match.c */
int64_t pv_size(const struct object *o);
bool pv_is_of(const struct object *pv, const struct object *pvc); /* was given to it */
/* Why a claim cannot have it, in Kubernetes' words, malloc'd, and the reason of the Event; NULL: it
 * can. */
char *pv_refuses(const struct object *pv, const struct object *pvc, const char *class,
		 const char **ret_reason);
/* The best that there is for a claim, a new reference. kept_only: of those set aside for it. */
struct object *pv_match(struct volumes *v, const struct object *pvc, const char *class,
			bool kept_only);

/* class.c: objects are new references, or NULL. */
void classes_start(struct volumes *v);
void classes_stop(struct volumes *v);
void class_make_default(struct volumes *v);
struct object *class_default(struct volumes *v);
struct object *class_get(struct volumes *v, const char *name);
bool class_is_ours(const struct object *class);
/* What it asks for and our provisioner does not do; NULL: nothing. malloc'd. */
char *class_refuses(const struct object *class);
bool class_waits(const struct object *class); /* for the first Pod; NULL does not */

/* group.c: gives what is in a volume to the Pod's fsGroup; errors as volumes_prepare(). */
void groups_open(struct volumes *v);
void groups_close(struct volumes *v);
must_use struct err *group_apply(struct volumes *v, const struct volume_pod *p,
				 const struct pod_volume_view *volume, const struct object *pv);
void group_forget(struct volumes *v, const char *uid); /* the Pod is gone */

/* once.c: a volume for one Pod at a time is this Pod's until it is forgotten. ERR_UNAVAILABLE: it
 * is another's; volumes_spec.changed() follows when a Pod has gone. */
void once_open(struct volumes *v);
void once_close(struct volumes *v);
must_use struct err *once_take(struct volumes *v, const struct volume_pod *p,
			       const struct object *pvc, const struct object *pv);
void once_forget(struct volumes *v, const char *uid);
void once_sweep(struct volumes *v);

/* dirs.c */
void dirs_start(struct volumes *v);
void dirs_stop(struct volumes *v);
void dirs_known(struct volumes *v); /* removes what an earlier run could not */
void dirs_sweep(struct volumes *v);
void dir_left(struct volumes *v, const char *name);  /* an object of it is gone */
void dir_moved(struct volumes *v, const char *name); /* the job that had it has ended */
