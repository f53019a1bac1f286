/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"

#include <assert.h>

#include "base/str.h"

struct kinds *test_kinds(void)
{
	static struct kinds *ks;

	if (!ks)
		ks = kinds_new();
	return ks;
}

static bool is_named(const struct kind *k, const char *name)
{
	size_t len = strlen(k->api_version);

	if (!strchr(name, ' '))
		return str_eq(k->kind, name);
	return str_starts(name, k->api_version) && name[len] == ' ' &&
	       str_eq(name + len + 1, k->kind);
}

const struct kind *kind_named(const char *name)
{
	size_t n;
	const struct kind *const *all = kinds_all(test_kinds(), &n);

	for (size_t i = 0; i < n; i++)
		if (is_named(all[i], name))
			return all[i];
	assert(!"no such kind");
	return NULL;
}
