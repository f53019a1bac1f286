/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "server/policy/security_priv.h"

/* What the rules of Pod Security share: lists of names, and ways through a Pod. */
enum {
	WORDS_MAX = 1 << 16, /* names in one list; a Pod is smaller */
};

void words_done(struct words *w)
{
	free(w->list);
}

void words_add(struct words *w, const char *text)
{
	if (w->n == WORDS_MAX)
		return;
	if (w->n == w->room) {
		w->room = w->room ? 2 * w->room : 8;
		w->list = xrealloc(w->list, w->room * sizeof(*w->list));
	}
	w->list[w->n++] = str_or(text, "");
}

/* In order, and each once. */
void words_sort(struct words *w)
{
	size_t n = 0;

	if (w->n)
		str_sort(w->list, w->n);
	for (size_t i = 0; i < w->n; i++)
		if (!n || !str_eq(w->list[n - 1], w->list[i]))
			w->list[n++] = w->list[i];
	w->n = n;
}

void add_words(struct buf *b, const struct words *w, bool quoted)
{
	for (size_t i = 0; i < w->n; i++)
		buf_printf(b, quoted ? "%s\"%s\"" : "%s%s", i ? ", " : "", w->list[i]);
}

/* container "a" / containers "a", "b" */
void add_named(struct buf *b, const char *what, const struct words *w)
{
	buf_printf(b, "%s%s ", what, w->n == 1 ? "" : "s");
	add_words(b, w, true);
}

/* pod and containers "a", "b" */
void add_setters(struct buf *b, bool pod, const struct words *containers)
{
	if (pod)
		buf_add_str(b, containers->n ? "pod and " : "pod");
	if (containers->n)
		add_named(b, "container", containers);
}

const struct json *next_container(const struct subject *s, struct place *at)
{
	static const char *const lists[] = { "initContainers", "containers",
					     "ephemeralContainers" };

	for (; at->list < ARRAY_LEN(lists); at->list++, at->i = 0) {
		const struct json *list = json_get(s->spec, lists[at->list]);

		if (at->i < json_len(list))
			return json_at(list, at->i++);
	}
	return NULL;
}
const struct json *context(const struct json *of, const char *member)
{
	return json_get(json_get(of, "securityContext"), member);
}

const char *name_of(const struct json *container)
{
	return json_get_str(container, "name");
}

bool is_windows(const struct subject *s)
{
	return s->version >= V_WINDOWS &&
	       str_eq(json_get_str(json_get(s->spec, "os"), "name"), "windows");
}

/* Its root is nobody outside. */
bool has_user_space(const struct subject *s)
{
	return s->version >= V_USER_SPACES && !json_get_bool(s->spec, "hostUsers", true);
}
