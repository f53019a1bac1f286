/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "outlet/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* No server that decodes a path, once or twice, finds a way up in it. */
static void check_path(const char *path)
{
	assert(path[0] == '/' && !strchr(path, '\\') && !strchr(path, ';') && !strchr(path, '#'));
	assert(!strstr(path, "//") && !strstr(path, "/../") && !strstr(path, "/./"));
	assert(!strstr(path, "%2E") && !strstr(path, "%25") && !strstr(path, "%5C"));
	assert(!str_ends(path, "/..") && !str_ends(path, "/."));
	for (const char *p = path; *p; p++)
		assert(*p > ' ' && *p < 0x7f);
}

/* What is written is read as the same again: it was in the one form that there is. */
static void check_again(const struct target *t)
{
	autobuf text = { 0 };
	struct target again;
	struct err *e;

	buf_printf(&text, "/%s/", target_scheme(t));
	target_authority(t, &text);
	target_write(t, NULL, NULL, &text);
	e = target_read(buf_str(&text), &again);
	assert(!e);
	assert(str_eq(t->host, again.host) && t->port == again.port && t->tls == again.tls &&
	       str_eq(t->path, again.path) && str_eq(t->query, again.query));
	target_done(&again);
}

/* The path of a request to the outlet; in the second line, the Location of its answer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *text = xstrndup((const char *)data, len);
	char *location = strchr(text, '\n');
	autobuf with = { 0 }, moved = { 0 };
	struct target t;
	struct err *e;

	if (location)
		*location++ = '\0';
	e = target_read(text, &t);
	if (e) {
		err_free(e);
		return 0;
	}
	assert(*t.host && strlen(t.host) < TARGET_HOST_MAX && t.port);
	check_path(t.path);
	check_again(&t);
	target_write(&t, "key", "va lue", &with);
	assert(str_ends(buf_str(&with), "key=va%20lue"));
	if (location && target_location(&t, location, &moved))
		assert(str_starts(buf_str(&moved), "/http"));
	target_done(&t);
	return 0;
}
