/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kind.h"

struct causes;
struct json;
struct json_doc;

/* The kinds of cay.dev, for the list of all of them in api/kinds.c. */
extern const struct kind kind_agent, kind_session, kind_attachment, kind_approval, kind_budget,
	kind_credential, kind_trigger, kind_team_policy, kind_ledger;

/* columns.c: each ends with a NULL name. */
extern const struct column columns_agent[], columns_session[], columns_attachment[],
	columns_approval[], columns_budget[], columns_credential[], columns_trigger[],
	columns_team_policy[], columns_ledger[];

/* validate.c: rules that a schema cannot express, and the default of an Attachment's rights. */
void defaults_attachment(struct json_doc *d, const struct json *old);
void validate_agent(const struct json *obj, const struct json *old, struct causes *c);
void validate_session(const struct json *obj, const struct json *old, struct causes *c);
void validate_attachment(const struct json *obj, const struct json *old, struct causes *c);
void validate_approval(const struct json *obj, const struct json *old, struct causes *c);
void validate_approval_status(const struct json *obj, const struct json *old, struct causes *c);
void validate_budget(const struct json *obj, const struct json *old, struct causes *c);
void validate_credential(const struct json *obj, const struct json *old, struct causes *c);
void validate_team_policy(const struct json *obj, const struct json *old, struct causes *c);
