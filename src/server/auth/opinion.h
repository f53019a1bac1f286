/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct err;

/*
 * An act, in the terms of authorisation, and what a part of this process that knows more than roles
 * may say about it.
 */
struct server_act {
	const char *verb; /* "create", "get", "list", "delete" */
	const char *group, *plural, *ns;
	const char *name, *sub; /* NULL: none */
};
enum server_word {
	SERVER_SILENT, /* roles decide */
	SERVER_YES,
	SERVER_NO,
};
/* Asked for every act of everybody but system:masters, so it must be quick. *ret_why is set, and
 * the caller's, with SERVER_NO. Acts have "" where there is none. */
typedef enum server_word (*server_opinion)(void *arg, const char *user,
					   const struct server_act *act, struct err **ret_why);
