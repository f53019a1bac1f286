/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/decode.h"
#include "api/encode.h"
#include "api/kind.h"
#include "api/registry.h"
#include "base/buf.h"
#include "base/parse.h"
#include "full.h"

/*
 * Prints a full and an empty object of every type that has a protobuf message, as JSON TAB BASE64,
 * for comparison with what other implementations make of the same JSON.
 */
static int show_one(const struct type *t, const struct encode_name *name, struct json_doc *tree)
{
	const struct decode_input in = { .media = DECODE_TREE, .tree = tree };
	autofree char *text = NULL, *b64 = NULL;
	autoptr(json_doc) d = NULL;
	autobuf out = { 0 };
	struct err *e = schema_decode(t, &in, NULL, &d);

	if (e) {
		(void)fprintf(stderr, "%s: %s\n", name->kind, err_text(e));
		err_free(e);
		return 1;
	}
	encode_object(name, json_root(d), t, &out);
	text = json_to_text(json_root(d));
	b64 = base64_encode(buf_head(&out), out.len, false);
	(void)printf("%s\t%s\n", text, b64);
	return 0;
}

static int show(const struct type *t, const char *api_version, const char *kind)
{
	const struct encode_name name = { api_version, kind };
	struct json_doc *empty = json_doc_new();

	json_set_root(empty, json_obj(empty));
	json_set_str(empty, json_root(empty), "apiVersion", api_version);
	json_set_str(empty, json_root(empty), "kind", kind);
	return show_one(t, &name, full_object(t, api_version, kind)) | show_one(t, &name, empty);
}

static int show_kinds(void)
{
	struct kinds *kinds = kinds_new();
	const struct kind *const *all;
	int failed = 0;
	size_t n;

	all = kinds_all(kinds, &n);
	for (size_t i = 0; i < n; i++)
		if (encode_has_protobuf(all[i]->type))
			failed |= show(all[i]->type, kind_api_version(all[i]), all[i]->kind);
	kinds_free(kinds);
	return failed;
}

int main(void)
{
	int failed = show_kinds();

	failed |= show(body_scale, "autoscaling/v1", "Scale");
	failed |= show(body_token_request, "authentication.k8s.io/v1", "TokenRequest");
	failed |= show(body_eviction, "policy/v1", "Eviction");
	failed |= show(body_token_review, "authentication.k8s.io/v1", "TokenReview");
	failed |= show(body_access_review, "authorization.k8s.io/v1", "SubjectAccessReview");
	failed |= show(encode_status, "v1", "Status");
	return failed;
}
