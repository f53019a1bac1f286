/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/str.h"
#include "net/http.h"
#include "server/call/body.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/pages/pages_priv.h"
#include "store/store.h"

/*
 * /livez, /readyz and /healthz, as a kube-apiserver has them: all checks of a page at once, told
 * one by one with ?verbose, without those that ?exclude= names; and each by its name below the
 * page. It is alive while it answers at all, and ready while it takes writes too.
 */
enum {
	EXCLUDES_MAX = 32,
};

struct check {
	const char *name;
	bool of_ready; /* of /readyz alone; the other pages only tell of it */
	/* NULL: it is well. */
	const char *(*trouble)(const struct pages *ps);
};

static const char *ping(unused const struct pages *ps)
{
	return NULL;
}

static const char *store(const struct pages *ps)
{
	return store_state(ps->store) == STORE_WRITABLE ? NULL : store_trouble(ps->store);
}

static const char *start(const struct pages *ps)
{
	return ps->ready ? NULL : "not everything has started yet";
}

static const struct check checks[] = {
	{ "ping", false, ping },
	{ "store", true, store },
	{ "start", true, start },
};

/* The names that a request leaves out. */
struct excluded {
	char *names[EXCLUDES_MAX];
	size_t n;
};

static void excluded_read(const struct call *c, struct excluded *ret)
{
	while (ret->n < EXCLUDES_MAX) {
		char *name = http_query_nth(c->query, "exclude", ret->n);

		if (!name)
			return;
		ret->names[ret->n++] = name;
	}
}

static void excluded_done(struct excluded *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->names[i]);
}

static bool is_excluded(const struct excluded *x, const char *name)
{
	for (size_t i = 0; i < x->n; i++)
		if (str_eq(x->names[i], name))
			return true;
	return false;
}

static const struct check *check_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (str_eq(checks[i].name, name))
			return &checks[i];
	return NULL;
}

static void tell_unknown(const struct excluded *x, struct buf *b)
{
	bool any = false;

	for (size_t i = 0; i < x->n; i++) {
		if (check_named(x->names[i]))
			continue;
		buf_printf(
			b,
			any ? ",\"%s\""
			    : "warn: some health checks cannot be excluded: no matches for \"%s\"",
			x->names[i]);
		any = true;
	}
	if (any)
		buf_add_char(b, '\n');
}

/* Adds a line for each check. False: one that counts on this page has failed. */
static bool run(const struct pages *ps, bool ready_page, const struct excluded *x, struct buf *b)
{
	bool ok = true;

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		const struct check *k = &checks[i];
		const char *trouble = k->trouble(ps);

		if (is_excluded(x, k->name)) {
			buf_printf(b, "[+]%s excluded: ok\n", k->name);
		} else if (trouble) {
			buf_printf(b, "[-]%s failed: %s\n", k->name, trouble);
			ok = ok && k->of_ready && !ready_page;
		} else {
			buf_printf(b, "[+]%s ok\n", k->name);
		}
	}
	return ok;
}

static void reply(struct call *c, bool ok, struct buf *b)
{
	call_reply_text(c, ok ? STATUS_OK : status_of(ERR_UNAVAILABLE), "text/plain; charset=utf-8",
			b);
}

static void show_one(struct pages *ps, struct call *c, const char *name)
{
	const struct check *k = check_named(name);
	const char *trouble = k ? k->trouble(ps) : NULL;
	autobuf b = { 0 };

	if (!k) {
		buf_add_str(&b, "404 page not found\n");
		call_reply_text(c, status_of(ERR_NOT_FOUND), "text/plain; charset=utf-8", &b);
		return;
	}
	if (trouble)
		buf_printf(&b, "internal server error: %s\n", trouble);
	else
		buf_add_str(&b, "ok");
	reply(c, !trouble, &b);
}

void health_show(struct pages *ps, struct call *c)
{
	const char *page = c->route.path + 1, *slash = strchr(page, '/');
	bool ready_page = str_starts(page, "readyz");
	struct excluded x = { 0 };
	autobuf lines = { 0 }, brief = { 0 };
	bool ok;

	if (slash) {
		show_one(ps, c, slash + 1);
		return;
	}
	excluded_read(c, &x);
	ok = run(ps, ready_page, &x, &lines);
	tell_unknown(&x, &lines);
	buf_printf(&lines, "%s check %s\n", page, ok ? "passed" : "failed");
	buf_add_str(&brief, "ok");
	reply(c, ok, ok && !call_query(c, "verbose") ? &brief : &lines);
	excluded_done(&x);
}
