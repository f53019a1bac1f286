/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/view_pod.h"
#include "base/err.h"
#include "base/mem.h"
#include "client/token.h"

struct arena;
struct client;
struct diskpool;
struct host_paths;
struct jobs;
struct loop;
struct map;
struct object;
struct plan;

/*
 * The volumes of Pods as directories of the host:
 *
 *   <pool>/pods/<uid>/<name>/         emptyDir, made by the launcher
 *   <pool>/volumes/<handle>/          persistentVolumeClaim, made by the launcher; the handle of a
 *                                     volume that was made for a claim is the claim's uid
 *   <run_dir>/volumes/<uid>/<name>/   configMap, secret, projected and downwardAPI: in memory
 *
 * On the loop's thread; trees are removed by jobs.
 */
struct volumes;

struct volumes_spec {
	struct loop *loop;
	struct client *client;
	struct jobs *jobs;
	const struct diskpool *disk;
	const char *run_dir, *node_name;
	struct token_issuer tokens;          /* of projected volumes; without issue(): none */
	const struct host_paths *host_paths; /* which Pods may mount; NULL: none */
	/* Whether a Pod mounts the volume with this handle. True as long as not all Pods are known:
	 * volumes_sweep() asks again. */
	bool (*in_use)(void *arg, const char *handle);
	/* A ConfigMap, Secret or PersistentVolumeClaim changed: who waits for it may try again. */
	void (*changed)(void *arg, const struct object *o);
	/* What the volumes of a Pod are made from has changed: volumes_refresh() is due. */
	void (*stale)(void *arg, const char *pod_uid);
	/* For an Event about a claim. reason is static. */
	void (*event)(void *arg, struct object *about, bool warning, const char *reason,
		      const char *message);
	void *arg;
};

struct volumes *volumes_new(const struct volumes_spec *spec);
void volumes_start(struct volumes *v); /* follows the objects, and binds volumes */
void volumes_stop(struct volumes *v);  /* hears of no change any more */
void volumes_free(struct volumes *v);
AUTOPTR(volumes)

/* A Pod as its volumes see it. */
struct volume_pod {
	const struct pod_view *view;
	const char *ip, *ip6;      /* NULL: it has none yet; of IPv6, "" as well */
	struct object *obj;        /* for Events; NULL: there are none */
	const struct map *mounted; /* handles of volumes that it has had before; NULL: none */
	const char **env; /* of the container whose mounts are made, for subPathExpr; NULL: none */
};

/* Writes what comes from objects, and makes volumes that have contents ready for the Pod.
 * ERR_UNAVAILABLE: an object that it needs is missing or is not as it must be. ERR_TIMEOUT: that is
 * under way; volumes_spec.changed() follows. */
must_use struct err *volumes_prepare(struct volumes *v, const struct volume_pod *p);
/* Writes it again where an object has changed; errors as above, and ERR_EXHAUSTED if memory is
 * short. What cannot be written stays as it was. */
must_use struct err *volumes_refresh(struct volumes *v, const struct volume_pod *p);
/* The Pod's own object changed, which a downwardAPI shows. */
void volumes_pod_changed(struct volumes *v, const char *uid);
/* The mounts of a container, in the arena, added to the plan, with space for one more.
 * ERR_UNAVAILABLE as above. */
must_use struct err *volumes_mounts(struct volumes *v, const struct volume_pod *p,
				    const struct pod_container_view *c, struct arena *a,
				    struct plan *plan);
/* Removes what volumes_prepare() wrote, which is in memory. */
void volumes_forget(struct volumes *v, const char *uid);
/* Whether a Pod has a directory with emptyDirs in the disk pool. */
bool volumes_on_disk(const struct pod_view *p);
/* The handles of the persistent volumes that a Pod's claims are bound to; NULL-terminated. */
const char **volumes_handles(struct volumes *v, const struct pod_view *p, struct arena *a);
/* All Pods are known, or one is gone: directories of deleted volumes go unless a Pod uses them. */
void volumes_sweep(struct volumes *v);

/*
 * ConfigMaps and Secrets, where files and environment variables come from.
 */
const char *source_noun(bool secret); /* as Kubernetes' messages name it */
/* A new reference; NULL: there is none of this name. */
struct object *source_object(struct volumes *v, const char *ns, const char *name, bool secret);
/* The value of a key in "data", which is base64 in a Secret and text in a ConfigMap. *ret is
 * malloc'd and NUL-terminated; NULL: there is no such key. ERR_UNAVAILABLE: it is not base64. */
must_use struct err *source_value(const struct object *o, bool secret, const char *key, char **ret,
				  size_t *ret_len);

/* Text of a fieldRef or resourceFieldRef. malloc'd; NULL: there is no such field. */
char *downward_value(const struct volume_pod *p, const struct pod_container_view *c,
		     const struct pod_field_ref *f);
