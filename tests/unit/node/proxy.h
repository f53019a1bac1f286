/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/client.h"

/*
 * A client in front of another, for what a test wants to see or to delay: it counts patches, lets
 * them fail or keeps their ends back, and keeps back the end of a sync.
 */
struct proxy {
	struct client *inner; /* owned */
	unsigned n_patches;
	bool patches_fail, hold_patches, hold_syncs;
	struct client_waiter patch, sync; /* whose end is kept back: one of each */
	bool patch_held, sync_held;
};

struct client *proxy_client(struct proxy *p, struct client *inner);
void proxy_let_go(struct proxy *p); /* whatever is kept back ends now */
