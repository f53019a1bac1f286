/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "control/index/index.h"

/* Between index.c, which owns the maps, and roster.c, which fills two of them. */
struct node_count {
	unsigned n;
};

struct map *index_rosters(struct index *ix);
struct map *index_members(struct index *ix);
uint64_t index_next_seq(struct index *ix);
void roster_drop(void *roster);
void member_drop(void *member);
bool member_follow(struct index *ix, struct object *was, struct object *now,
		   struct roster **ret_roster);
