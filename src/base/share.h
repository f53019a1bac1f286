/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Shares of a limited number of places: whoever has `mine` of the `all` that are taken may have one
 * more while fewer are his than are still free. One takes half of them at most, and the next always
 * finds some.
 */
static inline bool share_has_room(size_t mine, size_t all, size_t max)
{
	return all < max && mine < max - all;
}
