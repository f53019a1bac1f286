/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "server/server.h"
#include "store/store.h"
#include "test.h"

/* A server in a directory of its own on loopback, and ways to ask it. */
struct fixture {
	struct loop *loop;
	struct server *server;
	struct client *client; /* in this process */
	char dir[64];
	const char *node_name;
	const char *grants;
	const char *service_cidr;
	uint64_t store_reserve; /* more than the disk has: the store is short of space */
	/* How requests over HTTP authenticate: the administrator's certificate unless anonymous. */
	bool anonymous;
	char *token;
	const char *headers; /* further lines, each with its \r\n */
};
void fixture_init(struct fixture *f);
void fixture_listen(struct fixture *f);
struct err *fixture_open(struct fixture *f);
void fixture_close(struct fixture *f);
void fixture_done(struct fixture *f);

/* One request over HTTPS. body NULL: none. */
struct answer {
	int status;
	char *head;           /* status line and headers */
	struct json_doc *doc; /* NULL: not JSON */
	char *text;
};
struct answer ask(struct fixture *f, const char *method, const char *path, const char *body);
void answer_done(struct answer *a);
#define autoanswer __attribute__((cleanup(answer_done))) struct answer
const char *at(const struct answer *a, const char *path); /* a string in the answer, or NULL */
int64_t int_at(const struct answer *a, const char *path);

/* A connection that stays open, for watches. */
struct stream_test;
struct stream_test *stream_open(struct fixture *f, const char *method, const char *path,
				const char *body);
/* Turns the loop until what has come contains text; false after a minute. */
bool stream_until(struct stream_test *s, const char *text);
void stream_stall(struct stream_test *s); /* reads nothing more */
const char *stream_text(struct stream_test *s);
bool stream_ended(struct stream_test *s); /* turns the loop until it has, up to a minute */
struct answer stream_answer(struct stream_test *s); /* all of it; takes s over */
void stream_test_free(struct stream_test *s);

/* In process: the outcome, which the caller drops. */
struct outcome {
	struct client_write write;
	struct err *e;
	struct object *obj;
};
void outcome_init(struct outcome *o);
struct json_doc *parse(const char *text); /* single quotes stand for double ones */
struct err *make(struct fixture *f, const struct kind *k, const char *ns, const char *text,
		 struct object **ret); /* ret may be NULL */
struct err *merge(struct fixture *f, const struct client_ref *to, const char *text);
struct err *drop(struct fixture *f, const struct kind *k, const char *ns, const char *name,
		 const struct client_delete_spec *spec);
struct object *look(struct fixture *f, const struct kind *k, const char *ns, const char *name);
void settle(struct fixture *f); /* deferred calls run, all is committed */

#define SANDBOX(name)                                                                        \
	"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{'name':'" name \
	"'},'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'i'}]}}}}"
#define CONFIG(name) "{'metadata':{'name':'" name "'},'data':{'a':'1'}}"
#define SANDBOXES    "/apis/agents.x-k8s.io/v1beta1/namespaces/default/sandboxes"
#define CONFIGS      "/api/v1/namespaces/default/configmaps"
