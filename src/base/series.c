/* SPDX-License-Identifier: Apache-2.0 */
#include "base/series.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/random.h"

/*
 * A series is found by the values of its labels, packed one behind the other: copying and hashing
 * those few bytes is most of what an observation costs. The text of its labels is made once.
 */
enum {
	PACKED_MAX = 1024, /* values that take more count as "other" */
};

struct one {
	uint64_t hash;
	char *labels; /* as they are written: a="x",b="y" */
	void *packed;
	size_t packed_len;
	uint64_t n, sum;
	uint64_t in[]; /* of a histogram: how many were in each bucket, not counting those below */
};

struct series {
	const struct series_spec *spec;
	size_t n_labels;
	uint64_t seed;
	struct one **slots; /* by hash; NULL: free. At least half of them always are */
	size_t n_slots, n;  /* n_slots is a power of two */
	struct one *other;  /* what is beyond the limit; NULL: nothing. It has a slot too */
};

struct packed {
	size_t len;
	char at[PACKED_MAX];
};

struct series *series_new(const struct series_spec *spec)
{
	struct series *s = xnew(struct series);

	assert(!spec->n_bounds == (spec->type != SERIES_HISTOGRAM));
	s->spec = spec;
	while (s->n_labels < SERIES_LABELS_MAX && spec->labels[s->n_labels])
		s->n_labels++;
	s->n_slots = 8;
	while (s->n_slots < 2 * (spec->max + 1))
		s->n_slots *= 2;
	s->slots = xnew_n(struct one *, s->n_slots);
	s->seed = random_u64();
	return s;
}

static void one_free(struct one *o)
{
	if (!o)
		return;
	free(o->labels);
	free(o->packed);
	free(o);
}

void series_free(struct series *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_slots; i++)
		one_free(s->slots[i]);
	free(s->slots);
	free(s);
}

static const char other[] = "other";

/* False: there is no room for them. values NULL: all are "other". */
static bool pack(const struct series *s, const char *const values[], struct packed *p)
{
	p->len = 0;
	for (size_t i = 0; i < s->n_labels; i++) {
		const char *v = !values ? other : values[i] ? values[i] : "";
		size_t len = strnlen(v, SERIES_VALUE_MAX + 1);

		if (len > SERIES_VALUE_MAX) {
			v = other;
			len = sizeof(other) - 1;
		}
		if (p->len + len + 1 > sizeof(p->at))
			return false;
		memcpy(p->at + p->len, v, len + 1);
		p->len += len + 1;
	}
	return true;
}

/* Users choose some of the bytes, but no more of them than the limit of series. */
static uint64_t hash(uint64_t seed, const struct packed *p)
{
	uint64_t h = seed ^ p->len, word;

	for (size_t i = 0; i < p->len; i += sizeof(word)) {
		word = 0;
		memcpy(&word, p->at + i, MIN(sizeof(word), p->len - i));
		h = (h ^ word) * 0x9e3779b97f4a7c15;
		h ^= h >> 29;
	}
	return h;
}

/* Quotes, backslashes and ends of lines are escaped, so that a value cannot end its label. */
static void put_value(struct buf *b, const char *v)
{
	for (; *v; v++)
		if (*v == '\n')
			buf_add_str(b, "\\n");
		else if (*v == '"' || *v == '\\')
			buf_printf(b, "\\%c", *v);
		else
			buf_add_char(b, *v);
}

static char *labels_text(const struct series *s, const struct packed *p)
{
	const char *v = p->at;
	autobuf b = { 0 };

	for (size_t i = 0; i < s->n_labels && v < p->at + p->len; i++) {
		buf_printf(&b, "%s%s=\"", i ? "," : "", s->spec->labels[i]);
		put_value(&b, v);
		buf_add_char(&b, '"');
		v += strlen(v) + 1;
	}
	return buf_steal(&b, NULL);
}

/* The slot of the series, or the free one that it would have. */
static struct one **slot_of(struct series *s, const struct packed *p, uint64_t h)
{
	for (size_t i = h;; i++) {
		struct one **at = &s->slots[i & (s->n_slots - 1)];

		if (!*at || ((*at)->hash == h && (*at)->packed_len == p->len &&
			     !memcmp((*at)->packed, p->at, p->len)))
			return at;
	}
}

static struct one *one_new(struct series *s, const struct packed *p, uint64_t h)
{
	struct one *o = xcalloc(1, sizeof(*o) + s->spec->n_bounds * sizeof(uint64_t));

	o->hash = h;
	o->packed_len = p->len;
	o->packed = xmemdup(p->at, p->len);
	o->labels = labels_text(s, p);
	s->n++;
	return o;
}

static struct one *other_of(struct series *s)
{
	struct packed p;
	struct one **at;
	uint64_t h;

	if (s->other)
		return s->other;
	(void)pack(s, NULL, &p);
	h = hash(s->seed, &p);
	at = slot_of(s, &p, h);
	if (!*at)
		*at = one_new(s, &p, h);
	s->other = *at;
	return s->other;
}

static struct one *find(struct series *s, const char *const values[])
{
	struct packed p;
	struct one **at;
	uint64_t h;

	if (!pack(s, values, &p))
		return other_of(s);
	h = hash(s->seed, &p);
	at = slot_of(s, &p, h);
	if (*at)
		return *at;
	if (s->n >= s->spec->max)
		return other_of(s);
	*at = one_new(s, &p, h);
	return *at;
}

void series_add(struct series *s, const char *const values[], uint64_t n)
{
	find(s, values)->n += n;
}

void series_observe(struct series *s, const char *const values[], uint64_t value)
{
	const struct series_spec *spec = s->spec;
	struct one *o = find(s, values);
	size_t i = 0;

	o->n++;
	o->sum += value;
	while (i < spec->n_bounds && value > spec->bounds[i])
		i++;
	if (i < spec->n_bounds)
		o->in[i]++;
}

static double scaled(const struct series *s, uint64_t value)
{
	return (double)value / (s->spec->per ? s->spec->per : 1);
}

/* name_part{labels} or, without labels, name_part */
static void put_name(const struct series *s, struct buf *b, const char *part, const char *labels)
{
	buf_add_str(b, s->spec->name);
	buf_add_str(b, part);
	if (*labels)
		buf_printf(b, "{%s}", labels);
}

static void write_histogram(const struct series *s, struct buf *b, const char *labels,
			    const struct one *o)
{
	const char *comma = *labels ? "," : "";
	uint64_t n = 0;

	for (size_t i = 0; i < s->spec->n_bounds; i++) {
		n += o->in[i];
		buf_printf(b, "%s_bucket{%s%sle=\"%.10g\"} %llu\n", s->spec->name, labels, comma,
			   scaled(s, s->spec->bounds[i]), (unsigned long long)n);
	}
	buf_printf(b, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", s->spec->name, labels, comma,
		   (unsigned long long)o->n);
	put_name(s, b, "_sum", labels);
	buf_printf(b, " %.15g\n", scaled(s, o->sum));
	put_name(s, b, "_count", labels);
	buf_printf(b, " %llu\n", (unsigned long long)o->n);
}

static void write_number(const struct series *s, struct buf *b, const char *labels,
			 const struct one *o)
{
	put_name(s, b, "", labels);
	buf_printf(b, " %.15g\n", scaled(s, o->n));
}

void series_write(const struct series *s, struct buf *b)
{
	static const char *const types[] = { [SERIES_COUNTER] = "counter",
					     [SERIES_GAUGE] = "gauge",
					     [SERIES_HISTOGRAM] = "histogram" };

	buf_printf(b, "# HELP %s %s\n# TYPE %s %s\n", s->spec->name, s->spec->help, s->spec->name,
		   types[s->spec->type]);
	for (size_t i = 0; i < s->n_slots; i++) {
		const struct one *o = s->slots[i];

		if (o && s->spec->type == SERIES_HISTOGRAM)
			write_histogram(s, b, o->labels, o);
		else if (o)
			write_number(s, b, o->labels, o);
	}
}
