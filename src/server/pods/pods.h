/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/list.h"

struct access;
struct call;
struct loop;
struct objects;

/* Streams into Pods: exec, attach, portforward, log. */
struct pods {
	const struct objects *objects;
	struct loop *loop;
	struct access
		*access;     /* how they reach Pods; NULL: there is no node, and they answer 503 */
	struct list streams; /* struct pod_stream */
	size_t n_streams;
};
void pods_init(struct pods *ps, const struct objects *objects, struct loop *l);
/* Cuts the streams of the one before. */
void pods_set_access(struct pods *ps, struct access *a);
void pods_cut(struct pods *ps); /* every stream */

/* Answer a call. All but the log deal with the whole connection. */
void pods_log(struct pods *ps, struct call *c);
void pods_exec(struct pods *ps, struct call *c);
void pods_attach(struct pods *ps, struct call *c);
void pods_forward(struct pods *ps, struct call *c);
