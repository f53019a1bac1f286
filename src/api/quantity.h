/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct json;
struct json_doc;

/*
 * Quantities that are added up and compared: exact in billionths, and written as Kubernetes writes
 * them. Sums of what quantity_read() has read cannot overflow.
 */
enum quantity_form {
	QUANTITY_DECIMAL,
	QUANTITY_BINARY,
	QUANTITY_EXPONENT,
};

struct quantity {
	__int128 nano;
	enum quantity_form form;
};

enum {
	QUANTITY_TEXT_MAX = 48,
};

bool quantity_read(const struct json *q, struct quantity *ret); /* false: it is none */
struct quantity quantity_of(int64_t n);
/* A sum keeps the form of a, unless that is zero. */
void quantity_add(struct quantity *a, const struct quantity *b);
void quantity_sub(struct quantity *a, const struct quantity *b);
int quantity_cmp(const struct quantity *a, const struct quantity *b);
/* In thousandths, rounded up; clamped to what an int64_t holds. */
int64_t quantity_milli(const struct quantity *q);
/* Rounded up to a whole number. */
struct quantity quantity_ceil(const struct quantity *q);
void quantity_text(const struct quantity *q, char ret[QUANTITY_TEXT_MAX]);
