/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/macros.h"

/* Strings: predicates on them, and spans of text that own no memory. */
struct span {
	const char *p;
	size_t len;
};
#define SPAN(s) ((struct span){ (s), strlen(s) })

static inline bool str_eq(const char *a, const char *b) /* NULL equals only NULL */
{
	return a == b || (a && b && !strcmp(a, b));
}
static inline const char *str_or(const char *s, const char *other) /* other if s is NULL or "" */
{
	return s && *s ? s : other;
}
bool str_empty(const char *s); /* NULL or "" */
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
bool str_eq_nocase(const char *a, const char *b);    /* ASCII only */
bool str_in(const char *s, const char *const *list); /* list ends with NULL */
/* A list of n texts, const or not, in the order of their bytes. */
void str_sort(void *list, size_t n);

bool span_eq(struct span s, const char *other);
bool span_eq_nocase(struct span s, const char *other);
struct span span_trim(struct span s); /* removes spaces and tabs */
/* The part before the first sep; *rest is what follows it (its p is NULL if there was no sep). */
struct span span_cut(struct span s, char sep, struct span *rest);

bool utf8_valid(const char *s, size_t len);
/* Number of bytes before the first that is not UTF-8. */
size_t utf8_prefix(const char *s, size_t len);
