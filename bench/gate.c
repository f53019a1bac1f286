/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate: Cay's router alone, with one Sandbox, `box`, whose address is given: what `cay serve` has,
 * without everything that it does beside it. It says where it listens, plain and with TLS, and
 * serves until it is ended. The certificate is made anew, for others to show too: DIR/box.crt,
 * box.key and both of them in box.pem.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/file.h"
#include "base/macros.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "router/router.h"
#include "tls/tls.h"

static struct object *box;

static struct object *get(unused void *ctx, unused const struct kind *k, unused const char *ns,
			  const char *name)
{
	return strcmp(name, "box") == 0 ? object_ref(box) : NULL;
}

static void *watch(void *ctx, unused const struct client_watch_spec *spec,
		   const struct client_watch_events *ev, void *arg)
{
	ev->synced(arg);
	return ctx;
}

static void unwatch(unused void *ctx, unused void *w)
{
}

static struct err *make_box(const struct kinds *kinds, const char *ip)
{
	autofree char *text = xasprintf(
		"{\"metadata\":{\"name\":\"box\",\"namespace\":\"default\",\"uid\":\"1\",\"resourceVersion\":\"1\"},"
		"\"status\":{\"podIPs\":[\"%s\"],\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
		ip);
	struct json_doc *d = NULL;
	struct err *e = json_parse(text, strlen(text), NULL, &d);

	if (!e)
		box = object_new(kinds_need(kinds, "agents.x-k8s.io/v1beta1", "Sandbox"), d);
	return e;
}

struct names {
	char crt[300], key[300], pem[300];
};

static struct err *put(const char *path, const char *text)
{
	return file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

static struct err *make_certificate(const char *dir, struct names *ret)
{
	static const char *const sans[] = { "localhost", NULL };
	const usec day = 24ll * 3600 * 1000000;
	struct tls_pair ca = { 0 }, own = { 0 };
	autofree char *both = NULL;
	struct err *e = tls_make_ca("bench", day, &ca);

	if (!e)
		e = tls_make_cert(&ca,
				  &(struct tls_cert_spec){
					  .common_name = "box", .sans = sans, .valid_for = day },
				  &own);
	(void)snprintf(ret->crt, sizeof(ret->crt), "%s/box.crt", dir);
	(void)snprintf(ret->key, sizeof(ret->key), "%s/box.key", dir);
	(void)snprintf(ret->pem, sizeof(ret->pem), "%s/box.pem", dir);
	if (!e)
		both = xasprintf("%s%s", own.cert_pem, own.key_pem);
	if (!e)
		e = put(ret->crt, own.cert_pem);
	if (!e)
		e = put(ret->key, own.key_pem);
	if (!e)
		e = put(ret->pem, both);
	tls_pair_done(&ca);
	tls_pair_done(&own);
	return e;
}

static struct err *serve(const char *ip, const char *dir)
{
	static const struct client_ops ops = { .get = get, .watch = watch, .watch_free = unwatch };
	struct names names;
	const struct router_spec spec = {
		.listen = "127.0.0.1:0",
		.tls = { .listen = "127.0.0.1:0", .cert_file = names.crt, .key_file = names.key },
		.allow_loopback = true,
		.no_access_log = true,
		.tell_callers = true
	};
	struct kinds *kinds = kinds_new();
	struct client *c = client_new(&ops, &box, kinds);
	struct router *r = NULL;
	struct loop *l = NULL;
	struct err *e = loop_new(&l);

	if (!e)
		e = make_certificate(dir, &names);
	if (!e)
		e = make_box(kinds, ip);
	if (!e)
		e = router_start(l, c, &spec, &r);
	if (e)
		return e;
	(void)printf("%s %s\n", router_address(r), router_tls_address(r));
	(void)fflush(stdout);
	loop_run(l);
	return NULL;
}

int main(int argc, char **argv)
{
	struct err *e;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: gate ADDRESS-OF-THE-SANDBOX DIR\n");
		return 2;
	}
	e = serve(argv[1], argv[2]);
	(void)fprintf(stderr, "gate: %s\n", err_text(e));
	err_free(e);
	return 1;
}
