/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/pages/pages_priv.h"

/*
 * How others check the tokens of service accounts by themselves: who issues them, and the public
 * half of the key that signs them (OpenID Connect Discovery 1.0). Service accounts may read it.
 */
void issuer_show(struct pages *ps, struct call *c)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "issuer", ps->issuer);
	(void)json_set(d, o, "jwks_uri",
		       json_new_strf(d, "https://%s/openid/v1/jwks", str_or(ps->address, "")));
	json_push_str(d, json_need_arr(d, o, "response_types_supported"), "id_token");
	json_push_str(d, json_need_arr(d, o, "subject_types_supported"), "public");
	json_push_str(d, json_need_arr(d, o, "id_token_signing_alg_values_supported"), "ES256");
	call_reply_json(c, STATUS_OK, d);
}

void issuer_show_keys(struct pages *ps, struct call *c)
{
	autobuf b = { 0 };

	buf_add_str(&b, ps->jwks);
	call_reply_text(c, STATUS_OK, "application/jwk-set+json", &b);
}
