/* SPDX-License-Identifier: Apache-2.0 */
#include "api/selector.h"

#include <ctype.h>

#include "api/members_priv.h"
#include "api/meta.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * A selector is a list of requirements that must all hold. One is a key, an operator and values;
 * labels and fields differ only in how they are written and where the value is found.
 */
enum {
	MAX_TEXT = 64 * 1024,
	MAX_REQUIREMENTS = 256,
	MAX_VALUES = 1024,
	MAX_SHOWN = 64, /* of a token in a message */
};

enum op {
	OP_IN,
	OP_NOT_IN, /* also holds when the key is absent */
	OP_EXISTS,
	OP_ABSENT,
	OP_GREATER,
	OP_LESS,
};

struct requirement {
	char *key;
	enum op op;
	char **values;
	size_t n_values;
};

struct selector {
	struct requirement *list;
	size_t n;
};

void selector_free(struct selector *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		for (size_t k = 0; k < s->list[i].n_values; k++)
			free(s->list[i].values[k]);
		free(s->list[i].values);
		free(s->list[i].key);
	}
	free(s->list);
	free(s);
}

static struct err *add_requirement(struct selector *s, const char *key, size_t len, enum op op)
{
	if (s->n >= MAX_REQUIREMENTS)
		return err_new(ERR_MALFORMED, "parse selector: it has more than %d requirements",
			       MAX_REQUIREMENTS);
	s->list = xrealloc(s->list, (s->n + 1) * sizeof(*s->list));
	s->list[s->n++] = (struct requirement){ .key = xstrndup(key, len), .op = op };
	return NULL;
}

static struct err *add_value(struct selector *s, const char *value, size_t len)
{
	struct requirement *r = &s->list[s->n - 1];

	if (r->n_values >= MAX_VALUES)
		return err_new(ERR_MALFORMED, "parse selector: it has more than %d values for %s",
			       MAX_VALUES, r->key);
	r->values = xrealloc(r->values, (r->n_values + 1) * sizeof(*r->values));
	r->values[r->n_values++] = xstrndup(value, len);
	return NULL;
}

static struct err *check_label(const struct requirement *r)
{
	const char *bad = meta_bad_qualified_name(r->key);
	struct err *e;
	int64_t n;

	if (bad)
		return err_new(ERR_MALFORMED,
			       "unable to parse requirement: <nil>: Invalid value: \"%s\": %s",
			       r->key, bad);
	for (size_t i = 0; i < r->n_values; i++) {
		bad = meta_bad_label_value(r->values[i]);
		if (bad)
			return err_new(ERR_MALFORMED,
				       "unable to parse requirement: values[%zu][%s]: Invalid "
				       "value: \"%s\": %s",
				       i, r->key, r->values[i], bad);
	}
	if (r->op != OP_GREATER && r->op != OP_LESS)
		return NULL;
	e = parse_int(r->values[0], INT64_MIN, INT64_MAX, &n);
	if (!e)
		return NULL;
	err_free(e);
	return err_new(ERR_MALFORMED,
		       "unable to parse requirement: values[0]: Invalid value: \"%s\": for 'Gt', "
		       "'Lt' operators, the value must be an integer",
		       r->values[0]);
}

/* Labels as text. The tokens are , ( ) = == != ! < > and the words in, notin. */
struct lexer {
	const char *p, *end;
};

static bool is_sign(char c)
{
	return strchr(",()=!<>", c);
}

static void skip_space(struct lexer *l)
{
	while (l->p < l->end && (*l->p == ' ' || *l->p == '\t' || *l->p == '\r' || *l->p == '\n'))
		l->p++;
}

static bool eat(struct lexer *l, const char *sign)
{
	size_t len = strlen(sign);

	skip_space(l);
	if ((size_t)(l->end - l->p) < len || memcmp(l->p, sign, len) != 0)
		return false;
	l->p += len;
	return true;
}

static struct span word(struct lexer *l)
{
	struct span w;

	skip_space(l);
	w.p = l->p;
	while (l->p < l->end && !isspace((unsigned char)*l->p) && !is_sign(*l->p))
		l->p++;
	w.len = (size_t)(l->p - w.p);
	return w;
}

/* The next token, for a message. */
static struct span token(const struct lexer *at)
{
	struct lexer l = *at;
	struct span t = word(&l);

	if (t.len || l.p == l.end)
		return (struct span){ t.p, MIN(t.len, (size_t)MAX_SHOWN) };
	l.p += strchr("=!", *l.p) && l.p + 1 < l.end && l.p[1] == '=' ? 2 : 1;
	return (struct span){ t.p, (size_t)(l.p - t.p) };
}

static struct err *unexpected(struct span t, const char *rest)
{
	return err_new(ERR_MALFORMED, "found '%.*s'%s", (int)t.len, t.p, rest);
}

/* Within a requirement, or between two. */
static struct err *in_requirement(struct err *e)
{
	return err_wrap(e, "unable to parse requirement");
}

static struct err *parse_set(struct lexer *l, struct selector *s)
{
	struct err *e;

	if (!eat(l, "("))
		return in_requirement(unexpected(token(l), " expected: '('"));
	do {
		struct span w = word(l);

		e = add_value(s, w.p, w.len);
		if (e)
			return e;
	} while (eat(l, ","));
	return eat(l, ")") ? NULL : in_requirement(unexpected(token(l), ", expected: ',' or ')'"));
}

static struct err *parse_exact(struct lexer *l, struct selector *s)
{
	struct span w = word(l);

	if (!w.len && l->p < l->end && *l->p != ',')
		return in_requirement(unexpected(token(l), ", expected: identifier"));
	return add_value(s, w.p, w.len);
}

/* What follows a key. */
static struct err *parse_operation(struct lexer *l, struct selector *s)
{
	struct requirement *r = &s->list[s->n - 1];
	struct span w;

	skip_space(l);
	if (l->p == l->end || *l->p == ',')
		return NULL; /* the key alone: it exists */
	r->op = OP_IN;
	if (eat(l, "==") || eat(l, "="))
		return parse_exact(l, s);
	r->op = OP_NOT_IN;
	if (eat(l, "!="))
		return parse_exact(l, s);
	r->op = OP_GREATER;
	if (eat(l, ">"))
		return parse_exact(l, s);
	r->op = OP_LESS;
	if (eat(l, "<"))
		return parse_exact(l, s);
	w = token(l);
	r->op = span_eq(w, "in") ? OP_IN : OP_NOT_IN;
	if (!span_eq(w, "in") && !span_eq(w, "notin"))
		return in_requirement(unexpected(w, ", expected: in, notin, =, ==, !=, gt, lt"));
	(void)word(l);
	return parse_set(l, s);
}

static struct err *parse_requirement(struct lexer *l, struct selector *s)
{
	bool absent = eat(l, "!");
	struct span key = word(l);
	struct err *e;

	if (!key.len && absent)
		return in_requirement(unexpected(token(l), ", expected: identifier"));
	if (!key.len)
		return unexpected(token(l), ", expected: !, identifier, or 'end of string'");
	e = add_requirement(s, key.p, key.len, absent ? OP_ABSENT : OP_EXISTS);
	if (!e && !absent)
		e = parse_operation(l, s);
	return e ? e : check_label(&s->list[s->n - 1]);
}

static struct err *check_text(const char *text)
{
	if (strlen(text) > MAX_TEXT)
		return err_new(ERR_MALFORMED, "parse selector: it is longer than %d bytes",
			       MAX_TEXT);
	return NULL;
}

struct err *selector_parse_labels(const char *text, struct selector **ret)
{
	autoptr(selector) s = xnew(struct selector);
	struct lexer l = { text, text + strlen(text) };
	struct err *e = check_text(text);

	skip_space(&l);
	while (!e && l.p < l.end) {
		e = parse_requirement(&l, s);
		skip_space(&l);
		if (e || l.p == l.end)
			break;
		if (!eat(&l, ","))
			e = unexpected(token(&l), ", expected: ',' or 'end of string'");
		skip_space(&l);
		if (!e && l.p == l.end)
			e = unexpected(token(&l), ", expected: identifier after ','");
	}
	if (e)
		return e;
	*ret = take(s);
	return NULL;
}

/* Fields as text: key=value, key==value, key!=value; a backslash escapes , = \. */
static struct err *unescape(struct span part, struct buf *out)
{
	for (size_t i = 0; i < part.len; i++) {
		if (part.p[i] == '\\') {
			i++;
			if (i == part.len || !strchr("\\,=", part.p[i]))
				return err_new(ERR_MALFORMED,
					       "invalid field selector: invalid escape sequence: "
					       "\\%.*s",
					       i < part.len, part.p + i);
		} else if (part.p[i] == '=') {
			return err_new(ERR_MALFORMED,
				       "invalid field selector: unescaped character in value: %d",
				       part.p[i]);
		}
		buf_add_char(out, part.p[i]);
	}
	return NULL;
}

static struct err *parse_field(struct span part, struct selector *s)
{
	autobuf value = { 0 };
	struct span v;
	struct err *e;
	size_t i = 0;
	bool negated;

	while (i < part.len && part.p[i] != '=' && !(part.p[i] == '!' && i + 1 < part.len))
		i++;
	negated = i < part.len && part.p[i] == '!' && part.p[i + 1] == '=';
	if (i == part.len || (part.p[i] == '!' && !negated))
		return err_new(ERR_MALFORMED, "invalid selector: '%.*s'; can't understand '%.*s'",
			       (int)MIN(part.len, (size_t)64), part.p,
			       (int)MIN(part.len, (size_t)64), part.p);
	v = (struct span){ part.p + i + 1, part.len - i - 1 };
	if (v.len && v.p[0] == '=') /* the second sign of == or != */
		v = (struct span){ v.p + 1, v.len - 1 };
	e = unescape(v, &value);
	if (!e)
		e = add_requirement(s, part.p, i, negated ? OP_NOT_IN : OP_IN);
	return e ? e : add_value(s, buf_str(&value), value.len);
}

/* The length of the first part: up to a comma that is not escaped. */
static size_t part_len(const char *s)
{
	size_t i = 0;

	while (s[i] && s[i] != ',')
		i += s[i] == '\\' && s[i + 1] ? 2 : 1;
	return i;
}

struct err *selector_parse_fields(const char *text, struct selector **ret)
{
	autoptr(selector) s = xnew(struct selector);
	struct err *e = check_text(text);

	while (!e && *text) {
		struct span part = { text, part_len(text) };

		text += part.len;
		if (*text == ',')
			text++;
		part = span_trim(part);
		if (part.len)
			e = parse_field(part, s);
	}
	if (e)
		return e;
	*ret = take(s);
	return NULL;
}

static bool has_value(const struct requirement *r, const char *v)
{
	for (size_t i = 0; i < r->n_values; i++)
		if (!strcmp(r->values[i], v))
			return true;
	return false;
}

static bool compares(const struct requirement *r, const char *v)
{
	int64_t have = 0, want = 0;
	struct err *e = parse_int(v, INT64_MIN, INT64_MAX, &have);

	if (!e)
		e = parse_int(r->values[0], INT64_MIN, INT64_MAX, &want);
	if (e) {
		err_free(e); /* a value that is not a number is neither more nor less */
		return false;
	}
	return r->op == OP_GREATER ? have > want : have < want;
}

/* v is NULL when the object has no such label. */
static bool holds(const struct requirement *r, const char *v)
{
	switch (r->op) {
	case OP_IN:
		return v && has_value(r, v);
	case OP_NOT_IN:
		return !v || !has_value(r, v);
	case OP_EXISTS:
		return v;
	case OP_ABSENT:
		return !v;
	case OP_GREATER:
	case OP_LESS:
		return v && compares(r, v);
	}
	return false;
}

bool selector_matches_labels(const struct selector *s, const struct json *labels)
{
	if (!s)
		return true;
	for (size_t i = 0; i < s->n; i++)
		if (!holds(&s->list[i], json_get_str(labels, s->list[i].key)))
			return false;
	return true;
}

/* An absent field is "", as in Kubernetes. */
static bool field_holds(const struct requirement *r, const struct json *v)
{
	autofree char *text = NULL;

	if (!v || json_is(v, JSON_NULL))
		return holds(r, "");
	if (json_is(v, JSON_STR))
		return holds(r, json_str(v));
	text = json_to_text(v);
	return holds(r, text);
}

bool selector_matches_fields(const struct selector *s, const struct json *obj)
{
	if (!s)
		return true;
	for (size_t i = 0; i < s->n; i++)
		if (!field_holds(&s->list[i], json_at_path(obj, s->list[i].key)))
			return false;
	return true;
}

const char *selector_wants(const struct selector *s, const char *key)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].op == OP_IN && s->list[i].n_values == 1 &&
		    str_eq(s->list[i].key, key))
			return s->list[i].values[0];
	return NULL;
}

const char *selector_key(const struct selector *s, size_t i)
{
	return s && i < s->n ? s->list[i].key : NULL;
}

void selector_set_key(struct selector *s, size_t i, const char *key)
{
	char *copy = xstrdup(key); /* key may be the old one, which is freed next */

	free(s->list[i].key);
	s->list[i].key = copy;
}

static bool is_among(const struct json *values, const char *value)
{
	json_each(it, values)
		if (value && str_eq(json_str(it.val), value))
			return true;
	return false;
}

static bool expression_holds(const struct json *e, const struct json *labels, bool otherwise)
{
	const char *op = json_get_str(e, "operator");
	const char *value = json_get_str(labels, str_or(json_get_str(e, "key"), ""));

	if (str_eq(op, "In"))
		return is_among(json_get(e, "values"), value);
	if (str_eq(op, "NotIn"))
		return !is_among(json_get(e, "values"), value);
	if (str_eq(op, "Exists"))
		return value;
	if (str_eq(op, "DoesNotExist"))
		return !value;
	return otherwise;
}

bool label_selector_matches(const struct json *selector, const struct json *labels, bool otherwise)
{
	json_each(it, json_get(selector, "matchLabels"))
		if (!str_eq(json_str(it.val), json_get_str(labels, it.key)))
			return false;
	json_each(it, json_get(selector, "matchExpressions"))
		if (!expression_holds(it.val, labels, otherwise))
			return false;
	return true;
}

static void expression_text(const struct json *e, struct buf *out)
{
	const char *op = str_or(json_get_str(e, "operator"), "");
	const char *key = str_or(json_get_str(e, "key"), "");

	if (str_eq(op, "Exists") || str_eq(op, "DoesNotExist")) {
		buf_printf(out, "%s%s", str_eq(op, "Exists") ? "" : "!", key);
		return;
	}
	buf_printf(out, "%s %s (", key, str_eq(op, "In") ? "in" : "notin");
	json_each(it, json_get(e, "values"))
		buf_printf(out, "%s%s", it.i > 1 ? "," : "", str_or(json_str(it.val), ""));
	buf_add_char(out, ')');
}

void label_selector_text(const struct json *selector, struct buf *out)
{
	json_each(it, members(json_get(selector, "matchLabels")))
		buf_printf(out, "%s%s=%s", out->len ? "," : "", it.key,
			   str_or(json_str(it.val), ""));
	json_each(it, json_get(selector, "matchExpressions")) {
		buf_add_str(out, out->len ? "," : "");
		expression_text(it.val, out);
	}
}
