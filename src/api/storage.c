/* SPDX-License-Identifier: Apache-2.0 */
#include "api/storage.h"

#include "base/str.h"
#include "json/json.h"

static bool is_default(const struct json *class)
{
	const struct json *notes = json_at_path(class, "metadata.annotations");

	return str_eq(json_get_str(notes, STORAGE_DEFAULT_CLASS), "true");
}

/* The newest, and of two that are as old, the one whose name comes first. Times compare as text. */
bool storage_class_leads(const struct json *a, const struct json *b)
{
	const struct json *x = json_get(a, "metadata"), *y = json_get(b, "metadata");
	int order;

	if (!is_default(a) || !b)
		return is_default(a);
	order = strcmp(str_or(json_get_str(x, "creationTimestamp"), ""),
		       str_or(json_get_str(y, "creationTimestamp"), ""));
	if (order)
		return order > 0;
	return strcmp(str_or(json_get_str(x, "name"), ""), str_or(json_get_str(y, "name"), "")) < 0;
}

const char *storage_claim_class(const struct json *claim)
{
	const struct json *notes = json_at_path(claim, "metadata.annotations");
	const char *old = json_get_str(notes, "volume.beta.kubernetes.io/storage-class");

	return old ? old : json_get_str(json_get(claim, "spec"), "storageClassName");
}

const char *storage_handle(const struct json *volume)
{
	const struct json *csi = json_at_path(volume, "spec.csi");

	return str_eq(json_get_str(csi, "driver"), STORAGE_DRIVER)
		       ? json_get_str(csi, "volumeHandle")
		       : NULL;
}
