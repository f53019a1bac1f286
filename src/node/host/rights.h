/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/*
 * The rights that the node needs of the host. Root of a unit or a container may lack some: its
 * capabilities are a choice, its system calls are filtered, its control groups are read-only. `cay
 * serve` asks before it touches anything, and `cay doctor` asks the same questions. Asking changes
 * nothing.
 */
enum rights_ask {
	RIGHTS_NEEDED, /* nothing runs without them */
	RIGHTS_WANTED, /* less works without them */
};

/* Whether this process has a capability, such as CAP_SYS_ADMIN, in effect. */
bool rights_held(int cap);
/* "CAP_NET_ADMIN (networks of sandboxes), CAP_…", malloc'd; NULL: none is missing. */
char *rights_missing(enum rights_ask which);
/* How to give what is missing to a container and to a unit; malloc'd. */
char *rights_remedy(enum rights_ask which);
/* What keeps the root that we are from using its capabilities, and what to do about it; NULL:
 * nothing that can be seen. */
must_use struct err *rights_confined(void);
/* /proc/sys cannot be written, as in a container that is not privileged: no link can be made to
 * forward. */
bool rights_sysctl_read_only(void);
/* ERR_FORBIDDEN unless we are root and nothing that is needed is missing. */
must_use struct err *rights_check(void);
