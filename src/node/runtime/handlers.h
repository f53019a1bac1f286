/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

struct arena;
struct plan_oci;

/*
 * What the handler of a RuntimeClass means on this node: `native`, the launcher's own way, or an
 * OCI runtime, a program of the host that the slot lets make the container. A handler whose program
 * is not installed is known all the same: the Pods that name it say what is missing.
 */
struct handlers;

/* text: more handlers, or other programs for known ones: "NAME=PROGRAM[,ARG...] ...", or NULL.
 * ERR_INVALID. */
must_use struct err *handlers_new(const char *text, struct handlers **ret);
void handlers_free(struct handlers *h);
AUTOPTR(handlers)

const char *const *handlers_names(const struct handlers *h); /* "native" first; NULL-terminated */

/* *ret: how to run it, in the arena; without a program for `native`. ERR_UNAVAILABLE: it is
 * unknown, or its program is not installed; the text says what to do. now: of any clock that does
 * not go back; the host is asked again after two seconds of it. */
must_use struct err *handlers_find(struct handlers *h, const char *name, usec now, struct arena *a,
				   struct plan_oci *ret);
/* NULL, or what containers cannot do under this handler where others can. */
const char *handlers_lacks(const struct handlers *h, const char *name, size_t n_containers);

struct handler_look {
	const char *name;    /* of the handler */
	const char *program; /* as it is looked for */
	char *path;          /* where it was found; NULL: nowhere. malloc'd */
	const char *install; /* how to get it */
};
/* Every handler that needs a program, for `cay doctor`. False: there is no such number. */
bool handlers_look(const struct handlers *h, size_t i, struct handler_look *ret);
