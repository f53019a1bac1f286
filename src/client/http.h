/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "json/json.h"

struct client;
struct kinds;
struct loop;

/*
 * The HTTPS transport of client.h: libcurl's multi interface on the loop, informers with list,
 * watch, resume, 410 and back-off with jitter.
 */
/* What a kubeconfig's current context says; files already read; everything malloc'd. */
struct kubeconfig {
	char *server; /* https://host:port */
	char *ca_pem, *cert_pem, *key_pem, *token, *token_file;
	char *namespace_; /* NULL: default */
	bool insecure;
};
/*
 * doc is the kubeconfig as a JSON tree (cli/ reads the YAML); dir is where relative paths start.
 * NULL doc: in-cluster configuration from the service account's files (in dir when given).
 */
must_use struct err *kubeconfig_read(const struct json *doc, const char *dir,
				     struct kubeconfig *ret);
void kubeconfig_done(struct kubeconfig *k);

/* kinds outlives the client. */
must_use struct err *client_http_new(struct loop *l, const struct kubeconfig *k,
				     const char *user_agent, struct kinds *kinds,
				     struct client **ret);
/* Requests sent so far by verb, for benches and tests: "POST pods" style keys in a JSON object. */
struct json_doc *client_http_counts(struct client *c);

/* One request as it is, for the CLI: done(arg, e, status, body, len); a non-2xx status is not an
 * error. */
void client_http_raw(struct client *c, const char *method, const char *path,
		     const char *content_type, const char *body, size_t len,
		     void (*done)(void *arg, struct err *e, int status, const char *body,
				  size_t len),
		     void *arg);
