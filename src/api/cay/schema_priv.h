/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"

/* The whole objects of the kinds of cay.dev. */
extern const struct type type_agent, type_session, type_attachment, type_approval, type_budget,
	type_credential, type_trigger, type_team_policy, type_ledger;

/* formats.c: what is wrong with a text, or NULL. Each says the same as the pattern beside it. */
const char *check_name(const struct json *v);
const char *check_pattern(const struct json *v);
const char *check_host(const struct json *v);
const char *check_duration(const struct json *v);
const char *check_key(const struct json *v);
const char *check_digest(const struct json *v);
const char *check_method(const struct json *v);
const char *check_header(const struct json *v);
const char *check_query(const struct json *v);
const char *check_printable(const struct json *v);
const char *check_jsonpath(const struct json *v);
const char *check_secret_key(const struct json *v);

#define NAME_PATTERN     "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
#define PATTERN_PATTERN  "^[^*]*\\*?[^*]*$"
#define DURATION_PATTERN "^([0-9]+(\\.[0-9]+)?(ms|us|s|m|h))+$"
#define KEY_PATTERN      "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$"
#define DIGEST_PATTERN   "^(sha256:)?[0-9a-f]{64}$"
#define METHOD_PATTERN   "^[A-Z]+$"
#define HEADER_PATTERN   "^[A-Za-z0-9][-A-Za-z0-9_]*$"
#define QUERY_PATTERN    "^[-A-Za-z0-9_.~]+$"
#define PRINT_PATTERN    "^[ -~]*$"
#define SECRET_PATTERN   "^[-._a-zA-Z0-9]+$"
#define HOST_LABEL       "[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?"
#define HOST_PATTERN                                         \
	"^(\\*|(\\*\\.)?" HOST_LABEL "(\\." HOST_LABEL ")*|" \
	"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)$"
