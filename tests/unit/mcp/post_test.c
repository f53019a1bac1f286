/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/registry.h"
#include "client/client.h"
#include "mcp/mcp_priv.h"
#include "nowhere.h"
#include "test.h"

static char *answers; /* to the last message, as text */

static void on_answered(struct post *p)
{
	free(answers);
	answers = json_to_text(p->answers);
	post_done(p);
	free(p);
}

/* One message to a session of this version; the answers, until the next. */
static const char *say(enum mcp_version version, const char *text)
{
	const struct access_target who = { .user = "alice" };
	struct kinds *kinds = kinds_new();
	struct client *client = nowhere_client(kinds);
	struct mcp_choice choice = { 0 };
	struct post *p = xnew(struct post);
	struct loop *loop = NULL;
	struct mcp *m;

	works(loop_new(&loop));
	m = mcp_new(loop, &(struct mcp_spec){ .client = client, .version = "0" });
	p->session = mcp_session_ref(mcp_session_open(m, &who, &choice));
	p->session->version = version;
	p->answered = on_answered;
	post_init(p, m, &who);
	post_take(p, text, strlen(text));
	mcp_free(m);
	client_free(client);
	kinds_free(kinds);
	loop_free(loop);
	return answers;
}

TEST(a_request_is_answered_under_its_id)
{
	eq_str(say(MCP_2025_11_25, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}"),
	       "[{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}}]");
	eq_str(say(MCP_2025_11_25, "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}"), "[]");
	is_true(strstr(say(MCP_2025_11_25, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}"),
		       "-32601"));
}

TEST(a_list_is_answered_where_its_version_has_lists)
{
	static const char list[] = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
				   "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]";

	eq_str(say(MCP_2025_03_26, list), "[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},"
					  "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}]");
	is_true(strstr(say(MCP_2025_06_18, list), "-32600"));
}

TEST(every_tool_checks_its_arguments_before_it_does_anything)
{
	static const char form[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\","
				   "\"params\":{\"name\":\"%s\",\"arguments\":{\"nope\":1}}}";
	static const char *const tools[] = { "create_sandbox",     "delete_sandbox",
					     "get_sandbox_status", "execute_command",
					     "upload_file",        "download_file",
					     "list_files",         "file_exists" };

	for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
		char text[256];

		(void)snprintf(text, sizeof(text), form, tools[i]);
		is_true(strstr(say(MCP_2025_11_25, text), "nope: "));
		is_true(strstr(answers, "\"isError\":true"));
	}
	free(answers);
	answers = NULL;
}
