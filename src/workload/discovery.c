/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "net/http_server.h"
#include "workload/workload_priv.h"

/*
 * What others check tokens with (OpenID Connect Discovery 1.0): who issues them, and the public
 * half of the key. Nothing in it is secret, and whoever checks a token has no credentials here.
 */
static char *configuration(const struct workload *w)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	const char *issuer = w->spec.issuer(w->spec.arg);

	json_set_str(d, o, "issuer", issuer);
	(void)json_set(d, o, "jwks_uri", json_new_strf(d, "%s/jwks", issuer));
	json_push_str(d, json_need_arr(d, o, "response_types_supported"), "id_token");
	json_push_str(d, json_need_arr(d, o, "subject_types_supported"), "public");
	json_push_str(d, json_need_arr(d, o, "id_token_signing_alg_values_supported"), "ES256");
	return json_to_text(o);
}

void workload_publish(struct workload *w, struct http_request *req)
{
	const char *path = http_request_path(req) + strlen(WORKLOAD_PATH);
	const char *method = http_request_method(req);
	autofree char *text = NULL;
	const char *type = "application/json";

	http_request_set_owner(req, NULL,
			       NULL); /* it was that of the server, which has let it go */
	if (str_eq(path, ".well-known/openid-configuration")) {
		text = configuration(w);
	} else if (str_eq(path, "jwks")) {
		text = xstrdup(w->spec.keys(w->spec.arg));
		type = "application/jwk-set+json";
	}
	if (!text)
		http_respond_text(req, 404, "there is nothing here");
	else if (!str_eq(method, "GET") && !str_eq(method, "HEAD"))
		http_respond_text(req, 405, "use GET");
	else
		http_respond(req, 200, NULL, (struct http_body){ type, text, strlen(text) });
}
