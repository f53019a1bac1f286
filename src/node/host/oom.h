/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Whom the kernel kills when memory is out: sandboxes first, the daemon and its launchers last.
 * Children inherit the score.
 */
enum {
	OOM_DAEMON = -900,
	OOM_GUARANTEED = 100, /* of sandboxes, by their quality of service; all are above 0 */
	OOM_BURSTABLE_MIN = 101,
	OOM_BURSTABLE_MAX = 999,
	OOM_BEST_EFFORT = 1000,
};

/*
 * Sets the score of this process. Raising it always works; lowering it takes CAP_SYS_RESOURCE in
 * the host's user namespace (ERR_FORBIDDEN or ERR_SYS without it). With that capability, the score
 * is also the least that the process and its children can give themselves from then on.
 *
 * A diagnosis can ask with OOM_DAEMON whether the daemon could protect itself here.
 */
must_use struct err *oom_score(int score);
