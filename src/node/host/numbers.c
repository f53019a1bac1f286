/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/numbers.h"

#include <assert.h>

#include "base/mem.h"

/*
 * Addresses and id ranges. The search goes round, so a number that was just returned is the last to
 * be given out again: by then nothing refers to its old owner any more.
 */
struct numbers {
	unsigned first, n, next, taken;
	bool *used;
};

struct numbers *numbers_new(unsigned first, unsigned n)
{
	struct numbers *s = xnew(struct numbers);

	s->first = first;
	s->n = n;
	s->used = xnew_n(bool, n);
	return s;
}

void numbers_free(struct numbers *s)
{
	if (!s)
		return;
	free(s->used);
	free(s);
}

bool numbers_take(struct numbers *s, unsigned *ret)
{
	if (s->taken == s->n)
		return false;
	while (s->used[s->next])
		s->next = (s->next + 1) % s->n;
	s->used[s->next] = true;
	s->taken++;
	*ret = s->first + s->next;
	s->next = (s->next + 1) % s->n;
	return true;
}

bool numbers_reserve(struct numbers *s, unsigned v)
{
	if (v < s->first || v - s->first >= s->n || s->used[v - s->first])
		return false;
	s->used[v - s->first] = true;
	s->taken++;
	return true;
}

void numbers_put(struct numbers *s, unsigned v)
{
	assert(v >= s->first && v - s->first < s->n && s->used[v - s->first]);
	s->used[v - s->first] = false;
	s->taken--;
}

void numbers_start_at(struct numbers *s, unsigned v)
{
	s->next = v % s->n;
}
