/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* Whether the machine is being shut down or restarted, as systemd says; false where there is no
 * systemd. It asks another program: not for the loop. */
bool machine_is_stopping(void);
