/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/str.h"
#include "client/client.h"
#include "client/http.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "test.h"

/*
 * An API server of which the test decides every answer: a real HTTPS server on the test's own loop.
 */
#define until(l, cond)                                                    \
	do {                                                              \
		usec until_end_ = clock_mono() + 20 * 1000000;            \
		while (!(cond)) {                                         \
			if (clock_mono() > until_end_)                    \
				fail_msg("waited in vain for %s", #cond); \
			loop_turn((l), 20);                               \
		}                                                         \
	} while (0)

struct api;

struct ask {
	struct list link;
	struct api *api;
	struct http_request *r; /* NULL: the client has left */
	char *method, *target, *auth, *body, *type;
	bool taken;
};

struct api {
	struct loop *l;
	struct http_server *server;
	struct tls_ctx *tls;
	struct kubeconfig config;
	struct client *client;
	struct list asks; /* struct ask.link; all that came, in order */
	size_t n_asks;
};

void api_start(struct api *a);
void api_client(struct api *a); /* a client for it */
void api_stop(struct api *a);
/* Waits for the next request that nobody took yet and whose "METHOD target" contains part. */
struct ask *api_next(struct api *a, const char *part);
bool api_has(struct api *a, const char *part); /* one is there that nobody took yet */
void api_settle(struct api *a);                /* turns until nothing more happens at once */
void ask_answer(struct ask *k, int status, const char *fmt, ...) printf_like(3, 4);
void ask_stream(struct ask *k); /* 200, to be followed by events */
void ask_send(struct ask *k, const char *fmt, ...) printf_like(2, 3);
void ask_end(struct ask *k);
void ask_cut(struct ask *k);

/* A client's events and results, written down as text: "+a +b ~a -b S". */
struct diary {
	struct buf text;
	struct err *e; /* of the last done() */
	struct object *o;
	size_t n_done;
	struct diary_write *writes; /* all that were handed out */
};
extern const struct client_watch_events diary_events;
void diary_done(struct diary *d);
/* Its end is written down as "D". The diary's own, valid until diary_done(). */
struct client_write *diary_write(struct diary *d);
