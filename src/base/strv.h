/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists of texts that end with NULL. */

char **strv_copy(const char *const *list); /* of NULL, an empty list */
void strv_free(char **list);               /* with its texts; NULL is fine */
