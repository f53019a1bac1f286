/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/client.h"
#include "node/volume/volume_priv.h"

/* A PersistentVolumeClaim that exists. */
struct pvc {
	struct volumes *volumes;
	char *ns, *name, *uid;
	bool wanted;   /* by a Pod */
	bool cloned;   /* its directory has been made */
	char *trouble; /* why it is not bound; NULL: nothing has failed */
	struct client_write bind, make;
};

/* pvc.c: binds it to pv, or tells the sizes of the two. */
void pvc_bind(struct pvc *c, const struct object *o, const struct object *pv);
/* Why it is not bound: told in an Event and to the Pods that wait, once for each reason. */
void pvc_trouble(struct pvc *c, struct object *o, const char *reason, const char *why);
bool pvc_is_bound(const struct object *o);
/* The name of the PVC that it is to be a clone of; NULL: it begins empty. */
const char *pvc_source(const struct object *o);

/* pvc_work.c: what takes time. */
void pvc_grow(struct pvc *c, const struct object *o, const struct object *pv);
/* Makes its directory a clone; then its pass continues. True: come back later. */
bool pvc_clone(struct pvc *c, struct object *o);
