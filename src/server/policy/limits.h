/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct json;
struct json_doc;
struct objects;

/* LimitRanges: what each Pod and each claim of a namespace may use. */

/* Fills in what the containers of a new Pod leave open. False: nothing is to be filled in. */
bool limits_fill(const struct objects *os, const char *ns, struct json_doc *pod);
/* NULL, or why the LimitRanges are against it, in the words of Kubernetes, malloc'd. */
char *limits_refuse_pod(const struct objects *os, const char *ns, const struct json *pod);
char *limits_refuse_claim(const struct objects *os, const char *ns, const struct json *claim);
