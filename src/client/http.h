/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "json/json.h"

struct client;
struct kinds;
struct loop;

/*
 * The HTTPS transport of client.h: libcurl's multi interface on the loop, and informers that list,
 * watch, resume, handle 410 and back off with jitter.
 */

/* What a kubeconfig's current context says, with its files already read. Everything is malloc'd. */
struct kubeconfig {
	char *server; /* https://host:port */
	char *ca_pem, *cert_pem, *key_pem, *token, *token_file;
	char *namespace_; /* NULL: default */
	bool insecure;
};
/*
 * doc is the kubeconfig as a JSON tree (cli/ reads the YAML); relative paths are relative to dir.
 * NULL doc: in-cluster configuration from the service account's files (in dir when given).
 */
must_use struct err *kubeconfig_read(const struct json *doc, const char *dir,
				     struct kubeconfig *ret);
void kubeconfig_done(struct kubeconfig *k);

/* kinds outlives the client. */
must_use struct err *client_http_new(struct loop *l, const struct kubeconfig *k,
				     const char *user_agent, struct kinds *kinds,
				     struct client **ret);
/* How many requests of each sort were sent so far, for benches and tests: a JSON object with keys
 * such as "POST pods". */
struct json_doc *client_http_counts(struct client *c);

/* The error of a Status object; the HTTP status decides where it has no reason. */
must_use struct err *status_err(const struct json *status, int http_status, const char *what);
must_use struct err *status_err_text(const char *body, size_t len, int http_status,
				     const char *what);
/* A refusal as an API server would word it, for whoever answers in its place. */
struct json_doc *status_doc(const struct err *e, int *ret_status);
