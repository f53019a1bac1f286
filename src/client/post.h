/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"

struct loop;

/*
 * Sends documents to one URL, over HTTP or HTTPS (by the certificates that this machine trusts).
 * What is answered does not matter but for its status, and is not kept.
 */
struct post;
/* ERR_INVALID: it is no URL of either. */
must_use struct err *post_new(struct loop *l, const char *url, struct post **ret);
/* Takes body over. done() is told the status, 0: there was no answer within ten seconds. It is not
 * called once the post has been freed. One at a time. */
void post_send(struct post *p, char *body, size_t len, void (*done)(void *arg, int status),
	       void *arg);
void post_free(struct post *p);
AUTOPTR(post)
