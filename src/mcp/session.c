/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/meta.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/random.h"
#include "base/str.h"
#include "base/wall.h"
#include "mcp/mcp_priv.h"
#include "net/http.h"

/*
 * Sessions. They live in memory: after a restart the old ids are unknown, which tells clients to
 * begin anew. A session belongs to the user who opened it, and to nobody else is it there.
 *
 * Clients forget to end theirs. So one that is needed takes the place of the one that was unused
 * for longest: of the same user at that user's limit, of all where all are taken.
 */
enum {
	LOOK_MS = 60 * 1000,
};

const char *const mcp_versions[MCP_VERSION_MAX_ + 1] = {
	[MCP_2024_11_05] = "2024-11-05",
	[MCP_2025_03_26] = "2025-03-26",
	[MCP_2025_06_18] = "2025-06-18",
	[MCP_2025_11_25] = "2025-11-25",
};

bool mcp_version_find(const char *name, enum mcp_version *ret)
{
	for (unsigned i = 0; i < MCP_VERSION_MAX_; i++)
		if (str_eq(mcp_versions[i], name)) {
			*ret = i;
			return true;
		}
	return false;
}

static struct err *read_name(const char *query, const char *what, char **ret)
{
	autofree char *text = http_query_get(query, what);
	const char *bad = str_empty(text) ? NULL : meta_bad_dns_subdomain(text);

	if (bad)
		return err_new(ERR_INVALID, "%s \"%s\" in the address: %s", what, text, bad);
	if (!str_empty(text))
		*ret = take(text);
	return NULL;
}

struct err *mcp_choice_read(const char *query, struct mcp_choice *ret)
{
	autofree char *scope = http_query_get(query, "scope");
	autofree char *cleanup = http_query_get(query, "cleanup");
	struct err *e;

	*ret = (struct mcp_choice){ .whole_user = str_eq(scope, "user") };
	if (!str_empty(scope) && !ret->whole_user && !str_eq(scope, "session"))
		return err_new(ERR_INVALID, "scope \"%s\" in the address: use session or user",
			       scope);
	e = str_empty(cleanup) ? NULL : parse_bool(cleanup, &ret->cleanup);
	if (e)
		return err_recode(err_wrap(e, "cleanup in the address"), ERR_INVALID);
	e = read_name(query, "namespace", &ret->ns);
	if (!e)
		e = read_name(query, "pool", &ret->pool);
	if (e)
		mcp_choice_done(ret);
	return e;
}

void mcp_choice_done(struct mcp_choice *c)
{
	free(take(c->ns));
	free(take(c->pool));
}

struct mcp_session *mcp_session_ref(struct mcp_session *s)
{
	s->refs++;
	return s;
}

void mcp_session_unref(struct mcp_session *s)
{
	if (!s || --s->refs)
		return;
	caller_free(s->caller);
	mcp_choice_done(&s->choice);
	free(s);
}

void mcp_session_end(struct mcp_session *s)
{
	struct mcp *m = s->mcp;
	struct post *p, *next;

	if (s->ended)
		return;
	s->ended = true;
	list_del(&s->on);
	(void)map_take(m->sessions, s->id);
	list_each_safe(p, next, &m->posts, on)
		if (p->session == s)
			post_cancel_calls(p, "the session has ended");
	if (s->choice.cleanup)
		claims_delete_all(s);
	mcp_session_unref(s);
}

static void touch(struct mcp_session *s)
{
	s->used = clock_mono();
	list_del(&s->on);
	list_add_tail(&s->mcp->idle, &s->on);
}

static bool is_of(const struct mcp_session *s, const char *user)
{
	return str_eq(s->caller->who.user, user);
}

/* The one unused for longest, of a user or (NULL) of all. */
static struct mcp_session *oldest(struct mcp *m, const char *user, size_t *ret_n)
{
	struct mcp_session *s, *found = NULL;

	*ret_n = 0;
	list_each(s, &m->idle, on) {
		if (user && !is_of(s, user))
			continue;
		if (!found && s->refs == 1) /* nothing of it is under way */
			found = s;
		++*ret_n;
	}
	return found;
}

static void make_room(struct mcp *m, const char *user)
{
	struct mcp_session *s;
	size_t n;

	s = oldest(m, user, &n);
	if (n >= MCP_SESSIONS_USER_MAX && s)
		mcp_session_end(s);
	s = oldest(m, NULL, &n);
	if (n >= MCP_SESSIONS_MAX && s)
		mcp_session_end(s);
}

struct mcp_session *mcp_session_open(struct mcp *m, const struct access_target *who,
				     struct mcp_choice *choice)
{
	struct mcp_session *s = xnew(struct mcp_session);
	unsigned char bytes[16];

	make_room(m, who->user);
	random_bytes(bytes, sizeof(bytes));
	hex_encode(bytes, sizeof(bytes), s->id);
	s->refs = 1;
	s->mcp = m;
	s->caller = caller_new(who);
	s->choice = *choice;
	*choice = (struct mcp_choice){ 0 };
	list_init(&s->on);
	touch(s);
	map_put(m->sessions, s->id, s);
	if (!timer_armed(m->expiry))
		timer_set(m->expiry, LOOK_MS);
	return s;
}

struct mcp_session *mcp_session_alone(struct mcp *m, const struct access_target *who,
				      struct mcp_choice *choice)
{
	struct mcp_session *s = xnew(struct mcp_session);

	s->refs = 1;
	s->mcp = m;
	s->caller = caller_new(who);
	s->choice = *choice;
	*choice = (struct mcp_choice){ 0 };
	list_init(&s->on);
	s->version = MCP_VERSION_MAX_ - 1;
	s->alone = true;
	return s;
}

struct mcp_session *mcp_session_find(struct mcp *m, const char *id, const struct access_target *who)
{
	struct mcp_session *s = map_get(m->sessions, id);

	if (!s || (!is_of(s, who->user) && wall_stands("mcp-session")))
		return NULL;
	touch(s);
	return mcp_session_ref(s);
}

void mcp_sessions_expire(struct mcp *m, usec now)
{
	struct mcp_session *s, *next;

	list_each_safe(s, next, &m->idle, on)
		if (now - s->used > MCP_SESSION_IDLE_S * 1000000ll && s->refs == 1)
			mcp_session_end(s);
	if (!list_empty(&m->idle))
		timer_set(m->expiry, LOOK_MS);
}

static void on_expiry(void *arg)
{
	mcp_sessions_expire(arg, clock_mono());
}

void mcp_sessions_init(struct mcp *m)
{
	list_init(&m->idle);
	m->sessions = map_new(NULL);
	m->expiry = timer_new(m->loop, on_expiry, m);
}

void mcp_sessions_done(struct mcp *m)
{
	struct mcp_session *s, *next;

	list_each_safe(s, next, &m->idle, on) {
		s->choice.cleanup = false; /* the server stops; the sandboxes need not */
		mcp_session_end(s);
	}
	map_free(m->sessions);
	timer_free(m->expiry);
}
