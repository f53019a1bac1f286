/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema.h"

/* The types without fields, shared by all tables. Some have names that clients show. */
#define MACHINERY "io.k8s.apimachinery.pkg."

const struct type type_string = { TYPE_STRING };
const struct type type_bool = { TYPE_BOOL };
const struct type type_int32 = { TYPE_INT32 };
const struct type type_int64 = { TYPE_INT64 };
const struct type type_number = { TYPE_NUMBER };
const struct type type_int_or_string = { TYPE_INT_OR_STRING, MACHINERY "util.intstr.IntOrString" };
const struct type type_quantity = { TYPE_QUANTITY, MACHINERY "api.resource.Quantity" };
const struct type type_time = { TYPE_TIME, MACHINERY "apis.meta.v1.Time" };
const struct type type_micro_time = { TYPE_MICRO_TIME, MACHINERY "apis.meta.v1.MicroTime" };
const struct type type_duration = { TYPE_STRING, MACHINERY "apis.meta.v1.Duration",
				    .form = FORM_DURATION };
const struct type type_bytes = { TYPE_BYTES };
const struct type type_any = { TYPE_ANY };
const struct type type_string_map = { TYPE_MAP, .elem = &type_string };
const struct type type_string_list = { TYPE_LIST, .elem = &type_string };
