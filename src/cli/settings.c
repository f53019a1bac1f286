/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/settings.h"

#include <assert.h>
#include <ctype.h>
#include <fcntl.h>

#include "api/meta.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "json/json.h"
#include "json/yaml_tree.h"

/*
 * All values are kept as text once they have been checked, so the getters cannot fail: whichever of
 * the four ways a value came in, it was checked against the type of its row.
 */
#define MAX_CONFIG_FILE (1024 * 1024)

struct settings {
	const struct setting *table;
	struct map *values; /* name → text, owned; of a list the last element */
	struct list_entry {
		const char *name;
		char *text;
	} *list; /* elements of lists, in order */
	size_t n_list;
	const char **args; /* borrowed from argv */
	size_t n_args;
	bool help;
};

static const struct setting *find(const struct setting *table, const char *name, size_t len)
{
	for (const struct setting *s = table; s->name; s++)
		if (strlen(s->name) == len && !strncmp(s->name, name, len))
			return s;
	return NULL;
}

static struct err *check_address(const char *text)
{
	const char *colon = strrchr(text, ':');
	int64_t port;

	if (!colon || colon == text)
		return err_new(ERR_INVALID,
			       "an address has the form HOST:PORT, such as 127.0.0.1:6443");
	return parse_int(colon + 1, 0, 65535, &port);
}

static struct err *check_choice(const struct setting *row, const char *text)
{
	autobuf list = { 0 };

	if (str_in(text, row->choices))
		return NULL;
	for (const char *const *c = row->choices; *c; c++)
		buf_printf(&list, "%s%s", c == row->choices ? "" : ", ", *c);
	return err_new(ERR_INVALID, "it must be one of %s", buf_str(&list));
}

static struct err *parse_size(const struct setting *row, const char *text, int64_t *ret)
{
	autoptr(json_doc) d = json_doc_new();
	int64_t milli = 0;
	struct err *e = quantity_parse_milli(json_new_str(d, text), &milli);

	if (e)
		return e;
	if (milli / 1000 < row->min || milli / 1000 > row->max)
		return err_new(ERR_INVALID, "it must be %lld to %lld bytes", (long long)row->min,
			       (long long)row->max);
	*ret = milli / 1000;
	return NULL;
}

static struct err *parse_duration(const struct setting *row, const char *text, uint64_t *ret)
{
	struct err *e = parse_duration_ms(text, ret);

	if (!e && row->max && *ret > (uint64_t)row->max)
		e = err_new(ERR_INVALID, "it must be at most %lld ms", (long long)row->max);
	return e;
}

static struct err *check(const struct setting *row, const char *text)
{
	int64_t i;
	uint64_t ms;
	bool b;

	switch (row->type) {
	case SETTING_TEXT:
	case SETTING_LIST:
		return NULL;
	case SETTING_DIR:
		return *text ? NULL : err_new(ERR_INVALID, "it must name a directory");
	case SETTING_INT:
		return parse_int(text, row->min, row->max, &i);
	case SETTING_BOOL:
		return parse_bool(text, &b);
	case SETTING_DURATION:
		return parse_duration(row, text, &ms);
	case SETTING_SIZE:
		return parse_size(row, text, &i);
	case SETTING_ADDRESS:
		return check_address(text);
	case SETTING_CHOICE:
		return check_choice(row, text);
	case SETTING_TYPE_MAX_:
		break;
	}
	assert(!"unknown setting type");
	return NULL;
}

/* from says where the value came from: a flag, a variable or a key of the file. */
static struct err *put(struct settings *s, const struct setting *row, const char *text,
		       const char *from)
{
	struct err *e = check(row, text);

	if (e)
		return err_recode(err_wrap(e, "%s: \"%s\" is invalid", from, text), ERR_INVALID);
	if (row->type == SETTING_LIST) {
		s->list = xrealloc(s->list, (s->n_list + 1) * sizeof(*s->list));
		s->list[s->n_list++] = (struct list_entry){ row->name, xstrdup(text) };
	}
	map_put(s->values, row->name,
		row->type == SETTING_DIR ? file_resolve(text) : xstrdup(text));
	return NULL;
}

static struct err *put_fallback_dirs(struct settings *s)
{
	struct err *e = NULL;

	for (const struct setting *row = s->table; row->name && !e; row++)
		if (row->type == SETTING_DIR && row->fallback && !map_has(s->values, row->name))
			e = put(s, row, row->fallback, row->name);
	return e;
}

static void env_name(const char *name, struct buf *out)
{
	buf_add_str(out, "CAY_");
	for (; *name; name++)
		buf_add_char(out, *name == '-' ? '_' : (char)toupper((unsigned char)*name));
}

static struct err *unknown_flag(const char *flag)
{
	return err_new(ERR_INVALID, "there is no flag %s; --help lists the flags", flag);
}

/* argv[*i] begins with "--". Its value may be the next argument. */
static struct err *read_flag(struct settings *s, int argc, char **argv, int *i)
{
	const char *flag = argv[*i] + 2;
	const char *equal = strchr(flag, '=');
	const struct setting *row =
		find(s->table, flag, equal ? (size_t)(equal - flag) : strlen(flag));
	autofree char *from = NULL;

	if (!row)
		return unknown_flag(argv[*i]);
	from = xasprintf("--%s", row->name);
	if (equal)
		return put(s, row, equal + 1, from);
	if (row->type == SETTING_BOOL)
		return put(s, row, "true", from);
	if (*i + 1 >= argc)
		return err_new(ERR_INVALID, "%s needs a value: %s", from, row->help);
	return put(s, row, argv[++*i], from);
}

/* -o has a row of its own table, or the one that has always had this letter. */
static const struct setting *find_short(const struct setting *table, char letter)
{
	static const struct {
		char letter;
		const char *name;
	} shorts[] = { { 'o', "output" }, { 'f', "file" }, { 't', "tag" } };

	for (const struct setting *row = table; row->name; row++)
		if (row->letter == letter)
			return row;
	for (size_t i = 0; i < ARRAY_LEN(shorts); i++)
		if (letter == shorts[i].letter)
			return find(table, shorts[i].name, strlen(shorts[i].name));
	return NULL;
}

/* -i, -it, -n NS, -nNS: letters without values may stand together. */
static struct err *read_short(struct settings *s, int argc, char **argv, int *i)
{
	const char *word = argv[*i];

	for (const char *p = word + 1; *p; p++) {
		char from[3] = { '-', *p, 0 };
		const struct setting *row = find_short(s->table, *p);
		struct err *e;

		if (!row)
			return unknown_flag(word);
		if (row->type == SETTING_BOOL) {
			e = put(s, row, "true", from);
			if (e)
				return e;
			continue;
		}
		if (p[1])
			return put(s, row, p + 1, from);
		if (*i + 1 >= argc)
			return err_new(ERR_INVALID, "%s needs a value: %s", from, row->help);
		++*i;
		return put(s, row, argv[*i], from);
	}
	return NULL;
}

static struct err *read_argv(struct settings *s, int argc, char **argv)
{
	bool flags = true;
	struct err *e = NULL;

	s->args = xnew_n(const char *, (size_t)argc + 1);
	for (int i = 1; i < argc && !e; i++) {
		if (!flags || argv[i][0] != '-' || !argv[i][1])
			s->args[s->n_args++] = argv[i];
		else if (str_eq(argv[i], "--"))
			flags = false;
		else if (str_eq(argv[i], "-h") || str_eq(argv[i], "--help"))
			s->help = true;
		else if (argv[i][1] == '-')
			e = read_flag(s, argc, argv, &i);
		else
			e = read_short(s, argc, argv, &i);
	}
	return e;
}

static struct err *read_env(struct settings *s)
{
	struct err *e = NULL;

	for (const struct setting *row = s->table; row->name && !e; row++) {
		autobuf name = { 0 };
		const char *text;

		env_name(row->name, &name);
		text = getenv(buf_str(&name));
		if (map_has(s->values, row->name))
			continue;
		if (text)
			e = put(s, row, text, buf_str(&name));
		else if (row->env && !str_empty(getenv(row->env)))
			e = put(s, row, getenv(row->env), row->env);
	}
	return e;
}

/* The line that a key of the file begins, from 1 on; 0: it is written in another way. */
static unsigned line_of(const char *text, const char *key)
{
	size_t len = strlen(key);
	unsigned n = 1;

	for (const char *line = text; line; n++) {
		const char *at = line + (*line == '"' || *line == '\'');

		if (!strncmp(at, key, len)) {
			at += len + (at != line);
			if (at[strspn(at, " \t")] == ':')
				return n;
		}
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

static struct err *put_scalar(struct settings *s, const struct setting *row, const struct json *v,
			      const char *from)
{
	autofree char *text = json_is(v, JSON_STR) ? xstrdup(json_str(v)) : json_to_text(v);

	if (json_is(v, JSON_NULL))
		return err_new(ERR_INVALID, "%s: it has no value; give it one or remove the line",
			       from);
	if (json_is(v, JSON_ARR) || json_is(v, JSON_OBJ))
		return err_new(ERR_INVALID, "%s: it must be a single value, not %s %s", from,
			       json_is(v, JSON_ARR) ? "a" : "an",
			       json_is(v, JSON_ARR) ? "list" : "object");
	return put(s, row, text, from);
}

/* from names the file, the line and the key. */
static struct err *put_from_file(struct settings *s, const char *key, const struct json *v,
				 const char *from)
{
	const struct setting *row = find(s->table, key, strlen(key));
	struct err *e = NULL;

	if (!row)
		return err_new(ERR_INVALID,
			       "%s: there is no such key; keys are the flags without --", from);
	if (str_eq(key, "config"))
		return err_new(ERR_INVALID, "%s: a config file cannot name another one", from);
	if (map_has(s->values, row->name))
		return NULL;
	if (row->type != SETTING_LIST || !json_is(v, JSON_ARR))
		return put_scalar(s, row, v, from);
	json_each(it, v)
		if (!e)
			e = put_scalar(s, row, it.val, from);
	return e;
}

static struct err *put_all(struct settings *s, const char *path, const char *text,
			   const struct json *root)
{
	json_each(it, root) {
		unsigned line = line_of(text, it.key);
		autofree char *from = line ? xasprintf("%s:%u: %s", path, line, it.key)
					   : xasprintf("%s: %s", path, it.key);
		struct err *e = put_from_file(s, it.key, it.val, from);

		if (e)
			return e;
	}
	return NULL;
}

static struct err *read_file(struct settings *s)
{
	const char *path = map_get(s->values, "config");
	autofree char *text = NULL;
	autoptr(json_doc) docs = NULL;
	const struct json *root;
	size_t len;
	struct err *e;

	if (!path)
		return NULL;
	e = file_read(AT_FDCWD, path, MAX_CONFIG_FILE, &text, &len);
	if (!e)
		e = yaml_parse_all(text, len, &docs);
	if (e)
		return err_wrap(e, "read config file %s", path);
	root = json_at(json_root(docs), 0);
	if (!root)
		return NULL; /* all of it is comments */
	if (json_len(json_root(docs)) > 1)
		return err_new(ERR_INVALID, "config file %s has more than one document", path);
	if (!json_is(root, JSON_OBJ))
		return err_new(ERR_INVALID, "config file %s is not a mapping of keys to values",
			       path);
	return put_all(s, path, text, root);
}

struct err *settings_read(const struct setting *table, int argc, char **argv, struct settings **ret)
{
	autoptr(settings) s = xnew(struct settings);
	struct err *e;

	s->table = table;
	s->values = map_new(free);
	e = read_argv(s, argc, argv);
	if (!e && !s->help)
		e = read_env(s);
	if (!e && !s->help)
		e = read_file(s);
	if (!e && !s->help)
		e = put_fallback_dirs(s);
	if (e)
		return e;
	*ret = take(s);
	return NULL;
}

void settings_free(struct settings *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_list; i++)
		free(s->list[i].text);
	free(s->list);
	map_free(s->values);
	free(s->args);
	free(s);
}

bool settings_help_wanted(const struct settings *s)
{
	return s->help;
}

const char *settings_text(const struct settings *s, const char *name)
{
	const struct setting *row = find(s->table, name, strlen(name));
	const char *text = map_get(s->values, name);

	assert(row);
	return text ? text : row->fallback;
}

int64_t settings_int(const struct settings *s, const char *name)
{
	const struct setting *row = find(s->table, name, strlen(name));
	const char *text = settings_text(s, name);
	uint64_t ms = 0;
	int64_t i = 0;
	struct err *e;

	if (!text)
		return 0;
	e = row->type == SETTING_DURATION ? parse_duration_ms(text, &ms)
	    : row->type == SETTING_SIZE   ? parse_size(row, text, &i)
					  : parse_int(text, row->min, row->max, &i);
	assert(!e);
	return row->type == SETTING_DURATION ? (int64_t)ms : i;
}

bool settings_bool(const struct settings *s, const char *name)
{
	const char *text = settings_text(s, name);
	bool b = false;
	struct err *e = text ? parse_bool(text, &b) : NULL;

	assert(!e);
	return b;
}

const char *settings_nth(const struct settings *s, const char *name, size_t i)
{
	for (size_t k = 0; k < s->n_list; k++)
		if (str_eq(s->list[k].name, name) && !i--)
			return s->list[k].text;
	return NULL;
}

size_t settings_n_args(const struct settings *s)
{
	return s->n_args;
}

const char *settings_arg(const struct settings *s, size_t i)
{
	return i < s->n_args ? s->args[i] : NULL;
}

static bool reads_file(const struct setting *table)
{
	return find(table, "config", strlen("config")) != NULL;
}

/* NULL: none that a reader would miss. */
static const char *shown_default(const struct setting *row)
{
	if (row->type == SETTING_BOOL && str_eq(row->fallback, "false"))
		return NULL;
	return str_empty(row->fallback) ? NULL : row->fallback;
}

void settings_help(const struct setting *table, struct buf *out)
{
	for (const struct setting *row = table; row->name; row++) {
		autobuf left = { 0 };

		if (row->letter)
			buf_printf(&left, "-%c, ", row->letter);
		buf_printf(&left, "--%s%s%s", row->name, row->value ? " " : "",
			   row->value ? row->value : "");
		if (left.len > 28) /* the text goes on a line of its own */
			buf_printf(out, "  %s\n%31s%s", buf_str(&left), "", row->help);
		else
			buf_printf(out, "  %-28s %s", buf_str(&left), row->help);
		if (shown_default(row))
			buf_printf(out, " (default %s)", shown_default(row));
		buf_add_char(out, '\n');
	}
	buf_printf(out,
		   "\nEach flag --x-y can also be set by the environment variable CAY_X_Y%s.\n",
		   reads_file(table) ? ", or by the key x-y in the file that --config names" : "");
}

void settings_man(const struct setting *table, struct buf *out)
{
	for (const struct setting *row = table; row->name; row++) {
		autobuf env = { 0 };

		env_name(row->name, &env);
		buf_add_str(out, ".TP\n.BR ");
		if (row->letter)
			buf_printf(out, "-%c \", \" ", row->letter);
		buf_printf(out, "--%s", row->name);
		if (row->value)
			buf_printf(out, " \" \" \\fI%s\\fR", row->value);
		buf_printf(out, "\n%s.", row->help);
		if (shown_default(row))
			buf_printf(out, " Default: %s.", shown_default(row));
		buf_printf(out, " Variable: %s%s%s.", buf_str(&env), row->env ? ", or " : "",
			   row->env ? row->env : "");
		if (reads_file(table) && !str_eq(row->name, "config"))
			buf_printf(out, " Config key: %s.", row->name);
		buf_add_char(out, '\n');
	}
}
