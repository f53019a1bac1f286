/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/mem.h"

struct base;
struct spawn;

/* What a member of a request should have been. */
struct complaint {
	const char *type, *msg; /* in the words of the framework that callers know */
	const char *field;      /* NULL: the body as a whole */
	const char *below;      /* the member of field that is wrong; NULL: field itself */
	const json_t *input;
};

/* Members that a request may leave out. False: ret says what is wrong. */
bool member_is(const json_t *body, const char *name, json_type type, struct complaint *ret);
bool member_bool(const json_t *body, const char *name, bool *ret, struct complaint *bad);
/* A number greater than 0. *ret is left alone if there is none. */
bool member_positive(const json_t *body, const char *name, double *ret, struct complaint *bad);

/*
 * In what surroundings a program runs: "env" and "cwd" of a request, and its input. The directory
 * is held by a descriptor, so it stays what was checked whatever is renamed meanwhile.
 */
struct setting {
	const char **env; /* NULL: the container's as it is */
	char **owned;     /* the strings that were added to it */
	char *cwd;        /* as asked for; NULL: the base directory */
	int cwd_fd;       /* -1: none */
	int input;        /* -1: none */
};

bool setting_check(const json_t *body, struct complaint *ret);
/* After setting_check(). ERR_FORBIDDEN: the directory is outside the base. */
must_use struct err *setting_open(const char *base, const char *const *env, const json_t *body,
				  struct setting *ret);
/* Text that will be there to be read, and then its end. */
must_use struct err *setting_give_input(struct setting *s, const char *text, size_t len);
void setting_apply(const struct setting *s, struct spawn *spec);
void setting_done(struct setting *s);
