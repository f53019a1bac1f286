/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct admit;
struct authoriser;
struct call;
struct keys;
struct route;

/*
 * Credentials of users, below /cay/v1/users: POST makes one, GET lists them, DELETE of a name ends
 * it at once.
 */
struct users {
	struct admit *admit;
	const struct authoriser *by;
	const struct keys *keys;
};
bool users_path(const struct route *r); /* it is about them */
void users_answer(const struct users *u, struct call *c);
