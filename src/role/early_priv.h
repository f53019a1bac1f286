/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/*
 * Signals that come while a start blocks and no loop turns yet. They are noted, and take effect
 * once the loop watches for them.
 */
must_use struct err *early_signals_note(int *ret_fd); /* readable from the first one on; borrowed */
void early_signals_raise(void); /* those that were noted, once each, for the loop's own watches */
