/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* For the first process of a container, pid 1: serves in a child, and returns with that one's exit
 * code. Before there are threads. */
must_use struct err *first_process_serve(int *ret_code);
