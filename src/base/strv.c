/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strv.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"

char **strv_copy(const char *const *list)
{
	size_t n = 0;
	char **copy;

	while (list && list[n])
		n++;
	copy = xnew_n(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

void strv_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}
