/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "base/parse.h"
#include "base/str.h"
#include "node/image/build_priv.h"

/*
 * A recipe: what an image shall be made of. Names of packages become arguments of apt-get, to which
 * a leading dash is an option, a trailing one a removal, and a slash a path: only plain names pass.
 */
static struct err *wrong(const char *member, const char *want)
{
	return err_new(ERR_INVALID, "%s is not %s", member, want);
}

static struct err *check_text(const char *member, const struct json *v)
{
	return str_empty(json_str(v)) ? wrong(member, "a text") : NULL;
}

static struct err *check_texts(const char *member, const struct json *v)
{
	if (!json_is(v, JSON_ARR))
		return wrong(member, "a list of texts");
	json_each(it, v)
		if (!json_is(it.val, JSON_STR))
			return wrong(member, "a list of texts; numbers need quotes");
	return NULL;
}

static struct err *check_pairs(const char *member, const struct json *v)
{
	if (!json_is(v, JSON_OBJ))
		return wrong(member, "a map of texts");
	json_each(it, v) {
		if (!json_is(it.val, JSON_STR))
			return err_new(ERR_INVALID, "%s.%s is not a text; numbers need quotes",
				       member, it.key);
		if (!*it.key || strchr(it.key, '='))
			return err_new(ERR_INVALID, "%s: \"%s\" is not a name", member, it.key);
	}
	return NULL;
}

static bool is_absolute(const char *path)
{
	struct span rest;

	if (str_empty(path) || *path != '/' || !path[1])
		return false;
	rest = SPAN(path);
	while (rest.p) {
		struct span part = span_cut(rest, '/', &rest);

		if (span_eq(part, "..") || span_eq(part, "."))
			return false;
	}
	return true;
}

static struct err *check_dir(const char *member, const struct json *v)
{
	const char *path = json_str(v);

	return str_eq(path, "/") || is_absolute(path)
		       ? NULL
		       : wrong(member, "an absolute path without \"..\"");
}

/* bookworm, stable-updates, 12.1 */
static struct err *check_suite(const char *member, const struct json *v)
{
	const char *s = str_or(json_str(v), "-");

	if (!isalnum((unsigned char)*s))
		return wrong(member, "the name of a suite");
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("-_.", *s))
			return wrong(member, "the name of a suite");
	return NULL;
}

/* A name by Debian's policy, and perhaps "=" and a version. */
static bool is_package(const char *text)
{
	struct span version, name = span_cut(SPAN(text), '=', &version);

	if (name.len < 2 || !isalnum((unsigned char)*name.p) || name.p[name.len - 1] == '-')
		return false;
	for (size_t i = 0; i < name.len; i++)
		if (!islower((unsigned char)name.p[i]) && !isdigit((unsigned char)name.p[i]) &&
		    !strchr("+-.", name.p[i]))
			return false;
	for (size_t i = 0; version.p && i < version.len; i++)
		if (!isalnum((unsigned char)version.p[i]) && !strchr("+-.:~", version.p[i]))
			return false;
	return !version.p || version.len;
}

static struct err *check_packages(const char *member, const struct json *v)
{
	struct err *e = check_texts(member, v);

	if (e)
		return e;
	if (!json_len(v))
		return wrong(member, "a list of at least one package");
	json_each(it, v)
		if (!is_package(json_str(it.val)))
			return err_new(ERR_INVALID,
				       "%s: \"%s\" is not the name of a package, such as git or "
				       "git=1:2.39.5-0+deb12u2",
				       member, json_str(it.val));
	return NULL;
}

/* 8080, "8080/tcp", "53/udp" */
static bool is_port(const struct json *v)
{
	const char *text = json_str(v);
	struct span kind, number;
	autofree char *digits = NULL;
	uint64_t n = 0;
	struct err *e;

	if (!text)
		return json_int(v, 0) >= 1 && json_int(v, 0) <= 65535;
	number = span_cut(SPAN(text), '/', &kind);
	digits = xstrndup(number.p, number.len);
	e = parse_uint(digits, 65535, &n);
	err_free(e);
	return !e && n && (!kind.p || span_eq(kind, "tcp") || span_eq(kind, "udp"));
}

static struct err *check_ports(const char *member, const struct json *v)
{
	bool good = json_is(v, JSON_ARR);

	json_each(it, v)
		good = good && is_port(it.val);
	return good ? NULL : wrong(member, "a list of ports, such as 8080 or 53/udp");
}

uint32_t recipe_mode(const struct json *file)
{
	const char *text = str_or(json_get_str(file, "mode"), "0644");
	uint32_t mode = 0;

	for (; *text >= '0' && *text <= '7'; text++)
		mode = mode * 8 + (uint32_t)(*text - '0');
	return mode;
}

static bool is_mode(const struct json *v)
{
	const char *text = json_str(v);

	return !v ||
	       (!str_empty(text) && strlen(text) <= 4 && strspn(text, "01234567") == strlen(text));
}

static struct err *check_file(const struct json *v)
{
	static const char *const known[] = { "path", "from", "content", "mode", NULL };

	if (!json_is(v, JSON_OBJ))
		return wrong("it", "a map with a path, and either from or content");
	json_each(it, v)
		if (!str_in(it.key, known))
			return err_new(ERR_INVALID, "it has no member %s", it.key);
	if (!is_absolute(json_get_str(v, "path")))
		return wrong("path", "an absolute path without \"..\"");
	if (!json_get_str(v, "from") == !json_get_str(v, "content"))
		return err_new(ERR_INVALID, "it needs either from or content");
	return is_mode(json_get(v, "mode")) ? NULL
					    : wrong("mode", "an octal number in quotes: \"0755\"");
}

static struct err *check_files(const char *member, const struct json *v)
{
	size_t n = 0;

	if (!json_is(v, JSON_ARR))
		return wrong(member, "a list of files");
	json_each(it, v) {
		struct err *e = check_file(it.val);

		if (e)
			return err_wrap(e, "%s[%zu]", member, n);
		n++;
	}
	return NULL;
}

/* as: what the config of an image calls it; NULL: it is no part of that. */
static const struct {
	const char *member, *as;
	struct err *(*check)(const char *member, const struct json *v);
} members[] = {
	{ "name", NULL, check_text },           { "suite", NULL, check_suite },
	{ "packages", NULL, check_packages },   { "files", NULL, check_files },
	{ "env", "Env", check_pairs },          { "user", "User", check_text },
	{ "workdir", "WorkingDir", check_dir }, { "entrypoint", "Entrypoint", check_texts },
	{ "cmd", "Cmd", check_texts },          { "stopsignal", "StopSignal", check_text },
	{ "labels", "Labels", check_pairs },    { "ports", "ExposedPorts", check_ports },
};

static struct err *check_member(const char *name, const struct json *v)
{
	for (size_t i = 0; i < ARRAY_LEN(members); i++)
		if (str_eq(members[i].member, name))
			return members[i].check(name, v);
	return err_new(ERR_INVALID, "a recipe has no member %s", name);
}

struct err *recipe_check(const struct json *recipe)
{
	if (!json_is(recipe, JSON_OBJ))
		return err_new(ERR_INVALID, "a recipe is a map with a list of packages");
	if (!json_get(recipe, "packages"))
		return err_new(ERR_INVALID, "packages is missing");
	json_each(it, recipe) {
		struct err *e = check_member(it.key, it.val);

		if (e)
			return e;
	}
	return NULL;
}

static struct json *env_list(struct json_doc *d, const struct json *env)
{
	struct json *list = json_arr(d);

	if (!json_get(env, "PATH"))
		json_push_str(d, list,
			      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	json_each(it, env)
		json_push(d, list, json_new_strf(d, "%s=%s", it.key, json_str(it.val)));
	return list;
}

static struct json *port_map(struct json_doc *d, const struct json *ports)
{
	struct json *map = json_obj(d);

	json_each(it, ports) {
		const char *text = json_str(it.val);
		autofree char *key = text ? xasprintf("%s%s", text, strchr(text, '/') ? "" : "/tcp")
					  : xasprintf("%lld/tcp", (long long)json_int(it.val, 0));

		json_set(d, map, key, json_obj(d));
	}
	return map;
}

char *recipe_config(const struct json *recipe)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *c = json_obj(d);

	json_set_root(d, c);
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const struct json *v = json_get(recipe, members[i].member);

		if (v && members[i].as)
			json_set(d, c, members[i].as, json_copy(d, v));
	}
	json_set(d, c, "Env", env_list(d, json_get(recipe, "env")));
	if (json_get(recipe, "ports"))
		json_set(d, c, "ExposedPorts", port_map(d, json_get(recipe, "ports")));
	return json_to_text(c);
}
