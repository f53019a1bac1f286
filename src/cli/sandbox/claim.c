/* SPDX-License-Identifier: Apache-2.0 */
/* `cay claim` and `cay delete`: a sandbox that stays until it is given back. */
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/random.h"
#include "cli/sandbox/sandbox_priv.h"

enum {
	HOUR_MS = 3600 * 1000,
	SUFFIX_LEN = 5,
};

const struct setting claim_settings[] = {
	{ "name", SETTING_TEXT, NULL, "NAME",
	  "Name of the claim (default: the pool's, with a suffix)" },
	{ "wait", SETTING_BOOL, "true", NULL, "Wait until the sandbox is Ready" },
	{ "timeout", SETTING_DURATION, "60s", "TIME", "How long to wait", .max = HOUR_MS },
	{ "ttl", SETTING_DURATION, "0s", "TIME",
	  "After this time the server deletes the claim and its sandbox; 0s: never" },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

static void print_claim(const struct made *m, const char *pool, double ms, const char *format)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);

	if (str_eq(format, "text")) {
		(void)printf("claim/%s  sandbox/%s  %.1f ms\n", m->claim,
			     str_or(m->sandbox, "(none yet)"), ms);
		return;
	}
	json_set_root(d, o);
	json_set_str(d, o, "claim", m->claim);
	json_set_str(d, o, "sandbox", m->sandbox);
	json_set_str(d, o, "pool", pool);
	(void)json_set(d, o, "ms", json_new_real(d, ms));
	cli_print(o, format);
}

static struct err *claim(struct remote *r, const struct settings *s)
{
	autofree char *pool = xstrdup(settings_arg(s, 0));
	autofree char *name = xstrdup(settings_text(s, "name"));
	char suffix[SUFFIX_LEN + 1];
	struct made m = { 0 };
	struct err *e = pool ? NULL : make_choose(r, NULL, &pool);
	usec begin = clock_mono();

	if (!e && !pool)
		e = err_new(ERR_NOT_FOUND,
			    "there is no pool in namespace %s; make one (docs/guide/claims.md), or "
			    "use `cay run --image`",
			    remote_ns(r));
	if (e)
		return e;
	random_suffix(suffix, SUFFIX_LEN);
	if (!name)
		name = xasprintf("%s-%s", pool, suffix);
	e = make_sandbox(
		r,
		&(struct make_spec){ .name = name,
				     .pool = pool,
				     .ttl_ms = (uint64_t)settings_int(s, "ttl"),
				     .wait_ms = settings_bool(s, "wait")
							? (uint64_t)settings_int(s, "timeout")
							: 0 },
		&m);
	if (!e)
		print_claim(&m, pool, (double)(clock_mono() - begin) / 1000,
			    settings_text(s, "output"));
	made_done(&m);
	return e;
}

int claim_run(const struct command *c unused, const struct settings *s)
{
	autoptr(remote) r = NULL;
	struct err *e = NULL;

	if (settings_n_args(s) > 1)
		e = err_new(ERR_INVALID, "it takes one pool, not \"%s\" as well",
			    settings_arg(s, 1));
	if (!e)
		e = remote_open(s, &r);
	if (!e)
		e = claim(r, s);
	return e ? cli_fail(err_wrap(e, "claim")) : EXIT_OK;
}

/* Delete */

const struct setting delete_settings[] = {
	{ "wait", SETTING_BOOL, "false", NULL, "Wait until the sandbox is gone" },
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

struct gone {
	struct feed feed;
	bool gone;
};

static bool on_event(struct feed *f, const char *p, size_t len)
{
	struct gone *g = container_of(f, struct gone, feed);
	autoptr(json_doc) doc = NULL;
	autoptr(err) e = json_parse(p, len, NULL, &doc);

	g->gone = !e && str_eq(json_get_str(json_root(doc), "type"), "DELETED");
	return !e && !g->gone;
}

/* Until no Sandbox of the name is left. */
static struct err *wait_gone(struct remote *r, const char *sandbox)
{
	autofree char *all = path_sandboxes(remote_ns(r), NULL);
	autofree char *path =
		xasprintf("%s?watch=true&fieldSelector=metadata.name%%3D%s", all, sandbox);
	autofree char *one = path_sandboxes(remote_ns(r), sandbox);
	struct gone g = { .feed = { .line = on_event, .timeout_ms = 1000 } };
	struct err *e = NULL;

	/* It may have gone before the watch began: each round looks first. */
	while (!e && !g.gone) {
		e = remote_get(r, one, NULL);
		if (!e)
			e = remote_feed(r, path, &g.feed);
	}
	if (err_is(e, ERR_NOT_FOUND))
		err_free(take(e));
	return e;
}

static struct err *delete_one(struct remote *r, const struct settings *s, const char *name)
{
	struct named t = { 0 };
	autofree char *path = NULL;
	struct err *e = named_find(r, name, &t);

	if (err_is(e, ERR_UNAVAILABLE) && t.claim)
		err_free(take(e)); /* a claim without a sandbox can be deleted, too */
	if (!e) {
		path = t.claim ? path_claims(t.ns, t.claim) : path_sandboxes(t.ns, t.sandbox);
		e = remote_ask(r, &(struct ask){ .method = "DELETE", .path = path }, NULL);
	}
	if (!e && t.sandbox && settings_bool(s, "wait"))
		e = wait_gone(r, t.sandbox);
	if (!e && str_eq(settings_text(s, "output"), "text"))
		(void)printf("%s/%s deleted\n", t.claim ? "claim" : "sandbox", name);
	named_done(&t);
	return e;
}

int delete_run(const struct command *c unused, const struct settings *s)
{
	autoptr(remote) r = NULL;
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	struct json *names = json_need_arr(d, o, "deleted");
	struct err *e = NULL;
	int code = EXIT_OK;

	if (!settings_n_args(s))
		e = err_new(ERR_INVALID, "it needs at least one name: cay delete NAME");
	if (!e)
		e = remote_open(s, &r);
	if (e)
		return cli_fail(err_wrap(e, "delete"));
	for (size_t i = 0; i < settings_n_args(s); i++) { /* one that is absent keeps no other */
		e = delete_one(r, s, settings_arg(s, i));
		if (e)
			code = cli_fail(err_wrap(e, "delete"));
		else
			json_push_str(d, names, settings_arg(s, i));
	}
	json_set_root(d, o);
	if (!str_eq(settings_text(s, "output"), "text"))
		cli_print(o, settings_text(s, "output"));
	return code;
}
