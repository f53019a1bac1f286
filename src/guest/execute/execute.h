/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct face;
struct http_request;

/* Handlers. tail is the decoded path after the route's name; they answer r. */
void execute_serve(struct face *f, struct http_request *r, const char *tail);
void processes_serve(struct face *f, struct http_request *r, const char *tail);
void exec_ws_serve(struct face *f, struct http_request *r, const char *tail);
