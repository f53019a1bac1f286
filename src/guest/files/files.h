/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct face;
struct http_request;

/* Handlers. tail is the decoded path after the route's name; they answer r. */
void upload_serve(struct face *f, struct http_request *r, const char *tail);
void download_serve(struct face *f, struct http_request *r, const char *tail);
void list_serve(struct face *f, struct http_request *r, const char *tail);
void exists_serve(struct face *f, struct http_request *r, const char *tail);
void rest_files_serve(struct face *f, struct http_request *r, const char *tail);
void archive_serve(struct face *f, struct http_request *r, const char *tail);
void rest_watch_serve(struct face *f, struct http_request *r, const char *tail);
void rest_health_serve(struct face *f, struct http_request *r, const char *tail);
void rest_metadata_serve(struct face *f, struct http_request *r, const char *tail);
