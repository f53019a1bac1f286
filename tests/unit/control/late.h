/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct client;
struct loop;

/*
 * A client whose writes happen one turn of the loop later and end one more turn later, as they do
 * over a network; everything else is the client it stands before, which it frees.
 */
struct client *late_client(struct loop *l, struct client *inner);
