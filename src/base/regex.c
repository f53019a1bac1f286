/* SPDX-License-Identifier: Apache-2.0 */
#include "base/regex.h"

#include "base/regex_priv.h"
#include "base/str.h"

/*
 * A program for a machine that follows all ways through the pattern at once (Thompson, Pike): each
 * instruction is looked at once for each character at most, so no pattern can make it explode.
 */
enum op {
	OP_CLASS,  /* one character in ranges; goes on behind */
	OP_SPLIT,  /* goes on at x and at y */
	OP_JUMP,   /* goes on at x */
	OP_ASSERT, /* goes on behind if the assertion holds */
	OP_MATCH,
};

struct inst {
	enum op op;
	uint32_t x, y;
	const struct regex_range *ranges;
	size_t n_ranges;
};

struct regex {
	struct arena *arena; /* of the tree, whose ranges the program uses */
	struct inst *prog;
	size_t n, cap, size;
};

/* Writing the program */

struct writer {
	struct regex *r;
	size_t visits; /* of nodes: a repetition of nothing writes nothing, and still takes time */
	bool full;
};

static uint32_t emit(struct writer *w, struct inst inst)
{
	struct regex *r = w->r;

	if (r->n == REGEX_SIZE_MAX) {
		w->full = true;
		return 0;
	}
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 16;
		r->prog = xrealloc(r->prog, r->cap * sizeof(*r->prog));
	}
	r->prog[r->n] = inst;
	return (uint32_t)r->n++;
}

static uint32_t here(const struct writer *w)
{
	return (uint32_t)w->r->n;
}

static void write_node(struct writer *w, const struct regex_node *node);

static void write_alt(struct writer *w, const struct regex_node *node)
{
	uint32_t ends[2] = { UINT32_MAX, UINT32_MAX }; /* a chain of jumps to the end, by x */

	for (const struct regex_node *c = node->child; c && !w->full; c = c->next) {
		uint32_t split = 0, jump;

		if (c->next)
			split = emit(w, (struct inst){ .op = OP_SPLIT });
		if (c->next && !w->full)
			w->r->prog[split].x = here(w);
		write_node(w, c);
		if (!c->next || w->full)
			break;
		jump = emit(w, (struct inst){ .op = OP_JUMP, .x = ends[0] });
		ends[0] = jump;
		w->r->prog[split].y = here(w);
	}
	while (!w->full && ends[0] != UINT32_MAX) {
		ends[1] = w->r->prog[ends[0]].x;
		w->r->prog[ends[0]].x = here(w);
		ends[0] = ends[1];
	}
}

static void write_star(struct writer *w, const struct regex_node *child)
{
	uint32_t split = emit(w, (struct inst){ .op = OP_SPLIT });

	write_node(w, child);
	(void)emit(w, (struct inst){ .op = OP_JUMP, .x = split });
	if (w->full)
		return;
	w->r->prog[split].x = split + 1;
	w->r->prog[split].y = here(w);
}

static void write_repeat(struct writer *w, const struct regex_node *node)
{
	for (int i = 0; i < node->min && !w->full; i++)
		write_node(w, node->child);
	if (node->max < 0) {
		write_star(w, node->child);
		return;
	}
	for (int i = node->min; i < node->max && !w->full; i++) {
		uint32_t split = emit(w, (struct inst){ .op = OP_SPLIT });

		write_node(w, node->child);
		if (w->full)
			return;
		w->r->prog[split].x = split + 1;
		w->r->prog[split].y = here(w); /* from there the next one may be left out too */
	}
}

static void write_node(struct writer *w, const struct regex_node *node)
{
	if (w->full || w->visits++ > (size_t)2 * REGEX_SIZE_MAX) {
		w->full = true;
		return;
	}
	switch (node->kind) {
	case NODE_CLASS:
		(void)emit(w, (struct inst){ .op = OP_CLASS,
					     .ranges = node->ranges,
					     .n_ranges = node->n_ranges });
		break;
	case NODE_CAT:
		for (const struct regex_node *c = node->child; c; c = c->next)
			write_node(w, c);
		break;
	case NODE_ALT:
		write_alt(w, node);
		break;
	case NODE_REPEAT:
		write_repeat(w, node);
		break;
	case NODE_ASSERT:
		(void)emit(w, (struct inst){ .op = OP_ASSERT, .x = node->assertion });
		break;
	}
}

struct err *regex_new(const char *pattern, struct regex **ret)
{
	autoptr(regex) r = xnew(struct regex);
	struct writer w = { .r = r };
	struct regex_node *tree;
	struct err *e;

	r->arena = arena_new();
	e = regex_parse(r->arena, pattern, &tree);
	if (e)
		return e;
	write_node(&w, tree);
	(void)emit(&w, (struct inst){ .op = OP_MATCH });
	if (w.full)
		return err_new(ERR_TOO_LARGE,
			       "expression is too large: it needs more than %d instructions",
			       REGEX_SIZE_MAX);
	r->size = MAX(r->n, w.visits);
	*ret = take(r);
	return NULL;
}

size_t regex_size(const struct regex *r)
{
	return r->size;
}

void regex_free(struct regex *r)
{
	if (!r)
		return;
	arena_free(r->arena);
	free(r->prog);
	free(r);
}

/* Matching */

/* Places in the program, each once; which are in it is known without clearing anything. */
struct places {
	uint32_t *dense, *sparse;
	size_t n;
};

struct run {
	const struct regex *r;
	size_t *steps;
	uint32_t *stack;
	uint32_t before, after; /* the characters around the position; NONE at the ends */
	bool matched, spent;
};

#define NONE UINT32_MAX

static bool is_word(uint32_t c)
{
	return c < 0x80 && ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
			    (c >= 'a' && c <= 'z') || c == '_');
}

static bool holds(const struct run *run, enum regex_assert a)
{
	switch (a) {
	case ASSERT_TEXT_BEGIN:
		return run->before == NONE;
	case ASSERT_TEXT_END:
		return run->after == NONE;
	case ASSERT_LINE_BEGIN:
		return run->before == NONE || run->before == '\n';
	case ASSERT_LINE_END:
		return run->after == NONE || run->after == '\n';
	case ASSERT_WORD:
		return is_word(run->before) != is_word(run->after);
	case ASSERT_NOT_WORD:
		return is_word(run->before) == is_word(run->after);
	}
	return false;
}

static bool add(struct places *p, uint32_t at)
{
	if (p->sparse[at] < p->n && p->dense[p->sparse[at]] == at)
		return false;
	p->sparse[at] = (uint32_t)p->n;
	p->dense[p->n++] = at;
	return true;
}

static bool spend(struct run *run)
{
	if (!*run->steps) {
		run->spent = true;
		return false;
	}
	--*run->steps;
	return true;
}

/* Everything that can be reached from a place without reading a character. Each place is pushed
 * for at most two others, so the stack is twice as large as the program. */
static void follow(struct run *run, struct places *to, uint32_t start)
{
	size_t n = 0;

	run->stack[n++] = start;
	while (n && spend(run)) {
		uint32_t at = run->stack[--n];
		const struct inst *i = &run->r->prog[at];

		if (!add(to, at))
			continue;
		switch (i->op) {
		case OP_JUMP:
			run->stack[n++] = i->x;
			break;
		case OP_SPLIT:
			run->stack[n++] = i->y;
			run->stack[n++] = i->x;
			break;
		case OP_ASSERT:
			if (holds(run, (enum regex_assert)i->x))
				run->stack[n++] = at + 1;
			break;
		case OP_MATCH:
			run->matched = true;
			break;
		case OP_CLASS:
			break;
		}
	}
}

static bool contains(const struct inst *i, uint32_t c)
{
	size_t lo = 0, hi = i->n_ranges;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (c < i->ranges[mid].lo)
			hi = mid;
		else if (c > i->ranges[mid].hi)
			lo = mid + 1;
		else
			return true;
	}
	return false;
}

/* The character at p, of a text that ends at end; *ret_len is its length. */
static uint32_t char_at(const char *p, const char *end, size_t *ret_len)
{
	const unsigned char *u = (const unsigned char *)p;
	size_t left = (size_t)(end - p), len = 1;
	uint32_t c;

	*ret_len = 1;
	if (!left)
		return NONE;
	if (u[0] < 0x80)
		return u[0];
	len = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
	if (u[0] < 0xc0 || len > left)
		return 0xfffd;
	c = u[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++)
		c = c << 6 | (u[i] & 0x3f);
	*ret_len = len;
	return c;
}

static void step(struct run *run, const struct places *from, struct places *to)
{
	to->n = 0;
	for (size_t i = 0; i < from->n && !run->spent; i++) {
		const struct inst *inst = &run->r->prog[from->dense[i]];

		/* follow() looks at what is around the place behind the character, so what is
		 * reached is not final before that is known: only the places are noted here. */
		if (inst->op == OP_CLASS && spend(run) && contains(inst, run->after))
			(void)add(to, from->dense[i] + 1);
	}
}

static void search(struct run *run, const char *text, size_t len, struct places *sets)
{
	const char *p = text, *end = text + len;
	struct places *noted = &sets[0], *reached = &sets[1];
	size_t n;

	run->before = NONE;
	for (;;) {
		run->after = char_at(p, end, &n);
		reached->n = 0;
		for (size_t i = 0; i < noted->n && !run->spent; i++)
			follow(run, reached, noted->dense[i]);
		follow(run, reached, 0); /* a match may begin anywhere */
		if (run->matched || run->spent || run->after == NONE)
			return;
		step(run, reached, noted);
		run->before = run->after;
		p += n;
	}
}

enum regex_result regex_match(const struct regex *r, const char *text, size_t len, size_t *steps)
{
	size_t setup = r->n / 4; /* what a match costs before its first step */
	autofree uint32_t *memory = NULL;
	struct places sets[2] = { 0 };
	struct run run = { .r = r, .steps = steps };

	if (*steps < setup)
		return REGEX_TOO_LONG;
	*steps -= setup;
	memory = xnew_n(uint32_t, 7 * r->n + 4);
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		sets[i] = (struct places){ .dense = memory + 2 * i * r->n,
					   .sparse = memory + (2 * i + 1) * r->n };
	run.stack = memory + 4 * r->n;
	search(&run, text, len, sets);
	if (run.matched)
		return REGEX_YES;
	return run.spent ? REGEX_TOO_LONG : REGEX_NO;
}
