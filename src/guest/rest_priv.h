/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct err;
struct face;
struct http_request;

/* What the files of the sandboxd REST API share. */

/* The answer to what went wrong with a path; e is freed. */
void rest_absent(struct http_request *r, struct err *e);
/* rest_put.c */
void rest_put_serve(struct face *f, struct http_request *r, const char *tail);
