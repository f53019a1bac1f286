/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "json/json.h"

/*
 * Selectors: labels ("a=b,c in (d,e),!f") and fields ("metadata.name=x,status.phase!=Running") by
 * text.
 */
struct selector;

must_use struct err *selector_parse_labels(const char *text,
					   struct selector **ret); /* "" matches all */
must_use struct err *selector_parse_fields(const char *text, struct selector **ret);
void selector_free(struct selector *s);
AUTOPTR(selector)
bool selector_matches_labels(const struct selector *s,
			     const struct json *labels); /* s NULL matches all */
bool selector_matches_fields(const struct selector *s, const struct json *obj);
/* The value that the selector requires this field or label to have, NULL when it requires none (for
 * look-ups by metadata.name). */
const char *selector_wants(const struct selector *s, const char *key);
/* The key of the i-th requirement, NULL after the last: a server refuses fields it does not index.
 */
const char *selector_key(const struct selector *s, size_t i);
/* From now on the i-th requirement reads this key: the path of the field in stored objects. */
void selector_set_key(struct selector *s, size_t i, const char *key);

/* A LabelSelector, as in specs. otherwise: the answer where an operator is not known. */
bool label_selector_matches(const struct json *selector, const struct json *labels, bool otherwise);
/* The same as in a URL: a=b,c in (d,e),!f. Nothing for one that selects everything. */
void label_selector_text(const struct json *selector, struct buf *out);
