/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node/launch/launch_priv.h"

/*
 * A container that an OCI runtime makes. The slot stays what it is, pid 1 of its namespaces in its
 * control groups, and lets the runtime do what it would have done last by itself. The paths are
 * those in the jail, the small root that slot and runtime see.
 */
#define OCI_ROOT       "/run/root"        /* of the container, complete with its volumes */
#define OCI_BUNDLE     "/run/bundle"      /* holds config.json */
#define OCI_KIT        "/run/kit"         /* cay-init and the system call filter */
#define OCI_KIT_INSIDE "/dev/cay"         /* the same, in the container */
#define OCI_USERNS     "/run/userns"      /* the slot's */
#define OCI_VOLUME     "/run/volumes/%zu" /* the plan's mounts, as in the root */
#define OCI_STATE      "/run/state"       /* the runtime's own files */
#define OCI_LOG        "/run/log"         /* what it has to say */
#define OCI_PID        "/run/pid"         /* of its first process */

enum {
	OCI_WORDS = 12,
};

struct oci_style {
	const char *name;
	const char *global[OCI_WORDS]; /* before the command */
	const char *run[OCI_WORDS];    /* after it */
	/* Its containers have a kernel of their own, to which our socket means nothing: the slot
	 * accepts connections and hands them over. It also cannot join our user namespace. */
	bool own_kernel;
	bool maps_twice; /* it wants the maps of a user namespace that it joins */
};

/* oci_config.c */
must_use struct err *oci_config_write(const struct slot *s, const struct plan *plan,
				      const struct oci_style *style, const char *path);
/* oci_jail.c: a new file. */
must_use struct err *oci_put(const char *path, const void *data, size_t len, mode_t mode);
/* builds the jail and enters it: of the host, /usr is left, read-only. */
must_use struct err *oci_jail_enter(struct slot *s, const struct plan *plan);
