/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct access_target;
struct audit;
struct client;
struct control;
struct http_request;
struct loop;

/*
 * What happened and how things stand, for whoever watches over them: the audit log and the check of
 * its chain, and how pools, claims and the machine are doing, over HTTP
 * (docs/reference/api.md#for-pages-that-watch). On the loop's thread; files are read in jobs.
 */
#define OVERSIGHT_AUDIT    "/cay/v1/audit"
#define OVERSIGHT_VERIFY   "/cay/v1/audit/verify"
#define OVERSIGHT_OVERVIEW "/cay/v1/overview"

/* An act, in the terms of a role. */
struct oversight_act {
	const char *verb, *group, *plural;
	const char *ns; /* "": everywhere */
};

struct oversight_spec {
	struct audit *audit;            /* NULL: there is none that can be read */
	const char *audit_path;         /* of its file */
	const unsigned char *audit_key; /* the public one, by which it is verified */
	struct control *control;
	struct client *client; /* for the Node */
	const char *node_name, *data_dir;
	/* Whether somebody may get one of the paths above. */
	struct err *(*may_get)(void *arg, const struct access_target *who, const char *path);
	struct err *(*may)(void *arg, const struct access_target *who,
			   const struct oversight_act *act);
	/* Answers a request that cannot be served. Takes e over. */
	void (*refuse)(struct http_request *req, struct err *e);
	void *arg;
};

struct oversight;
/* Everything in the spec outlives it; copies the rest. */
struct oversight *oversight_new(struct loop *l, const struct oversight_spec *spec);
void oversight_free(struct oversight *o); /* turns the loop until its jobs have ended */
AUTOPTR(oversight)
/* A request for one of the paths above: becomes its owner and answers it. who is borrowed. */
void oversight_visit(struct oversight *o, struct http_request *req,
		     const struct access_target *who);
