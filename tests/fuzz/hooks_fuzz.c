/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "base/parse.h"
#include "base/str.h"
#include "hooks/hooks_priv.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char secret_text[] = "secret";
static const struct hook_secret secret = { secret_text, sizeof(secret_text) - 1 };
static const usec now = (usec)1700000000 * 1000000;

/* The next line, malloc'd and without a NUL; "-": the header is not there. */
static char *take_line(struct span *rest)
{
	struct span line = rest->p ? span_cut(*rest, '\n', rest) : (struct span){ "", 0 };

	return span_eq(line, "-") ? NULL : xstrndup(line.p, line.len);
}

/* What the secret really signs holds, and nothing that differs from it does. */
static void check_signed(const struct hook_headers *sent, struct hook_secret body)
{
	static const char stamp[] = "1700000000";
	struct hook_headers h = *sent;
	char value[7 + 2 * SHA256_LEN + 1] = "sha256=";
	unsigned char raw[SHA256_LEN];
	autobuf text = { 0 };

	buf_printf(&text, "%s.", stamp);
	buf_add(&text, body.p, body.len);
	hmac_sha256(secret.p, secret.len, buf_head(&text), text.len, raw);
	hex_encode(raw, sizeof(raw), value + 7);
	h.timestamp = stamp;
	h.signature = value;
	assert(proof_holds(TRIGGER_PLAIN, &h, &secret, body, now));
	value[10] = value[10] == 'a' ? 'b' : 'a';
	assert(!proof_holds(TRIGGER_PLAIN, &h, &secret, body, now));
}

static void check_event(struct hook_secret body, const char *path)
{
	const struct json_limits limits = { .max_len = HOOK_BODY_MAX, .max_depth = HOOK_DEPTH_MAX };
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse(body.p, body.len, &limits, &d);
	autofree char *key = e ? NULL : event_at(json_root(d), path);
	char name[HOOK_SESSION_LEN + 1];
	const char *at = NULL;

	if (e)
		return;
	(void)event_passes(json_root(d), json_root(d), &at); /* an event that looks like filters */
	event_session_name(&(struct event_session){ "ns", "a.trigger", "agent", str_or(key, "") },
			   name);
	assert(!meta_bad_dns_label(name));
}

/* What was read is found, and is written as it was read. */
static void check_seen(struct hook_secret body)
{
	struct hook k = { 0 };

	list_init(&k.chunks);
	seen_load(&k, 0, body.p, body.len);
	seen_free(&k);
}

/* Five headers, one in a line; a JSONPath; then the body. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct span rest = { (const char *)data, len };
	autofree char *hub = take_line(&rest), *signature = take_line(&rest),
		      *timestamp = take_line(&rest), *hub_delivery = take_line(&rest),
		      *delivery = take_line(&rest), *path = take_line(&rest);
	const struct hook_headers h = { hub, signature, timestamp, hub_delivery, delivery };
	const struct hook_secret body = { rest.p ? rest.p : "", rest.p ? rest.len : 0 };
	char id[HOOK_ID_MAX + 1];

	for (enum trigger_form form = 0; form < TRIGGER_FORM_MAX_; form++) {
		(void)proof_holds(form, &h, &secret, body, now);
		if (proof_id(form, &h, body, id))
			assert(*id && strlen(id) <= HOOK_ID_MAX && utf8_valid(id, strlen(id)));
	}
	check_signed(&h, body);
	check_event(body, path ? path : ".");
	check_seen(body);
	return 0;
}
