/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct buf;

/*
 * What turns one text of sets, maps and chains into another, as commands of nft for a table that
 * has the first: only elements that differ are named, and only chains whose rules differ are
 * written anew. False: they are not written as struct firewall_rules wants them, or differ in more
 * than that.
 */
bool firewall_delta(const char *table, const char *was, const char *now, struct buf *out);
