/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/registry.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "mcp/mcp_priv.h"
#include "nowhere.h"
#include "test.h"

static struct loop *loop;
static struct kinds *kinds;
static struct client *client;

static struct mcp *begin(void)
{
	works(loop_new(&loop));
	kinds = kinds_new();
	client = nowhere_client(kinds);
	return mcp_new(loop, &(struct mcp_spec){ .client = client, .version = "0" });
}

static void end(struct mcp *m)
{
	mcp_free(m);
	client_free(client);
	kinds_free(kinds);
	loop_free(loop);
}

static struct mcp_session *open_for(struct mcp *m, const char *user)
{
	struct mcp_choice choice = { 0 };

	return mcp_session_open(m, &(struct access_target){ .user = user }, &choice);
}

static bool is_found(struct mcp *m, const char *id, const char *user)
{
	struct mcp_session *s = mcp_session_find(m, id, &(struct access_target){ .user = user });

	mcp_session_unref(s);
	return s;
}

TEST(a_session_is_there_for_its_user_alone)
{
	struct mcp *m = begin();
	struct mcp_session *s = open_for(m, "alice");

	is_true(is_found(m, s->id, "alice"));
	is_false(is_found(m, s->id, "bob"));
	is_false(is_found(m, "x", "alice"));
	end(m);
}

TEST(the_session_unused_for_longest_makes_room)
{
	struct mcp *m = begin();
	char first[33], second[33], other[33];

	memcpy(other, open_for(m, "bob")->id, sizeof(other));
	memcpy(first, open_for(m, "alice")->id, sizeof(first));
	memcpy(second, open_for(m, "alice")->id, sizeof(second));
	is_true(is_found(m, first, "alice")); /* used again: the second is older now */
	for (int i = 0; i < MCP_SESSIONS_USER_MAX - 1; i++)
		(void)open_for(m, "alice");
	is_false(is_found(m, second, "alice"));
	is_true(is_found(m, first, "alice"));
	is_true(is_found(m, other, "bob"));
	eq_int(map_len(m->sessions), MCP_SESSIONS_USER_MAX + 1);
	end(m);
}

TEST(all_sessions_together_have_a_limit)
{
	struct mcp *m = begin();

	for (int i = 0; i < MCP_SESSIONS_MAX + 10; i++) {
		autofree char *user = xasprintf("user-%d", i);

		(void)open_for(m, user);
	}
	eq_int(map_len(m->sessions), MCP_SESSIONS_MAX);
	end(m);
}

TEST(a_session_expires_unless_something_of_it_is_under_way)
{
	struct mcp *m = begin();
	struct mcp_session *idle = open_for(m, "alice"), *busy = open_for(m, "alice");
	usec late = clock_mono() + (MCP_SESSION_IDLE_S + 1) * 1000000ll;
	char id[33];

	memcpy(id, idle->id, sizeof(id));
	(void)mcp_session_ref(busy);
	mcp_sessions_expire(m, late - 2000000);
	eq_int(map_len(m->sessions), 2);
	mcp_sessions_expire(m, late);
	is_false(is_found(m, id, "alice"));
	is_true(is_found(m, busy->id, "alice"));
	mcp_session_unref(busy);
	end(m);
}

TEST(owners_differ_by_the_whole_name)
{
	autoptr(caller) a = caller_new(&(struct access_target){ .user = "alice" });
	autoptr(caller) b = caller_new(&(struct access_target){ .user = "alicf" });
	autoptr(caller) again = caller_new(&(struct access_target){ .user = "alice" });

	eq_int(strlen(a->owner), 32);
	eq_str(a->owner, again->owner);
	is_false(str_eq(a->owner, b->owner));
}

TEST(what_the_address_says_is_checked)
{
	static const char *const bad[] = { "scope=all", "cleanup=perhaps", "namespace=A_B",
					   "pool=.." };
	struct mcp_choice c;

	works(mcp_choice_read("scope=user&cleanup=true&namespace=n&pool=p", &c));
	is_true(c.whole_user && c.cleanup);
	eq_str(c.ns, "n");
	eq_str(c.pool, "p");
	mcp_choice_done(&c);
	works(mcp_choice_read("", &c));
	is_false(c.whole_user || c.cleanup);
	eq_str(c.ns, NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fails(mcp_choice_read(bad[i], &c), ERR_INVALID);
}
