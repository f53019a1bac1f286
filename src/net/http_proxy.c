/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_proxy.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"
#include "net/http.h"

const char http_page_policy[] =
	"sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

const char *const http_identities[] = {
	"X-Forwarded-",
	"X-Remote-",
	"X-Auth-Request-",
	"X-Authenticated-",
	"X-Webauth-",
	"X-SSL-",
	"X-Client-Cert",
	"X-Original-",
	"X-Rewrite-URL",
	"X-Real-IP",
	"Remote-User",
	"Remote-Groups",
	"Remote-Name",
	"Remote-Email",
	"SSL-Client-",
	"Cay-",
	"X-Cay-",
	"Impersonate-",
	NULL,
};

static char plain(char c)
{
	if (c == '_') /* a dash to servers that make variables of headers */
		return '-';
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool matches(const char *name, const char *pattern)
{
	for (; *pattern; name++, pattern++)
		if (plain(*name) != plain(*pattern))
			return false;
	return !*name || pattern[-1] == '-';
}

static bool matches_any(const char *name, const char *const patterns[])
{
	char first = plain(name[0]);

	for (size_t i = 0; patterns[i]; i++)
		if (plain(patterns[i][0]) == first && matches(name, patterns[i]))
			return true;
	return false;
}

static bool has_any(const struct http_headers *h, const char *const patterns[])
{
	for (size_t i = 0; i < h->n; i++)
		if (matches_any(h->list[i].name, patterns))
			return true;
	return false;
}

void http_headers_drop(struct http_headers *h, const char *const patterns[])
{
	struct http_headers kept = { 0 };

	if (!has_any(h, patterns))
		return;
	for (size_t i = 0; i < h->n; i++)
		if (!matches_any(h->list[i].name, patterns))
			http_headers_add(&kept, h->list[i].name, h->list[i].value);
	http_headers_done(h);
	*h = kept;
}

static bool is_bearer_protocol(struct span one)
{
	static const char prefix[] = "base64url.bearer.authorization.";

	return one.len >= sizeof(prefix) - 1 && strncasecmp(one.p, prefix, sizeof(prefix) - 1) == 0;
}

void http_headers_drop_bearer_protocols(struct http_headers *h)
{
	static const char name[] = "Sec-WebSocket-Protocol";
	bool found = false;
	autobuf kept = { 0 };

	for (size_t i = 0; i < h->n; i++) {
		struct span rest = SPAN(h->list[i].value), one;

		if (!str_eq_nocase(h->list[i].name, name))
			continue;
		while (rest.len) {
			one = span_trim(span_cut(rest, ',', &rest));
			found = found || is_bearer_protocol(one);
			if (!one.len || is_bearer_protocol(one))
				continue;
			buf_printf(&kept, "%s%.*s", kept.len ? ", " : "", (int)one.len, one.p);
		}
	}
	if (found)
		http_headers_del(h, name);
	if (found && kept.len)
		http_headers_add(h, name, buf_str(&kept));
}

struct offered {
	struct span token; /* as it was sent */
	size_t n_tokens, n_others;
};

static struct offered read_offered(const struct http_headers *h)
{
	static const char prefix[] = "base64url.bearer.authorization.k8s.io.";
	const size_t len = sizeof(prefix) - 1;
	struct offered found = { 0 };

	for (size_t i = 0; i < h->n; i++) {
		struct span rest = SPAN(h->list[i].value);

		if (!str_eq_nocase(h->list[i].name, "Sec-WebSocket-Protocol"))
			continue;
		while (rest.p) {
			struct span one = span_trim(span_cut(rest, ',', &rest));

			if (one.len >= len && !strncmp(one.p, prefix, len)) {
				found.token = (struct span){ one.p + len, one.len - len };
				found.n_tokens++;
			} else if (one.len) {
				found.n_others++;
			}
		}
	}
	return found;
}

struct err *http_headers_take_bearer_protocol(struct http_headers *h, char **ret)
{
	struct offered found = read_offered(h);
	autofree char *text = NULL;
	autofree void *raw = NULL;
	size_t len = 0;
	struct err *e;

	if (!found.n_tokens)
		return NULL;
	if (found.n_tokens > 1 || !found.token.len || !found.n_others)
		return err_new(ERR_MALFORMED, "a WebSocket offers one token, and another protocol");
	text = xstrndup(found.token.p, found.token.len);
	e = base64_decode(text, true, &raw, &len);
	if (e)
		return err_recode(e, ERR_MALFORMED);
	if (!len || memchr(raw, '\0', len) || !utf8_valid(raw, len))
		return err_new(ERR_MALFORMED, "the token of a WebSocket is no text");
	*ret = xstrndup(raw, len);
	http_headers_drop_bearer_protocols(h);
	return NULL;
}

void http_peer_ip(const char *peer, char ret[PEER_IP_MAX])
{
	const char *colon = strrchr(peer, ':');
	size_t len = colon ? (size_t)(colon - peer) : strlen(peer);

	if (len >= 2 && peer[0] == '[' && peer[len - 1] == ']') {
		peer++;
		len -= 2;
	}
	len = MIN(len, (size_t)PEER_IP_MAX - 1);
	memcpy(ret, peer, len);
	ret[len] = '\0';
}
