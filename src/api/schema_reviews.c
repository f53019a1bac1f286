/* SPDX-License-Identifier: Apache-2.0 */
#include "api/decode.h"
#include "api/schema_builtin_priv.h"

/* Questions about users, which are answered and not stored: bodies, but no kinds. */
const struct type *const body_token_review = &type_authentication_token_review;
const struct type *const body_self_review = &type_authentication_self_subject_review;
const struct type *const body_access_review = &type_authorization_subject_access_review;
const struct type *const body_self_access_review = &type_authorization_self_subject_access_review;
const struct type *const body_self_rules_review = &type_authorization_self_subject_rules_review;
