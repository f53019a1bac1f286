/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A Pod that could make room. */
struct evict_seen {
	int64_t used, requested; /* bytes of what is short */
	int64_t priority;
};

/*
 * Who goes first, in a kubelet's order: Pods that use more than they requested before those that do
 * not, then the least important, then the one that uses most beyond its request. n: nobody, because
 * none of them uses anything.
 */
size_t evict_choose(const struct evict_seen *list, size_t n);
