/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* ERR_NOT_FOUND: an instance lived in data_dir, and its store is missing. */
must_use struct err *presence_check(const char *data_dir);
