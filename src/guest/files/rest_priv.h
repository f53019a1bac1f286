/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct err;
struct face;
struct http_request;

/* What the files of the sandboxd REST API share. */

/* The answer to what went wrong with a path; e is freed. */
void rest_absent(struct http_request *r, struct err *e);
/* As strconv.ParseBool of Go reads it; NULL is false. False: it is none of these words. */
bool rest_bool(const char *text, bool *ret);
/* archive_put.c */
void archive_put_serve(struct face *f, struct http_request *r, const char *tail);
/* rest_put.c */
void rest_put_serve(struct face *f, struct http_request *r, const char *tail);
