/* SPDX-License-Identifier: Apache-2.0 */
/* `cay trigger`: what events start. `cay hook`: an event, sent as its sender would. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/random.h"
#include "cli/agent/agent_priv.h"
#include "crypto/crypto.h"
#include "net/http_client.h"

enum {
	EVENT_MAX = 1024 * 1024,
	SECRET_MAX = 64 * 1024,
	READ_LEN = 64 * 1024,
};

const struct setting trigger_settings[] = {
	LIST_SETTING,
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

const struct setting hook_settings[] = {
	{ "secret-file", SETTING_TEXT, NULL, "FILE",
	  "File whose bytes, all of them, are the secret of the trigger" },
	{ "delivery", SETTING_TEXT, NULL, "ID",
	  "Id of the delivery (default: a new one); the same again is taken once" },
	REMOTE_SETTINGS,
	{ 0 },
};

static struct err *list(struct remote *r, const struct settings *s)
{
	return cay_list(r, s, &kind_triggers);
}

static struct err *show(struct remote *r, const struct settings *s)
{
	return cay_show(r, s, &kind_triggers, settings_arg(s, 1));
}

int trigger_cmd(const struct command *c, const struct settings *s)
{
	static const struct verb verbs[] = {
		{ "ls", 0, 0, list },
		{ "show", 1, 1, show },
		{ 0 },
	};

	return verbs_run(c, s, verbs);
}

/* An event */

static struct err *read_event(struct buf *ret)
{
	for (;;) {
		ssize_t n = read(STDIN_FILENO, buf_reserve(ret, READ_LEN), READ_LEN);

		if (n < 0)
			return err_sys(errno, "read standard input");
		if (!n)
			return NULL;
		buf_wrote(ret, (size_t)n);
		if (ret->len > EVENT_MAX)
			return err_new(ERR_TOO_LARGE, "an event has 1 MiB at most");
	}
}

static void add_signature(struct http_headers *h, const char *name, struct span secret,
			  const struct buf *text)
{
	unsigned char raw[SHA256_LEN];
	char value[7 + 2 * SHA256_LEN + 1] = "sha256=";

	hmac_sha256(secret.p, secret.len, text->len ? buf_head(text) : "", text->len, raw);
	hex_encode(raw, sizeof(raw), value + 7);
	http_headers_add(h, name, value);
}

/* Both forms: the trigger knows which of them it wants. */
static void sign(struct http_headers *h, struct span secret, const struct buf *event)
{
	usec now = clock_wall();
	autofree char *stamp = xasprintf("%" PRId64 ".%06" PRId64, now / 1000000, now % 1000000);
	autobuf timed = { 0 };

	add_signature(h, "X-Hub-Signature-256", secret, event);
	buf_printf(&timed, "%s.", stamp);
	if (event->len)
		buf_add(&timed, buf_head(event), event->len);
	http_headers_add(h, "X-Cay-Timestamp", stamp);
	add_signature(h, "X-Cay-Signature", secret, &timed);
}

/* Malloc'd; the name may have its namespace in front. */
static char *hook_path(struct remote *r, const char *name)
{
	const char *slash = strchr(name, '/');

	return xasprintf("%s/hooks/%s%s%s", remote_server(r)->prefix, slash ? "" : remote_ns(r),
			 slash ? "" : "/", name);
}

static struct err *send_event(struct remote *r, const struct settings *s, struct span secret,
			      const struct buf *event)
{
	const struct cli_server *to = remote_server(r);
	autofree char *target = hook_path(r, settings_arg(s, 1));
	const char *delivery = settings_text(s, "delivery");
	struct http_headers h = { 0 };
	autobuf answer = { 0 };
	char id[37];
	int status = 0;
	struct err *e;

	random_uuid(id);
	http_headers_add(&h, "Host", to->host);
	http_headers_add(&h, "Content-Type", "application/json");
	http_headers_add(&h, "X-Cay-Delivery", delivery ? delivery : id);
	http_headers_add(&h, "X-GitHub-Delivery", delivery ? delivery : id);
	sign(&h, secret, event);
	e = cli_exchange(&(struct cli_request){ .addr = to->addr,
						.method = "POST",
						.target = target,
						.headers = &h,
						.body = event,
						.wrap = cli_server_wrap,
						.wrap_arg = (void *)(uintptr_t)to },
			 &status, &answer);
	http_headers_done(&h);
	if (e)
		return e;
	buf_add_char(&answer, '\n');
	if (status == 202) {
		cli_write(&answer);
		return NULL;
	}
	(void)buf_str(&answer);
	cli_disarm(buf_head(&answer), '\n');
	return err_new(ERR_FORBIDDEN, "it was answered with %d: %.*s", status, (int)answer.len - 1,
		       buf_head(&answer));
}

static struct err *test(struct remote *r, const struct settings *s)
{
	const char *file = settings_text(s, "secret-file");
	autofree char *secret = NULL;
	autobuf event = { 0 };
	size_t len = 0;
	struct err *e;

	if (!file)
		return err_new(ERR_INVALID, "--secret-file is missing");
	e = file_read(AT_FDCWD, file, SECRET_MAX, &secret, &len);
	if (!e)
		e = read_event(&event);
	if (!e)
		e = send_event(r, s, (struct span){ secret, len }, &event);
	return e;
}

int hook_cmd(const struct command *c, const struct settings *s)
{
	static const struct verb verbs[] = {
		{ "test", 1, 1, test },
		{ 0 },
	};

	return verbs_run(c, s, verbs);
}
