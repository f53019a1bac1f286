/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct http_request;
struct stat;

/* Sends a regular file, or the part of it that r asks for; takes fd. */
struct file_answer {
	int fd;
	const struct stat *st;
	const char *name; /* for Content-Disposition; NULL: none */
	bool conditions;  /* If-None-Match and its kin are obeyed */
};
void file_send(struct http_request *r, const struct file_answer *a);
