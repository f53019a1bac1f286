/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "base/regex_priv.h"
#include "base/str.h"

/*
 * From a pattern in Go's syntax to a tree. Errors are worded as Go words them, because people
 * have seen those.
 */
enum {
	CHAR_MAX_ = 0x10ffff,
	COUNT_MAX = 1000, /* of a repetition, as in Go */
};

enum flags {
	FLAG_FOLD = 1,  /* i: letters match both cases */
	FLAG_LINES = 2, /* m: ^ and $ match at lines */
	FLAG_DOT = 4,   /* s: . matches a line feed too */
};

struct parser {
	struct arena *a;
	const char *p, *end;
	unsigned flags;
	unsigned depth;
	struct err *e; /* the first error; everything after it is only unwinding */
};

static struct regex_node *parse_alt(struct parser *ps);

static void fail(struct parser *ps, const char *what, const char *from, const char *to)
{
	if (!ps->e)
		ps->e = err_new(ERR_MALFORMED, "%s: `%.*s`", what, (int)MIN(to - from, 200L), from);
	ps->p = ps->end;
}

static bool eat(struct parser *ps, const char *text)
{
	size_t len = strlen(text);

	if ((size_t)(ps->end - ps->p) < len || memcmp(ps->p, text, len) != 0)
		return false;
	ps->p += len;
	return true;
}

static char peek(const struct parser *ps)
{
	return ps->p < ps->end ? *ps->p : 0;
}

static uint32_t next_char(struct parser *ps)
{
	const unsigned char *u = (const unsigned char *)ps->p;
	size_t left = (size_t)(ps->end - ps->p), len;
	uint32_t c;

	if (u[0] < 0x80) {
		ps->p++;
		return u[0];
	}
	len = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
	if (u[0] < 0xc0 || len > left) {
		fail(ps, "invalid UTF-8", ps->p, ps->p + 1);
		return 0;
	}
	c = u[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (u[i] & 0x3f);
	ps->p += len;
	return c;
}

static struct regex_node *node_new(struct parser *ps, enum regex_node_kind kind)
{
	struct regex_node *n = arena_new_of(ps->a, struct regex_node);

	n->kind = kind;
	return n;
}

static void node_add(struct regex_node *to, struct regex_node *child)
{
	if (to->last)
		to->last->next = child;
	else
		to->child = child;
	to->last = child;
}

/* Classes: ranges are gathered, then sorted and merged. */

struct class
{
	struct regex_range *list;
	size_t n, cap;
};

static void class_add(struct class *c, uint32_t lo, uint32_t hi)
{
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 8;
		c->list = xrealloc(c->list, c->cap * sizeof(*c->list));
	}
	c->list[c->n++] = (struct regex_range){ lo, hi };
}

/* Both cases of the letters in the range. */
static void class_add_folded(const struct parser *ps, struct class *c, uint32_t lo, uint32_t hi)
{
	uint32_t from, to;

	class_add(c, lo, hi);
	if (!(ps->flags & FLAG_FOLD))
		return;
	from = MAX(lo, (uint32_t)'a');
	to = MIN(hi, (uint32_t)'z');
	if (from <= to)
		class_add(c, from - 'a' + 'A', to - 'a' + 'A');
	from = MAX(lo, (uint32_t)'A');
	to = MIN(hi, (uint32_t)'Z');
	if (from <= to)
		class_add(c, from - 'A' + 'a', to - 'A' + 'a');
}

static int by_lo(const void *a, const void *b)
{
	const struct regex_range *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

static void class_settle(struct class *c)
{
	size_t n = 0;

	if (!c->n)
		return;
	qsort(c->list, c->n, sizeof(*c->list), by_lo);
	for (size_t i = 1; i < c->n; i++) {
		if (c->list[i].lo <= c->list[n].hi + 1)
			c->list[n].hi = MAX(c->list[n].hi, c->list[i].hi);
		else
			c->list[++n] = c->list[i];
	}
	c->n = n + 1;
}

static void class_negate(struct class *c)
{
	struct class out = { 0 };
	uint32_t from = 0;

	class_settle(c);
	for (size_t i = 0; i < c->n; i++) {
		if (c->list[i].lo > from)
			class_add(&out, from, c->list[i].lo - 1);
		from = c->list[i].hi + 1;
	}
	if (from <= CHAR_MAX_)
		class_add(&out, from, CHAR_MAX_);
	free(c->list);
	*c = out;
}

/* Takes the ranges over. */
static struct regex_node *class_node(struct parser *ps, struct class *c)
{
	struct regex_node *n = node_new(ps, NODE_CLASS);
	struct regex_range *kept;

	class_settle(c);
	kept = arena_new_n(ps->a, struct regex_range, c->n + 1);
	if (c->n)
		memcpy(kept, c->list, c->n * sizeof(*kept));
	n->ranges = kept;
	n->n_ranges = c->n;
	free(c->list);
	return n;
}

static struct regex_node *literal(struct parser *ps, uint32_t ch)
{
	struct class c = { 0 };

	class_add_folded(ps, &c, ch, ch);
	return class_node(ps, &c);
}

/* "09AZaz": pairs of ends. */
static void class_add_pairs(struct class *c, const char *pairs, bool negated)
{
	struct class own = { 0 };

	for (; *pairs; pairs += 2)
		class_add(&own, (unsigned char)pairs[0], (unsigned char)pairs[1]);
	if (negated)
		class_negate(&own);
	for (size_t i = 0; i < own.n; i++)
		class_add(c, own.list[i].lo, own.list[i].hi);
	free(own.list);
}

/* \d and the like; false: p is at none of them. */
static bool perl_class(struct parser *ps, struct class *c)
{
	static const struct {
		char name;
		const char *pairs;
	} rows[] = { { 'd', "09" }, { 's', "\t\n\f\r  " }, { 'w', "09AZ__az" } };

	if (peek(ps) != '\\' || ps->end - ps->p < 2)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (tolower((unsigned char)ps->p[1]) != rows[i].name)
			continue;
		class_add_pairs(c, rows[i].pairs, isupper((unsigned char)ps->p[1]));
		ps->p += 2;
		return true;
	}
	return false;
}

static bool posix_class(struct parser *ps, struct class *c)
{
	static const struct {
		const char *name, *pairs;
	} rows[] = {
		{ "alnum", "09AZaz" },
		{ "alpha", "AZaz" },
		{ "ascii", "\1\x7f" },
		{ "blank", "\t\t  " },
		{ "cntrl", "\1\x1f\x7f\x7f" },
		{ "digit", "09" },
		{ "graph", "!~" },
		{ "lower", "az" },
		{ "print", " ~" },
		{ "punct", "!/:@[`{~" },
		{ "space", "\t\r  " },
		{ "upper", "AZ" },
		{ "word", "09AZ__az" },
		{ "xdigit", "09AFaf" },
	};
	const char *from = ps->p;
	bool negated;

	if (!eat(ps, "[:"))
		return false;
	negated = eat(ps, "^");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].name);

		if ((size_t)(ps->end - ps->p) < len + 2 || memcmp(ps->p, rows[i].name, len) != 0 ||
		    memcmp(ps->p + len, ":]", 2) != 0)
			continue;
		class_add_pairs(c, rows[i].pairs, negated);
		ps->p += len + 2;
		return true;
	}
	fail(ps, "invalid character class range", from, MIN(ps->p + 8, ps->end));
	return true;
}

static int hex(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

static uint32_t escape_hex(struct parser *ps, const char *from)
{
	bool braces = eat(ps, "{");
	uint32_t c = 0;
	int n = 0;

	while (ps->p < ps->end && isxdigit((unsigned char)*ps->p) && n < (braces ? 8 : 2)) {
		c = c * 16 + (uint32_t)hex(*ps->p++);
		n++;
	}
	if (!n || (!braces && n < 2) || c > CHAR_MAX_ || (braces && !eat(ps, "}")))
		fail(ps, "invalid escape sequence", from, MIN(ps->p + 1, ps->end));
	return c;
}

static uint32_t escape_octal(struct parser *ps, char first)
{
	uint32_t c = (uint32_t)(first - '0');

	for (int i = 0; i < 2 && peek(ps) >= '0' && peek(ps) <= '7'; i++)
		c = c * 8 + (uint32_t)(*ps->p++ - '0');
	return c;
}

/* One character after a backslash. */
static uint32_t escape(struct parser *ps)
{
	static const char names[] = "aftnrv", values[] = "\a\f\t\n\r\v";
	const char *from = ps->p++, *at;
	char c;

	if (ps->p == ps->end) {
		fail(ps, "trailing backslash at end of expression", ps->p, ps->p);
		return 0;
	}
	if ((unsigned char)*ps->p < 0x80 && ispunct((unsigned char)*ps->p))
		return (unsigned char)*ps->p++;
	c = *ps->p++;
	at = strchr(names, c);
	if (at)
		return (unsigned char)values[at - names];
	if (c == 'x')
		return escape_hex(ps, from);
	if (c == '0' || (c >= '1' && c <= '7' && peek(ps) >= '0' && peek(ps) <= '7'))
		return escape_octal(ps, c);
	if (c == 'p' || c == 'P')
		fail(ps, "classes by Unicode property are not supported here", from, ps->end);
	else
		fail(ps, "invalid escape sequence", from, ps->p);
	return 0;
}

static uint32_t class_char(struct parser *ps)
{
	return peek(ps) == '\\' ? escape(ps) : next_char(ps);
}

static void class_item(struct parser *ps, struct class *c)
{
	const char *from = ps->p;
	uint32_t lo, hi;

	if (perl_class(ps, c) || posix_class(ps, c))
		return;
	lo = hi = class_char(ps);
	if (ps->end - ps->p >= 2 && ps->p[0] == '-' && ps->p[1] != ']') {
		ps->p++;
		hi = class_char(ps);
	}
	if (!ps->e && hi < lo)
		fail(ps, "invalid character class range", from, ps->p);
	if (!ps->e)
		class_add_folded(ps, c, lo, hi);
}

static struct regex_node *parse_class(struct parser *ps)
{
	const char *from = ps->p++;
	bool negated = eat(ps, "^"), first = true;
	struct class c = { 0 };

	while (!ps->e && (first || peek(ps) != ']')) {
		if (ps->p == ps->end) {
			fail(ps, "missing closing ]", from, ps->end);
			break;
		}
		first = false;
		class_item(ps, &c);
	}
	if (!ps->e)
		ps->p++;
	if (negated)
		class_negate(&c);
	return class_node(ps, &c);
}

static struct regex_node *assertion(struct parser *ps, enum regex_assert a)
{
	struct regex_node *n = node_new(ps, NODE_ASSERT);

	n->assertion = a;
	return n;
}

static struct regex_node *quoted(struct parser *ps)
{
	struct regex_node *all = node_new(ps, NODE_CAT);

	while (!ps->e && ps->p < ps->end && !eat(ps, "\\E"))
		node_add(all, literal(ps, next_char(ps)));
	return all;
}

static struct regex_node *parse_escape(struct parser *ps)
{
	struct class c = { 0 };

	if (eat(ps, "\\A"))
		return assertion(ps, ASSERT_TEXT_BEGIN);
	if (eat(ps, "\\z"))
		return assertion(ps, ASSERT_TEXT_END);
	if (eat(ps, "\\b"))
		return assertion(ps, ASSERT_WORD);
	if (eat(ps, "\\B"))
		return assertion(ps, ASSERT_NOT_WORD);
	if (eat(ps, "\\Q"))
		return quoted(ps);
	if (perl_class(ps, &c))
		return class_node(ps, &c);
	return literal(ps, escape(ps));
}

/* (?flags) or (?flags:…), behind the question mark. True: a group follows. */
static bool parse_flags(struct parser *ps, const char *from)
{
	static const char names[] = "ims";
	static const unsigned bits[] = { FLAG_FOLD, FLAG_LINES, FLAG_DOT };
	bool off = false;

	for (; ps->p < ps->end && !strchr(":)", *ps->p); ps->p++) {
		const char *at = *ps->p ? strchr(names, *ps->p) : NULL;

		if (*ps->p == '-' && !off)
			off = true;
		else if (at && off)
			ps->flags &= ~bits[at - names];
		else if (at)
			ps->flags |= bits[at - names];
		else if (*ps->p != 'U') /* which match is preferred does not matter here */
			break;
	}
	if (eat(ps, ":"))
		return true;
	if (!eat(ps, ")"))
		fail(ps, "invalid or unsupported Perl syntax", from, MIN(ps->p + 1, ps->end));
	return false;
}

static bool parse_name(struct parser *ps, const char *from)
{
	const char *end = memchr(ps->p, '>', (size_t)(ps->end - ps->p)), *p = ps->p;

	while (end && p < end && (isalnum((unsigned char)*p) || *p == '_'))
		p++;
	if (!end || p != end || p == ps->p) {
		fail(ps, "invalid named capture", from, end ? end + 1 : ps->end);
		return false;
	}
	ps->p = end + 1;
	return true;
}

static struct regex_node *parse_group(struct parser *ps)
{
	const char *from = ps->p++;
	unsigned flags = ps->flags;
	struct regex_node *n;

	if (eat(ps, "?P<") ||
	    (ps->end - ps->p > 2 && ps->p[2] != '=' && ps->p[2] != '!' && eat(ps, "?<"))) {
		if (!parse_name(ps, from))
			return node_new(ps, NODE_CAT);
	} else if (eat(ps, "?")) {
		if (!parse_flags(ps, from))
			return node_new(ps, NODE_CAT); /* the flags stay for what follows */
	}
	if (++ps->depth > REGEX_DEPTH_MAX) {
		fail(ps, "expression nests too deeply", from, ps->end);
		return node_new(ps, NODE_CAT);
	}
	n = parse_alt(ps);
	ps->depth--;
	ps->flags = flags;
	if (!ps->e && !eat(ps, ")"))
		fail(ps, "missing closing )", from, ps->end);
	return n;
}

static struct regex_node *parse_dot(struct parser *ps)
{
	struct class c = { 0 };

	ps->p++;
	class_add(&c, 0, ps->flags & FLAG_DOT ? CHAR_MAX_ : '\n' - 1);
	if (!(ps->flags & FLAG_DOT))
		class_add(&c, '\n' + 1, CHAR_MAX_);
	return class_node(ps, &c);
}

static struct regex_node *parse_atom(struct parser *ps)
{
	switch (peek(ps)) {
	case '(':
		return parse_group(ps);
	case '[':
		return parse_class(ps);
	case '.':
		return parse_dot(ps);
	case '^':
		ps->p++;
		return assertion(ps,
				 ps->flags & FLAG_LINES ? ASSERT_LINE_BEGIN : ASSERT_TEXT_BEGIN);
	case '$':
		ps->p++;
		return assertion(ps, ps->flags & FLAG_LINES ? ASSERT_LINE_END : ASSERT_TEXT_END);
	case '\\':
		return parse_escape(ps);
	case '*':
	case '+':
	case '?':
		fail(ps, "missing argument to repetition operator", ps->p, ps->p + 1);
		return node_new(ps, NODE_CAT);
	default:
		return literal(ps, next_char(ps));
	}
}

static const char *read_count(const char *p, const char *end, int *ret)
{
	const char *from = p;
	int n = 0;

	for (; p < end && isdigit((unsigned char)*p); p++)
		n = n > COUNT_MAX ? n : n * 10 + (*p - '0');
	*ret = n;
	return p > from ? p : NULL;
}

/* {n}, {n,} or {n,m} at p: what follows it. NULL: it is none, and the brace stands for itself. */
static const char *read_counts(const struct parser *ps, int *min, int *max)
{
	const char *p = read_count(ps->p + 1, ps->end, min);

	*max = *min;
	if (p && p < ps->end && *p == ',') {
		*max = -1;
		p++;
		if (p < ps->end && *p != '}')
			p = read_count(p, ps->end, max);
	}
	return p && p < ps->end && *p == '}' ? p + 1 : NULL;
}

/* True: a repetition was read. */
static bool parse_repeat(struct parser *ps, int *min, int *max)
{
	const char *from = ps->p, *behind;

	switch (peek(ps)) {
	case '*':
	case '+':
	case '?':
		*min = *from == '+';
		*max = *from == '?' ? 1 : -1;
		behind = from + 1;
		break;
	case '{':
		behind = read_counts(ps, min, max);
		break;
	default:
		behind = NULL;
	}
	if (!behind)
		return false;
	ps->p = behind;
	if (*min > COUNT_MAX || *max > COUNT_MAX || (*max >= 0 && *max < *min))
		fail(ps, "invalid repeat count", from, behind);
	else
		(void)eat(ps, "?"); /* lazy: whether there is a match stays the same */
	return true;
}

static struct regex_node *parse_repeated(struct parser *ps)
{
	struct regex_node *n = parse_atom(ps), *outer;
	const char *from = ps->p;
	int min = 0, max = 0;

	if (ps->e || !parse_repeat(ps, &min, &max) || ps->e)
		return n;
	outer = node_new(ps, NODE_REPEAT);
	outer->min = min;
	outer->max = max;
	node_add(outer, n);
	if (parse_repeat(ps, &min, &max) && !ps->e)
		fail(ps, "invalid nested repetition operator", from, ps->p);
	return outer;
}

static struct regex_node *parse_cat(struct parser *ps)
{
	struct regex_node *all = node_new(ps, NODE_CAT);

	while (!ps->e && ps->p < ps->end && *ps->p != '|' && *ps->p != ')')
		node_add(all, parse_repeated(ps));
	return all;
}

static struct regex_node *parse_alt(struct parser *ps)
{
	struct regex_node *all = node_new(ps, NODE_ALT);

	node_add(all, parse_cat(ps));
	while (!ps->e && eat(ps, "|"))
		node_add(all, parse_cat(ps));
	return all->child->next ? all : all->child;
}

struct err *regex_parse(struct arena *a, const char *pattern, struct regex_node **ret)
{
	struct parser ps = { .a = a, .p = pattern, .end = pattern + strlen(pattern) };
	struct regex_node *tree = parse_alt(&ps);

	if (!ps.e && ps.p < ps.end)
		fail(&ps, "unexpected )", pattern, ps.end);
	if (!ps.e)
		*ret = tree;
	return ps.e;
}
