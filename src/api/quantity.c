/* SPDX-License-Identifier: Apache-2.0 */
#include "api/quantity.h"

#include <ctype.h>
#include <stdio.h>

#include "api/meta.h"
#include "base/str.h"

/*
 * Quantities: "1500m", "2Gi", "1e3". Held as 128-bit billionths, which is finer than Kubernetes'
 * smallest suffix and wide enough for its largest; what is finer is rounded away from zero, and
 * what is larger is clamped.
 */
typedef __int128 nano;

#define NANO_MAX ((nano)INT64_MAX * 1000000000)

/* sign digits [. digits] suffix, without the suffix. */
struct number {
	nano digits;
	int exp10;           /* of the last digit kept */
	bool negative, rest; /* rest: a digit that was dropped is not zero */
};

static const char decimal_suffixes[] = "num\1kMGTPE"; /* \1 stands for none */
static const char binary_suffixes[] = "KMGTPE";

static void add_digit(struct number *n, int digit, bool fraction)
{
	if (n->digits < NANO_MAX / 10) {
		n->digits = n->digits * 10 + digit;
		n->exp10 -= fraction;
		return;
	}
	n->exp10 += !fraction;
	n->rest |= digit != 0;
}

/* The rest of the text after the number, or NULL when there is none. */
static const char *read_number(const char *s, struct number *ret)
{
	bool fraction = false;
	size_t n_digits = 0;

	*ret = (struct number){ .negative = *s == '-' };
	if (*s == '-' || *s == '+')
		s++;
	for (; isdigit((unsigned char)*s) || (*s == '.' && !fraction); s++) {
		if (*s == '.') {
			fraction = true;
			continue;
		}
		add_digit(ret, *s - '0', fraction);
		n_digits++;
	}
	return n_digits ? s : NULL;
}

static nano times(nano v, int64_t by)
{
	nano out;

	if (__builtin_mul_overflow(v, by, &out) || out > NANO_MAX)
		return NANO_MAX;
	return out;
}

/* digits × 2^shift × 10^exp10, rounded up. */
static nano scale(const struct number *n, int exp10, int shift)
{
	nano v = n->digits;
	bool rest = n->rest;

	if (!v)
		return rest;
	while (exp10 < 0 && v % 10 == 0) {
		v /= 10;
		exp10++;
	}
	v = times(v, (int64_t)1 << shift);
	for (; exp10 > 0 && v < NANO_MAX; exp10--)
		v = times(v, 10);
	for (; exp10 < 0 && v; exp10++) {
		rest |= v % 10 != 0;
		v /= 10;
	}
	return v < NANO_MAX ? v + rest : v;
}

static bool read_exponent(const char *s, int *ret)
{
	bool negative = *s == '-';
	int exp = 0;

	if (*s == '-' || *s == '+')
		s++;
	if (!*s || strlen(s) > 4)
		return false;
	for (; isdigit((unsigned char)*s); s++)
		exp = exp * 10 + (*s - '0');
	*ret = negative ? -exp : exp;
	return !*s;
}

static bool read_suffix(const char *s, enum quantity_form *form, int *exp10, int *shift)
{
	const char *at;

	*form = QUANTITY_DECIMAL;
	if (!*s)
		return true;
	if (s[1] == 'i' && !s[2]) {
		at = strchr(binary_suffixes, *s);
		*form = QUANTITY_BINARY;
		*shift = at ? 10 * (int)(at - binary_suffixes + 1) : 0;
		return at;
	}
	if ((*s == 'e' || *s == 'E') && s[1]) {
		*form = QUANTITY_EXPONENT;
		return read_exponent(s + 1, exp10);
	}
	at = s[1] || *s == '\1' ? NULL : strchr(decimal_suffixes, *s);
	*exp10 = at ? 3 * (int)(at - decimal_suffixes) - 9 : 0;
	return at;
}

static bool read_text(const char *s, struct quantity *ret)
{
	int exp10 = 0, shift = 0;
	struct number n;

	s = read_number(s, &n);
	if (!s || !read_suffix(s, &ret->form, &exp10, &shift))
		return false;
	ret->nano = scale(&n, n.exp10 + exp10 + 9, shift);
	if (n.negative)
		ret->nano = -ret->nano;
	return true;
}

bool quantity_read(const struct json *q, struct quantity *ret)
{
	autofree char *text = NULL;

	if (json_is(q, JSON_STR))
		return json_str_len(q) <= 256 && read_text(json_str(q), ret);
	if (!json_is(q, JSON_INT) && !json_is(q, JSON_REAL))
		return false;
	text = json_to_text(q);
	return read_text(text, ret);
}

static nano divide_up(nano v, nano by)
{
	nano q = v / by;

	return v % by == 0 ? q : v < 0 ? q - 1 : q + 1;
}

int64_t quantity_milli(const struct quantity *q)
{
	nano milli = divide_up(q->nano, 1000000);

	return milli > INT64_MAX ? INT64_MAX : milli < -INT64_MAX ? -INT64_MAX : (int64_t)milli;
}

struct err *quantity_parse_milli(const struct json *q, int64_t *ret)
{
	struct quantity x;

	if (!quantity_read(q, &x))
		return err_new(ERR_MALFORMED, "%.64s is not a quantity; write it like 500m or 2Gi",
			       str_or(json_str(q), "value"));
	*ret = quantity_milli(&x);
	return NULL;
}

bool quantity_equal(const struct json *a, const struct json *b)
{
	struct quantity x, y;

	return quantity_read(a, &x) && quantity_read(b, &y) && x.nano == y.nano;
}

struct quantity quantity_of(int64_t n)
{
	return (struct quantity){ .nano = (nano)n * 1000000000 };
}

void quantity_add(struct quantity *a, const struct quantity *b)
{
	if (!a->nano)
		a->form = b->form;
	a->nano += b->nano;
}

void quantity_sub(struct quantity *a, const struct quantity *b)
{
	if (!a->nano)
		a->form = b->form;
	a->nano -= b->nano;
}

int quantity_cmp(const struct quantity *a, const struct quantity *b)
{
	return (a->nano > b->nano) - (a->nano < b->nano);
}

struct quantity quantity_ceil(const struct quantity *q)
{
	return (struct quantity){ divide_up(q->nano, 1000000000) * 1000000000, q->form };
}

/* 1024 and above in powers of 1024; below that, the binary form has no suffix and is the decimal
 * one. */
static void write_binary(nano v, char ret[QUANTITY_TEXT_MAX])
{
	size_t i = 0;

	v = divide_up(v, 1000000000);
	while (v % 1024 == 0 && i < 6) {
		v /= 1024;
		i++;
	}
	if (!i)
		(void)snprintf(ret, QUANTITY_TEXT_MAX, "%lld", (long long)v);
	else
		(void)snprintf(ret, QUANTITY_TEXT_MAX, "%lld%ci", (long long)v,
			       binary_suffixes[i - 1]);
}

static void write_decimal(nano v, enum quantity_form form, char ret[QUANTITY_TEXT_MAX])
{
	int i = 0;

	while (v % 1000 == 0 && i < 9) {
		v /= 1000;
		i++;
	}
	if (i == 3)
		(void)snprintf(ret, QUANTITY_TEXT_MAX, "%lld", (long long)v);
	else if (form == QUANTITY_EXPONENT)
		(void)snprintf(ret, QUANTITY_TEXT_MAX, "%llde%d", (long long)v, 3 * i - 9);
	else
		(void)snprintf(ret, QUANTITY_TEXT_MAX, "%lld%c", (long long)v, decimal_suffixes[i]);
}

void quantity_text(const struct quantity *q, char ret[QUANTITY_TEXT_MAX])
{
	const nano limit = (nano)1024 * 1000000000;
	nano v = q->nano;

	if (v > INT64_MAX || v < -INT64_MAX)
		v = divide_up(v, 1000000000) * 1000000000;
	if (!v)
		(void)snprintf(ret, QUANTITY_TEXT_MAX, "0");
	else if (q->form == QUANTITY_BINARY && (v >= limit || v <= -limit))
		write_binary(v, ret);
	else
		write_decimal(v, q->form, ret);
}

static struct json *canonical(struct json_doc *d, const struct json *q, nano unit)
{
	char text[QUANTITY_TEXT_MAX];
	struct quantity x;

	if (!quantity_read(q, &x))
		return NULL;
	if (x.nano % unit)
		x.nano = divide_up(x.nano, unit) * unit;
	quantity_text(&x, text);
	return json_new_str(d, text);
}

bool quantity_valid(const struct json *q)
{
	struct quantity x;

	return quantity_read(q, &x);
}

struct json *quantity_canonical(struct json_doc *d, const struct json *q)
{
	return canonical(d, q, 1);
}

struct json *quantity_canonical_milli(struct json_doc *d, const struct json *q)
{
	return canonical(d, q, 1000000);
}
