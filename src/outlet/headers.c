/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/cay/team.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "net/http.h"
#include "net/http_proxy.h"
#include "outlet/outlet_priv.h"
#include "outlet/target.h"

/* Headers on their way out, with the credential, and back, without it. */

static const char *header_of(const struct credential_use *u)
{
	return u->object ? credential_view(u->object)->header : "";
}

void headers_to_send(const struct http_headers *from, const struct target *t,
		     const struct credential_use *u, struct http_headers *ret)
{
	/* A pattern for http_headers_drop() would mean more if it ended with a dash. */
	const char *const replaced[] = { header_of(u), NULL };
	autobuf host = { 0 };

	for (size_t i = 0; i < from->n; i++)
		http_headers_add(ret, from->list[i].name, from->list[i].value);
	http_headers_del_hop_by_hop(ret);
	http_headers_del(ret, "Expect");
	http_headers_del(ret, "Referer"); /* it would name the outlet */
	target_authority(t, &host);
	http_headers_set(ret, "Host", buf_str(&host));
	if (!*replaced[0])
		return;
	http_headers_drop(ret, replaced);
	http_headers_del(ret, replaced[0]);
	http_headers_add(ret, replaced[0], u->text);
}

void headers_wipe(struct http_headers *h)
{
	for (size_t i = 0; i < h->n; i++)
		explicit_bzero(h->list[i].value, strlen(h->list[i].value));
	http_headers_done(h);
}

/* A server may show what it was sent, as it was sent or encoded as in a query. */
static bool tells(const char *value, const char *secret, const char *encoded)
{
	return strstr(value, secret) || strstr(value, encoded);
}

static void hide_value(struct http_headers *h, const struct credential_use *u)
{
	autofree char *encoded = url_encode(u->value);
	bool again;

	do {
		again = false;
		for (size_t i = 0; i < h->n && !again; i++)
			if (tells(h->list[i].value, u->value, encoded)) {
				autofree char *name = xstrdup(h->list[i].name);

				http_headers_del(h, name);
				again = true;
			}
	} while (again);
	explicit_bzero(encoded, strlen(encoded));
}

void headers_to_answer(struct http_headers *h, const struct target *t,
		       const struct credential_use *u)
{
	const char *location;
	autobuf to = { 0 };

	http_headers_del_hop_by_hop(h);
	if (*header_of(u))
		http_headers_del(h, header_of(u));
	if (u->value)
		hide_value(h, u);
	location = http_headers_get(h, "Location");
	if (location && target_location(t, location, &to))
		http_headers_set(h, "Location", buf_str(&to));
}
