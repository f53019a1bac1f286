/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct call;
struct objects;

/* Answer a call, from the newest committed revision. */
void read_get(const struct objects *os, struct call *c);
void read_list(const struct objects *os, struct call *c);
