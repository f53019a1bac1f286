/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/oom.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/file.h"

struct err *oom_score(int score)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%d", score);
	return err_wrap(file_write(AT_FDCWD, "/proc/self/oom_score_adj", text),
			"set the score for the OOM killer to %d", score);
}
