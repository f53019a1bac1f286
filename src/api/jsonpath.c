/* SPDX-License-Identifier: Apache-2.0 */
#include "api/jsonpath.h"

#include <ctype.h>

#include "base/mem.h"
#include "base/str.h"

/* Each step takes its part of the path and moves on in the tree. NULL ends the walk. */

/* A backslash makes a dot or a bracket part of the name. */
static const char *take_name(const char *p, char **ret)
{
	char *name = xmalloc(strlen(p) + 1);
	size_t n = 0;

	while (*p && *p != '.' && *p != '[') {
		p += *p == '\\' && p[1];
		name[n++] = *p++;
	}
	name[n] = '\0';
	*ret = name;
	return p;
}

/* Reads 'text' up to its closing quote. Returns what follows it, or NULL. */
static const char *take_quoted(const char *p, char **ret)
{
	const char *end = *p == '\'' || *p == '"' ? strchr(p + 1, *p) : NULL;

	if (!end)
		return NULL;
	*ret = xstrndup(p + 1, (size_t)(end - p - 1));
	return end + 1;
}

static struct json *filter(const struct json *v, const char *key, const char *value)
{
	json_each(it, v)
		if (str_eq(json_str(json_at_path(it.val, key)), value))
			return it.val;
	return NULL;
}

/* ?(@.key=='value')] */
static const char *step_filter(const char *p, struct json **v)
{
	const char *equals = strstr(p, "==");
	autofree char *key = NULL, *value = NULL;

	if (!str_starts(p, "?(@.") || !equals)
		return NULL;
	key = xstrndup(p + 4, (size_t)(equals - p - 4));
	p = take_quoted(equals + 2, &value);
	if (!p || !str_starts(p, ")]"))
		return NULL;
	*v = filter(*v, key, value);
	return p + 2;
}

static const char *step_bracket(const char *p, struct json **v)
{
	autofree char *name = NULL;
	size_t i = 0;

	if (*p == '?')
		return step_filter(p, v);
	if (*p == '\'' || *p == '"') {
		p = take_quoted(p, &name);
		*v = name ? json_get(*v, name) : NULL;
		return p && *p == ']' ? p + 1 : NULL;
	}
	if (str_starts(p, "*]")) {
		*v = json_at(*v, 0);
		return p + 2;
	}
	if (!isdigit((unsigned char)*p))
		return NULL;
	for (; isdigit((unsigned char)*p) && i < 100000000; p++)
		i = i * 10 + (size_t)(*p - '0');
	*v = json_at(*v, i);
	return *p == ']' ? p + 1 : NULL;
}

struct json *jsonpath_get(const struct json *v, const char *path)
{
	struct json *at = (struct json *)(uintptr_t)v;

	while (path && *path && at) {
		autofree char *name = NULL;

		if (*path == '[') {
			path = step_bracket(path + 1, &at);
		} else if (*path == '.') {
			path = take_name(path + 1, &name);
			at = *name ? json_get(at, name) : at;
		} else {
			path = NULL;
		}
	}
	return path ? at : NULL;
}

bool jsonpath_valid(const char *path)
{
	struct json *nowhere = NULL;

	if (!*path)
		return false;
	while (path && *path) {
		autofree char *name = NULL;

		if (*path == '[') {
			path = step_bracket(path + 1, &nowhere);
		} else if (*path == '.') {
			path = take_name(path + 1, &name);
			if (!*name)
				return false;
		} else {
			return false;
		}
	}
	return path;
}
