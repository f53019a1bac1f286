/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* Settings that both routers have, under names of their own: flag is what an error calls one. */

/* The secret that scoped tokens are made with, without the white space around it, malloc'd. */
must_use struct err *ways_read_secret(const char *flag, const char *path, char **ret);
/* ERR_INVALID: no requests can be routed by such a prefix of their paths. */
must_use struct err *ways_check_prefix(const char *flag, const char *prefix);
