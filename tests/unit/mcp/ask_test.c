/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/registry.h"
#include "base/str.h"
#include "client/client.h"
#include "mcp/mcp_priv.h"
#include "nowhere.h"
#include "test.h"

/* Agents that may use what the test says, and a gate that answers when it does. */
struct world {
	struct kinds *kinds;
	struct client *client;
	struct loop *loop;
	struct mcp *mcp;
	struct mcp_session *session;
	const char *tool; /* the only one that is granted; NULL: all are */
	struct access_question *open;
	char *asked; /* the arguments that were asked about */
	char *answers, *told;
	int n_answered, n_canceled;
};

static struct world *world; /* of the test that runs */

static struct err *may_use(void *arg, const struct access_target *who unused, const char *tool)
{
	struct world *w = arg;

	return !w->tool || str_eq(w->tool, tool) ? NULL : err_new(ERR_FORBIDDEN, "not %s", tool);
}

static bool attached(void *arg unused, const struct access_target *who unused,
		     const char *ns unused, const char *sandbox unused)
{
	return false;
}

static void each_attached(void *arg unused, const struct access_target *who unused,
			  const char *ns unused,
			  void (*fn)(void *fn_arg, const char *sandbox) unused, void *fn_arg unused)
{
}

static void ask(void *arg, const struct access_ask *a, struct access_question *q)
{
	struct world *w = arg;

	eq_str(a->way, "tool");
	free(w->asked);
	w->asked = xasprintf("%s %s", a->deed.tool, a->deed.argv[0]);
	w->open = q;
	q->say(q, "cay: waits for approval x: cay approve x\n");
}

static void cancel(void *arg, struct access_question *q)
{
	struct world *w = arg;

	eq_int(w->open == q, true);
	w->open = NULL;
	w->n_canceled++;
}

static const struct mcp_agents agents = { .may_use = may_use,
					  .attached = attached,
					  .each_attached = each_attached,
					  .ask = ask,
					  .cancel = cancel };

static void world_start(struct world *w)
{
	const struct access_target who = { .user = "cay:agent:default:a" };
	struct mcp_choice choice = { 0 };

	world = w;
	w->kinds = kinds_new();
	w->client = nowhere_client(w->kinds);
	works(loop_new(&w->loop));
	w->mcp =
		mcp_new(w->loop,
			&(struct mcp_spec){
				.client = w->client, .version = "0", .agents = &agents, .arg = w });
	w->session = mcp_session_open(w->mcp, &who, &choice);
	w->session->version = MCP_2025_11_25;
}

static void world_end(struct world *w)
{
	mcp_free(w->mcp);
	client_free(w->client);
	kinds_free(w->kinds);
	loop_free(w->loop);
	free(w->asked);
	free(w->answers);
	free(w->told);
}

static void on_answered(struct post *p)
{
	free(world->answers);
	world->answers = json_to_text(p->answers);
	world->n_answered++;
	post_done(p);
	free(p);
}

static void on_told(struct post *p unused, const struct json *message)
{
	free(world->told);
	world->told = json_to_text(message);
}

static void say(struct world *w, const char *text)
{
	const struct access_target who = { .user = "cay:agent:default:a" };
	struct post *p = xnew(struct post);

	p->session = mcp_session_ref(w->session);
	p->answered = on_answered;
	p->tell = on_told;
	post_init(p, w->mcp, &who);
	post_take(p, text, strlen(text));
}

#define CALL(meta)                                                             \
	"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{" \
	"\"name\":\"delete_sandbox\",\"arguments\":{\"sandbox_claim_name\":\"x\"}" meta "}}"

TEST(a_call_waits_for_its_answer_and_the_client_is_told)
{
	struct world w = { 0 };

	world_start(&w);
	say(&w, CALL(",\"_meta\":{\"progressToken\":\"t\"}"));
	eq_str(w.asked, "delete_sandbox {\"sandbox_claim_name\":\"x\",\"namespace\":\"default\"}");
	eq_int(w.n_answered, 0);
	is_true(strstr(w.told, "\"progressToken\":\"t\""));
	is_true(strstr(w.told, "\"waits for approval x: cay approve x\""));
	w.open->refused(w.open, err_new(ERR_FORBIDDEN, "bob denied it"));
	is_true(strstr(w.answers, "bob denied it") && strstr(w.answers, "\"isError\":true"));
	say(&w, CALL(""));
	w.open->allowed(w.open, NULL);
	is_true(strstr(w.answers, "not found")); /* the tool was started */
	eq_int(w.n_answered, 2);
	world_end(&w);
}

TEST(who_has_not_asked_for_progress_is_told_of_none)
{
	static const char *const rows[] = { CALL(""), CALL(",\"_meta\":{}"),
					    CALL(",\"_meta\":{\"progressToken\":{}}") };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct world w = { 0 };

		world_start(&w);
		say(&w, rows[i]);
		is_true(w.open && !w.told);
		world_end(&w);
		eq_int(w.n_canceled, 1);
	}
}

TEST(a_call_that_is_cancelled_takes_its_question_back)
{
	struct world w = { 0 };

	world_start(&w);
	say(&w, CALL(""));
	say(&w, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
		"\"params\":{\"requestId\":7}}");
	eq_int(w.n_canceled, 1);
	eq_int(w.n_answered, 2); /* the notification, with nothing */
	say(&w, CALL(""));
	mcp_session_end(w.session);
	eq_int(w.n_canceled, 2);
	is_true(strstr(w.answers, "the session has ended"));
	world_end(&w);
}

TEST(tools_that_are_not_granted_are_neither_shown_nor_started)
{
	struct world w = { .tool = "list_files" };
	const char *first;

	world_start(&w);
	say(&w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
	first = strstr(w.answers, "\"inputSchema\"");
	is_true(strstr(w.answers, "\"list_files\"") && !strstr(first + 1, "\"inputSchema\""));
	say(&w, CALL(""));
	is_true(strstr(w.answers, "not delete_sandbox") && !w.open);
	world_end(&w);
}
