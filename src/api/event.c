/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/random.h"
#include "base/str.h"

enum {
	TEXT_MAX = 1024,
	SUFFIX_LEN = 16,
	NAME_MOST = 253 - SUFFIX_LEN - 1,
};

struct json *event_name(struct json_doc *d, const char *about)
{
	char suffix[SUFFIX_LEN + 1];

	random_hex(suffix, SUFFIX_LEN);
	return json_new_strf(d, "%.*s.%s", NAME_MOST, about, suffix);
}

struct json *event_text(struct json_doc *d, const char *text)
{
	size_t len = strlen(text);

	return json_new_strn(d, text, len > TEXT_MAX ? utf8_prefix(text, TEXT_MAX) : len);
}

struct json *event_about(struct json_doc *d, const struct object *about)
{
	struct json *r = json_obj(d);

	json_set_str(d, r, "apiVersion", kind_api_version(about->kind));
	json_set_str(d, r, "kind", about->kind->kind);
	json_set_str(d, r, "namespace", str_or(about->ns, NULL));
	json_set_str(d, r, "name", about->name);
	json_set_str(d, r, "uid", str_or(about->uid, NULL));
	if (about->rev)
		json_set(d, r, "resourceVersion",
			 json_new_strf(d, "%llu", (unsigned long long)about->rev));
	return r;
}
