/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/mem.h"

struct pod_view;

/*
 * Which directories of the host Pods may mount with hostPath: none, unless the operator names them,
 * each read-only or writable. What decides is the longest of them that a path begins with.
 */
struct host_paths;

/*
 * "/srv/data:ro,/srv/out:rw"; without a suffix, read-only. NULL or "": none. not_these are
 * directories of ours, ended by NULL: neither they nor what is in them, nor what holds them, can be
 * allowed. ERR_INVALID. Blocks.
 */
must_use struct err *host_paths_read(const char *text, const char *const *not_these,
				     struct host_paths **ret);
void host_paths_free(struct host_paths *h);
AUTOPTR(host_paths)

struct host_path {
	const char *prefix; /* a directory of the host, without links; borrowed */
	char *below; /* the rest, without links or "..", NULL: the directory itself; malloc'd */
	bool writable;
};
/* False: nothing allows it. h may be NULL. */
bool host_paths_find(const struct host_paths *h, const char *path, struct host_path *ret);

/* Why a Pod cannot have the hostPath volumes that it names, with the field; NULL: it can. malloc'd.
 */
char *host_paths_refuse(const struct host_paths *h, const struct pod_view *p);
