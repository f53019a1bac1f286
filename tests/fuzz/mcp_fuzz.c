/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/registry.h"
#include "base/map.h"
#include "client/client.h"
#include "mcp/mcp_priv.h"
#include "nowhere.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Every message is answered at once here: there are no sandboxes to wait for. */
static void on_answered(struct post *p)
{
	json_each(it, p->answers) {
		assert(json_get(it.val, "id"));
		assert(!json_get(it.val, "result") != !json_get(it.val, "error"));
	}
	assert(list_empty(&p->calls));
	post_done(p);
	free(p);
}

static void take_message(struct mcp *m, struct mcp_session *s, const char *text, size_t len)
{
	static const char *const groups[] = { "system:authenticated", NULL };
	const struct access_target who = { .user = "fuzz", .groups = groups };
	struct post *p = xnew(struct post);

	p->answered = on_answered;
	p->session = s->ended ? NULL : mcp_session_ref(s);
	p->routed_method = xstrdup("tools/call");
	p->routed_name = xstrdup("=?base64?bGlzdF9maWxlcw==?="); /* list_files */
	post_init(p, m, &who);
	post_take(p, text, len);
}

/* Lines are messages of one session, after the first byte, which says of which version it is; of
 * none, after an s. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct access_target who = { .user = "fuzz" };
	const char *at = (const char *)data + 1, *end = (const char *)data + len;
	struct mcp_choice choice = { 0 };
	struct kinds *kinds = kinds_new();
	struct client *client = nowhere_client(kinds);
	struct loop *loop = NULL;
	struct mcp *m;
	struct mcp_session *s;

	assert(!loop_new(&loop));
	m = mcp_new(loop, &(struct mcp_spec){ .client = client, .version = "0" });
	if (len && data[0] == 's')
		s = mcp_session_alone(m, &who, &choice);
	else
		s = mcp_session_ref(mcp_session_open(m, &who, &choice));
	if (len)
		s->version = data[0] % MCP_VERSION_MAX_;
	while (len && at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = stop ? (size_t)(stop - at) : (size_t)(end - at);

		take_message(m, s, at, n);
		at += n + 1;
	}
	mcp_session_unref(s);
	mcp_free(m);
	client_free(client);
	kinds_free(kinds);
	loop_free(loop);
	return 0;
}
