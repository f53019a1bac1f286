/* SPDX-License-Identifier: Apache-2.0 */
#include "outlet/target.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/ip.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * Paths. Patterns of capabilities are compared with what is sent, and the server decides what that
 * means. So whatever servers are known to read in different ways is refused: segments of dots, in
 * any spelling, two slashes in a row, backslashes, semicolons, control characters, a percent sign
 * that is itself encoded, and what is not UTF-8. What may be encoded or not and means the same is
 * written in one way: letters, digits and -._~ as they are, everything else with capital digits.
 */
enum {
	HTTP_PORT = 80,
	HTTPS_PORT = 443,
	LABEL_MAX = 63,
};

void target_done(struct target *t)
{
	free(t->path);
	free(t->query);
	*t = (struct target){ 0 };
}

const char *target_scheme(const struct target *t)
{
	return t->tls ? "https" : "http";
}

static uint16_t usual_port(const struct target *t)
{
	return t->tls ? HTTPS_PORT : HTTP_PORT;
}

/* The host */

static struct err *bad_host(struct span host)
{
	return err_new(ERR_MALFORMED, "%.*s is not the name or address of a host",
		       (int)MIN(host.len, (size_t)TARGET_HOST_MAX), host.p);
}

static bool label_good(struct span label)
{
	if (!label.len || label.len > LABEL_MAX || label.p[0] == '-' ||
	    label.p[label.len - 1] == '-')
		return false;
	for (size_t i = 0; i < label.len; i++)
		if (!isalnum((unsigned char)label.p[i]) && label.p[i] != '-' && label.p[i] != '_')
			return false;
	return true;
}

/* Some programs take names that end like this for addresses: 127.1, 0x7f000001. */
static bool looks_numeric(struct span label)
{
	return isdigit((unsigned char)label.p[0]);
}

static bool read_name(struct span host, char ret[TARGET_HOST_MAX])
{
	struct span rest = host, label = { 0 };

	if (!host.len || host.len >= TARGET_HOST_MAX)
		return false;
	do {
		label = span_cut(rest, '.', &rest);
		if (!label_good(label))
			return false;
	} while (rest.p);
	if (looks_numeric(label))
		return false;
	for (size_t i = 0; i < host.len; i++)
		ret[i] = (char)tolower((unsigned char)host.p[i]);
	ret[host.len] = '\0';
	return true;
}

static bool read_address(struct span host, bool v6, char ret[TARGET_HOST_MAX])
{
	char text[IP_TEXT_MAX];
	struct ip ip;

	if (!host.len || host.len >= sizeof(text))
		return false;
	memcpy(text, host.p, host.len);
	text[host.len] = '\0';
	if (!ip_parse(text, &ip) || ip_is4(&ip) == v6)
		return false;
	ip_text(&ip, ret);
	return true;
}

static struct err *read_port(struct span text, uint16_t *ret)
{
	uint32_t port = 0;

	for (size_t i = 0; i < text.len && port <= UINT16_MAX; i++)
		port = isdigit((unsigned char)text.p[i]) ? port * 10 + (uint32_t)(text.p[i] - '0')
							 : UINT32_MAX / 16;
	if (!text.len || text.p[0] == '0' || port > UINT16_MAX)
		return err_new(ERR_MALFORMED, "%.*s is not a port from 1 to 65535",
			       (int)MIN(text.len, (size_t)16), text.p);
	*ret = (uint16_t)port;
	return NULL;
}

static struct err *read_authority(struct span text, struct target *t)
{
	struct span host, port = { 0 };
	bool bracket = text.len && text.p[0] == '[';
	const char *end = bracket ? memchr(text.p, ']', text.len) : NULL;

	t->port = usual_port(t);
	if (bracket && !end)
		return bad_host(text);
	if (bracket) {
		host = (struct span){ text.p + 1, (size_t)(end - text.p) - 1 };
		port = (struct span){ end + 1, text.len - host.len - 2 };
		if (port.len && *port.p != ':')
			return bad_host(text);
		port = port.len ? (struct span){ port.p + 1, port.len - 1 } : (struct span){ 0 };
	} else {
		host = span_cut(text, ':', &port);
	}
	t->literal = read_address(host, bracket, t->host);
	if (!t->literal && (bracket || !read_name(host, t->host)))
		return bad_host(text);
	return port.p ? read_port(port, &t->port) : NULL;
}

/* The path */

static bool is_unreserved(unsigned char c)
{
	return isalnum(c) || (c && strchr("-._~", c));
}

/* Besides those, what RFC 3986 lets stand in a path as it is, without the semicolon. */
static bool is_plain(unsigned char c)
{
	return is_unreserved(c) || (c && strchr("/!$&'()*+,=:@", c));
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_ambiguous(unsigned char c)
{
	return c < 0x20 || c == 0x7f || c == '\\' || c == ';' || c == '%';
}

/* One character of the path, decoded. False: it cannot be one. */
static bool next(const char **p, unsigned char *ret)
{
	int high, low;

	if (**p != '%') {
		*ret = (unsigned char)*(*p)++;
		return is_plain(*ret);
	}
	high = hex((*p)[1]);
	low = high < 0 ? -1 : hex((*p)[2]);
	if (low < 0)
		return false;
	*p += 3;
	*ret = (unsigned char)(high << 4 | low);
	return !is_ambiguous(*ret);
}

/* decoded has all of the path, slashes that were encoded among them. */
static bool segments_good(const char *decoded)
{
	for (const char *p = decoded; *p == '/';) {
		size_t len = strcspn(++p, "/");

		if ((!len && *p) || (len == 1 && *p == '.') || (len == 2 && !strncmp(p, "..", 2)))
			return false;
		p += len;
	}
	return true;
}

static struct err *read_path(const char *text, char **ret)
{
	autobuf path = { 0 }, decoded = { 0 };
	const char *p = text;

	while (*p) {
		bool encoded = *p == '%';
		unsigned char c;

		if (!next(&p, &c))
			return err_new(ERR_MALFORMED,
				       "the path has a character that servers read in different "
				       "ways, at byte %zu: \\, ;, #, control characters, and %% "
				       "unless it is followed by the two digits of another one",
				       (size_t)(p - text));
		buf_add_char(&decoded, (char)c);
		if (encoded && !is_unreserved(c))
			buf_printf(&path, "%%%02X", c);
		else
			buf_add_char(&path, (char)c);
	}
	if (!utf8_valid(buf_head(&decoded), decoded.len))
		return err_new(ERR_MALFORMED, "the path is not UTF-8");
	if (!segments_good(buf_str(&decoded)))
		return err_new(ERR_MALFORMED,
			       "the path has an empty segment, or one of dots: write it without");
	*ret = buf_steal(&path, NULL);
	return NULL;
}

static struct err *read_query(const char *text, char **ret)
{
	for (const char *p = text; *p; p++)
		if (*p <= ' ' || *p == 0x7f || *p == '#' || *p == '\\' || *p & 0x80)
			return err_new(ERR_MALFORMED,
				       "the query has a character that must be encoded");
	*ret = xstrdup(text);
	return NULL;
}

static struct err *read_rest(const char *text, struct target *t)
{
	size_t path_len = strcspn(text, "?");
	autofree char *path = xstrndup(path_len ? text : "/", path_len ? path_len : 1);
	struct err *e = read_path(path, &t->path);

	if (!e && text[path_len])
		e = read_query(text + path_len + 1, &t->query);
	return e;
}

struct err *target_read(const char *text, struct target *ret)
{
	struct target t = { .tls = str_starts(text, "/https/") };
	size_t len;
	struct err *e;

	if (!t.tls && !str_starts(text, "/http/"))
		return err_new(ERR_NOT_FOUND,
			       "ask for /https/HOST/PATH or /http/HOST/PATH: the outlet sends the "
			       "request to HOST");
	text += strlen(t.tls ? "/https/" : "/http/");
	len = strcspn(text, "/?");
	e = read_authority((struct span){ text, len }, &t);
	if (!e)
		e = read_rest(text + len, &t);
	if (e) {
		target_done(&t);
		return e;
	}
	*ret = t;
	return NULL;
}

/* What is made of it */

void target_authority(const struct target *t, struct buf *out)
{
	buf_printf(out, strchr(t->host, ':') ? "[%s]" : "%s", t->host);
	if (t->port != usual_port(t))
		buf_printf(out, ":%u", t->port);
}

/* Whether a parameter, as it stands in the query, has this name once it is decoded. */
static bool is_named(struct span parameter, const char *name)
{
	struct span rest, key = span_cut(parameter, '=', &rest);
	autofree char *decoded = NULL;
	struct err *e = url_decode(key.p, key.len, true, &decoded, NULL);
	bool same = !e && str_eq(decoded, name);

	err_free(e);
	return same;
}

void target_write(const struct target *t, const char *add_name, const char *add_value,
		  struct buf *out)
{
	struct span rest = { t->query, t->query ? strlen(t->query) : 0 }, one;
	char sep = '?';

	buf_add_str(out, t->path);
	while (rest.p) {
		one = span_cut(rest, '&', &rest);
		if (add_name && is_named(one, add_name))
			continue;
		buf_add_char(out, sep);
		buf_add(out, one.p, one.len);
		sep = '&';
	}
	if (add_name) {
		autofree char *name = url_encode(add_name);
		autofree char *value = url_encode(add_value);

		buf_printf(out, "%c%s=%s", sep, name, value);
		explicit_bzero(value, strlen(value));
	}
}

bool target_location(const struct target *t, const char *location, struct buf *out)
{
	autobuf here = { 0 };
	const char *rest = location;

	buf_printf(&here, "%s://", target_scheme(t));
	target_authority(t, &here);
	if (!strncasecmp(location, buf_str(&here), here.len))
		rest = location + here.len;
	else if (location[0] != '/' || location[1] == '/')
		return false;
	if (*rest && *rest != '/' && *rest != '?')
		return false; /* the name goes on */
	buf_printf(out, "/%s/", target_scheme(t));
	target_authority(t, out);
	buf_add_str(out, rest);
	return true;
}
