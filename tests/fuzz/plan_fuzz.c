/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "node/launch/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/*
 * The launcher reads a plan as root. Whatever is accepted has only absolute paths, and is the same
 * plan after it was written and read once more.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autoptr(arena) a = arena_new();
	struct plan p, again;
	autoclose fd = -1;
	autoptr(err) e = plan_from_text((const char *)data, len, a, &p);

	if (e)
		return 0;
	for (size_t i = 0; i < p.n_mounts; i++)
		if (*p.mounts[i].to != '/' || (!p.mounts[i].memory && *p.mounts[i].from != '/'))
			abort();
	e = plan_to_memfd(&p, &fd);
	if (!e)
		e = plan_from_fd(fd, a, &again);
	if (e || again.n_mounts != p.n_mounts || !plan_image_equal(&p.image, &again.image) ||
	    p.limits.memory != again.limits.memory || !p.hostname != !again.hostname)
		abort();
	return 0;
}
