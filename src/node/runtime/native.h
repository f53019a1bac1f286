/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct cgroups;
struct inotify;
struct instance;
struct loop;
struct runtime;

/*
 * The built-in runtime: containers are processes of this host, made by the launcher. Everything
 * passed to it stays the caller's and must outlive it.
 */
struct native_spec {
	const struct instance *instance;
	const struct cgroups *cgroups;
	struct inotify *inotify;
	int run_fd;           /* of instance->run_dir, which exists already */
	const char *launcher; /* our own binary, started as `cay launch` */
	const char *init;     /* cay-init */
	unsigned pool;        /* slots and networks kept ready; 0: 16 */
};

/* Notes the leftovers of an earlier run and starts the launchers. No range or address is given out
 * before the loop turns: hold() what is in use before that. ops->free() ends it. */
must_use struct err *native_open(struct loop *l, const struct native_spec *spec,
				 struct runtime **ret);
