/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/leftover.h"

#include <errno.h>
#include <signal.h>

#include "base/parse.h"
#include "base/str.h"

bool is_leftover(const char *name, const char *prefix)
{
	int64_t pid = 0;

	if (!str_starts(name, prefix))
		return false;
	err_free(parse_int(name + strlen(prefix), 1, INT32_MAX, &pid));
	return pid && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}
