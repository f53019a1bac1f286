/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/patch_priv.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"

/*
 * JSON Patch, RFC 6902, with the liberties that Kubernetes takes: an absent member is null, and can
 * be replaced; a negative index counts from the end. A pointer is read token by token; what an
 * operation works on is a place: a container and the last token. With copies a small patch can make
 * a tree grow large and deep, so both are checked after every operation that adds.
 */
enum {
	MAX_OPS = 10000,
	MAX_DEPTH = 256, /* the deepest tree that our parser reads */
	MAX_MEM = 32 * 1024 * 1024,
	MAX_INDEX = 1 << 30,
};

struct place {
	struct json *in; /* NULL: the place is the root */
	char *token;     /* owned */
	size_t depth;    /* of the value at this place */
};

static void place_done(struct place *p)
{
	free(p->token);
}
#define autoplace __attribute__((cleanup(place_done))) struct place

/* ~1 is a slash and ~0 a tilde; any other tilde is one too. */
static char *unescape(struct span raw)
{
	autobuf out = { 0 };

	for (size_t i = 0; i < raw.len; i++) {
		char c = raw.p[i], next = i + 1 < raw.len ? raw.p[i + 1] : 0;

		if (c == '~' && (next == '0' || next == '1')) {
			c = next == '0' ? '~' : '/';
			i++;
		}
		buf_add_char(&out, c);
	}
	return buf_steal(&out, NULL);
}

/* The place that a token names among n. */
static bool read_index(const char *token, size_t n, size_t *ret)
{
	int64_t i = 0;
	autoptr(err) e = parse_int(token + (*token == '+'), -MAX_INDEX, MAX_INDEX, &i);

	if (e || i >= (int64_t)n || i < -(int64_t)n)
		return false;
	*ret = (size_t)(i < 0 ? i + (int64_t)n : i);
	return true;
}

static struct json *child(const struct json *in, const char *token)
{
	size_t i;

	if (json_is(in, JSON_OBJ))
		return json_get(in, token);
	if (json_is(in, JSON_ARR) && read_index(token, json_len(in), &i))
		return json_at(in, i);
	return NULL;
}

static struct err *missing(const char *path)
{
	return err_new(ERR_INVALID, "apply JSON patch: no value at path \"%.128s\"", path);
}

/* The container of path's last token must exist; the token itself need not name anything. */
static struct err *find(struct patch_work *w, const char *path, struct place *ret)
{
	struct span rest = SPAN(path), raw;
	struct json *at = json_own(w->d, json_root(w->d));
	struct err *e;

	*ret = (struct place){ 0 };
	if (!rest.len)
		return NULL;
	if (path[0] != '/')
		return missing(path);
	rest = (struct span){ path + 1, rest.len - 1 };
	for (;;) {
		raw = span_cut(rest, '/', &rest);
		free(ret->token);
		ret->token = unescape(raw);
		e = patch_spend(w, json_len(at) + 1);
		if (e)
			return e;
		ret->depth++;
		if (!rest.p)
			break;
		at = json_own(w->d, child(at, ret->token));
		if (!at)
			return missing(path);
	}
	if (!json_is(at, JSON_OBJ) && !json_is(at, JSON_ARR))
		return missing(path);
	ret->in = at;
	return NULL;
}

static struct json *value_at(struct patch_work *w, const struct place *p)
{
	return p->in ? child(p->in, p->token) : json_root(w->d);
}

/* The tree is never deeper than MAX_DEPTH, so this recursion has an end. */
static size_t depth_of(const struct json *v)
{
	size_t deepest = 0;

	if (!json_is(v, JSON_OBJ) && !json_is(v, JSON_ARR))
		return 0;
	json_each(it, v)
		deepest = MAX(deepest, depth_of(it.val));
	return deepest + 1;
}

/* Takes over val, which must not be part of a tree. */
static struct err *add_at(struct patch_work *w, const struct place *p, struct json *val)
{
	size_t i = 0, n = json_len(p->in);

	if (p->depth + depth_of(val) > MAX_DEPTH)
		return err_new(ERR_TOO_LARGE,
			       "apply JSON patch: result is nested more than %d levels deep",
			       MAX_DEPTH);
	if (!p->in) {
		json_set_root(w->d, val);
		return NULL;
	}
	if (json_is(p->in, JSON_OBJ)) {
		json_set(w->d, p->in, p->token, val);
		return NULL;
	}
	if (!strcmp(p->token, "-"))
		i = n;
	else if (!read_index(p->token, n + 1, &i))
		return err_new(ERR_INVALID, "apply JSON patch: index \"%.32s\" is out of bounds",
			       p->token);
	json_insert(w->d, p->in, i, val);
	return NULL;
}

static struct err *remove_at(struct patch_work *w, const struct place *p, const char *path)
{
	size_t i = 0;

	if (!value_at(w, p))
		return missing(path);
	if (!p->in) {
		json_set_root(w->d, json_new_null(w->d));
	} else if (json_is(p->in, JSON_OBJ)) {
		json_del(p->in, p->token);
	} else if (read_index(p->token, json_len(p->in), &i)) {
		json_remove(p->in, i);
	}
	return NULL;
}

/* A value that is not given is null. */
static struct json *copied(struct patch_work *w, const struct json *v)
{
	return v ? json_copy(w->d, v) : json_new_null(w->d);
}

static struct err *op_add(struct patch_work *w, const struct json *op, const char *path)
{
	autoplace p = { 0 };
	struct err *e = find(w, path, &p);

	if (!e && !p.in)
		e = missing(path);
	return e ? e : add_at(w, &p, copied(w, json_get(op, "value")));
}

static struct err *op_remove(struct patch_work *w, unused const struct json *op, const char *path)
{
	autoplace p = { 0 };
	struct err *e = find(w, path, &p);

	return e ? e : remove_at(w, &p, path);
}

static struct err *op_replace(struct patch_work *w, const struct json *op, const char *path)
{
	autoplace p = { 0 };
	struct err *e = find(w, path, &p);

	if (!e && p.in && json_is(p.in, JSON_ARR))
		e = remove_at(w, &p, path);
	return e ? e : add_at(w, &p, copied(w, json_get(op, "value")));
}

static struct err *op_test(struct patch_work *w, const struct json *op, const char *path)
{
	autoplace p = { 0 };
	struct err *e = find(w, path, &p);
	const struct json *want = json_get(op, "value"), *have;

	if (e)
		return e;
	have = value_at(w, &p);
	if (!have && p.in && json_is(p.in, JSON_ARR))
		return missing(path);
	/* An absent value equals null, as it does in Kubernetes. */
	if (json_equal(have, want) || (!have && (!want || json_is(want, JSON_NULL))))
		return NULL;
	return err_new(ERR_INVALID, "testing path %.128s failed: test failed", path);
}

static struct err *from_of(struct patch_work *w, const struct json *op, struct place *ret)
{
	const char *from = json_get_str(op, "from");

	if (!from)
		return missing("");
	return find(w, from, ret);
}

static struct err *op_copy(struct patch_work *w, const struct json *op, const char *path)
{
	autoplace from = { 0 }, to = { 0 };
	struct json *val;
	struct err *e = from_of(w, op, &from);

	if (!e)
		e = find(w, path, &to);
	if (e)
		return e;
	val = value_at(w, &from);
	if (!to.in || (!val && json_is(from.in, JSON_ARR)))
		return missing(path);
	return add_at(w, &to, copied(w, val));
}

static struct err *op_move(struct patch_work *w, const struct json *op, const char *path)
{
	autoplace from = { 0 }, to = { 0 };
	const char *source = json_get_str(op, "from");
	struct json *val;
	struct err *e = from_of(w, op, &from);

	if (e)
		return e;
	if (str_starts(path, source) && path[strlen(source)] == '/')
		return err_new(ERR_INVALID, "apply JSON patch: cannot move a value into itself");
	val = json_copy(w->d, value_at(w, &from));
	e = remove_at(w, &from, source);
	if (!e)
		e = find(w, path, &to); /* after the value was taken out */
	return e ? e : add_at(w, &to, val);
}

static const struct {
	const char *name;
	struct err *(*run)(struct patch_work *w, const struct json *op, const char *path);
} ops[] = {
	{ "add", op_add },   { "remove", op_remove }, { "replace", op_replace },
	{ "test", op_test }, { "copy", op_copy },     { "move", op_move },
};

static struct err *run(struct patch_work *w, const struct json *op)
{
	const char *name = json_get_str(op, "op"), *path = json_get_str(op, "path");

	if (!name || !path)
		return err_new(ERR_INVALID, "apply JSON patch: an operation has no op or no path");
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		if (!strcmp(ops[i].name, name))
			return ops[i].run(w, op, path);
	return err_new(ERR_INVALID, "apply JSON patch: unknown operation \"%.32s\"", name);
}

struct err *patch_json(struct patch_work *w, const struct json *patch)
{
	size_t limit = json_doc_mem(w->d) + MAX_MEM;
	struct err *e;

	if (json_is(patch, JSON_NULL))
		return NULL;
	if (!json_is(patch, JSON_ARR))
		return err_new(ERR_MALFORMED,
			       "apply JSON patch: patch must be a list of operations");
	if (json_len(patch) > MAX_OPS)
		return err_new(ERR_TOO_LARGE,
			       "Request entity too large: The allowed maximum operations in a JSON "
			       "patch is %d, got %zu",
			       MAX_OPS, json_len(patch));
	json_each(it, patch) {
		e = run(w, it.val);
		if (e)
			return e;
		if (json_doc_mem(w->d) > limit)
			return err_new(ERR_TOO_LARGE,
				       "apply JSON patch: result needs over %d bytes more memory",
				       MAX_MEM);
	}
	if (!json_is(json_root(w->d), JSON_OBJ))
		return err_new(ERR_INVALID, "apply JSON patch: result is not an object");
	return NULL;
}
