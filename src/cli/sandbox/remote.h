/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/cli.h"
#include "json/json.h"
#include "net/websocket.h"

struct loop;

/* What commands need that work on the objects of a server. */

/* remote.c: the server, and requests to it */

struct remote;
/* The flags by which every command here finds its server. */
/* clang-format off */
#define REMOTE_SETTINGS                                                                            \
	{ "namespace", SETTING_TEXT, NULL, "NS",                                                   \
	  "Namespace (default: that of the kubeconfig, or default)", .letter = 'n' },              \
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",                                                \
	  "Kubeconfig of the server (default: $KUBECONFIG, /var/lib/cay/admin.kubeconfig if it "   \
	  "can be read, ~/.kube/config)" }
#define OUTPUT_SETTING                                                                             \
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text, json or yaml",         \
	  .choices = output_formats, .letter = 'o' }
/* clang-format on */
extern const char *const output_formats[];

must_use struct err *remote_open(const struct settings *s, struct remote **ret);
void remote_free(struct remote *r);
AUTOPTR(remote)
const char *remote_ns(const struct remote *r);
struct loop *remote_loop(struct remote *r);
const struct cli_server *remote_server(const struct remote *r);

/*
 * From now on SIGINT, SIGTERM and SIGHUP end what waits here with ERR_CANCELED instead of ending
 * the process. remote_settle() is for what has to be cleaned up after that: a further signal ends
 * that too, but not within a second, since some programs send each signal twice.
 */
void remote_catch(struct remote *r);
int remote_signal(const struct remote *r); /* that came last; 0: none */
void remote_settle(struct remote *r);

struct ask {
	const char *method, *path; /* method NULL: GET */
	const char *body;          /* NULL: none */
	const char *type;          /* of the body; NULL: JSON */
	const char *accept;        /* NULL: JSON, or anything else */
	const char *what;          /* what errors call it; NULL: method and path */
	uint64_t timeout_ms;       /* 0: half a minute */
};
/* Waits for the answer. ret may be NULL. ERR_NOT_FOUND, ERR_EXISTS, ERR_FORBIDDEN … as the server
 * says. */
must_use struct err *remote_ask(struct remote *r, const struct ask *ask, struct json_doc **ret);
must_use struct err *remote_get(struct remote *r, const char *path, struct json_doc **ret);

/* Opens a connection for a request that is to follow, while something else goes on. */
void remote_warm(struct remote *r);

/* An answer that is read as it comes. */
struct feed {
	bool (*data)(struct feed *f, const char *p, size_t len); /* false: enough */
	bool (*line)(struct feed *f, const char *p, size_t len); /* instead of data, line by line */
	uint64_t timeout_ms; /* for all of it; 0: none. Its end is no error, but sets late. */
	bool late;
};
must_use struct err *remote_feed(struct remote *r, const char *path, struct feed *f);

/* Runs the loop until *over. ERR_TIMEOUT after ms (0: never), ERR_CANCELED. */
must_use struct err *remote_until(struct remote *r, const bool *over, uint64_t ms);

/* What is waited for, shown on a terminal from the first second on. NULL: no longer. */
void remote_note(struct remote *r, const char *text);
/* Lets ms pass. ERR_CANCELED. */
must_use struct err *remote_pause(struct remote *r, uint64_t ms);

/* A WebSocket to a path of the server; protocols stays the caller's. */
struct websocket_dial *remote_dial(struct remote *r, const char *path, const char *const *protocols,
				   const struct websocket_dial_events *ev, void *arg);

/* paths.c: where objects are; all malloc'd */

char *path_claims(const char *ns, const char *name); /* NULL name: all; NULL ns: everywhere */
char *path_sandboxes(const char *ns, const char *name);
char *path_pools(const char *ns, const char *name);
char *path_pods(const char *ns, const char *name);
char *path_volume_claims(const char *ns, const char *name);

/* named.c: what a NAME on the command line means */

struct named {
	char *ns, *name;
	char *claim;         /* NULL: it is a Sandbox's own name */
	char *sandbox, *pod; /* of either */
	struct json_doc *claim_doc,
		*doc; /* the claim and the Sandbox; doc only after named_load() */
};
/* ERR_NOT_FOUND says that there is neither; ERR_UNAVAILABLE: a claim that has no sandbox yet. */
must_use struct err *named_find(struct remote *r, const char *name, struct named *ret);
/* Reads the Sandbox too. */
must_use struct err *named_load(struct remote *r, struct named *t);
void named_done(struct named *t);
/* e, and what the state of the sandbox has to do with it. Takes e over. */
struct err *named_trouble(struct remote *r, struct named *t, struct err *e);

/* "True" and so on of a condition, and its reason and message; NULL: it has none. */
const struct json *condition_of(const struct json *object, const char *type);
bool is_ready(const struct json *object);
