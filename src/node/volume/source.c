/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"
#include "base/str.h"
#include "client/client.h"
#include "node/volume/volume_priv.h"

/* ConfigMaps and Secrets, where files and environment variables come from. */

const char *source_noun(bool secret)
{
	return secret ? "secret" : "configmap";
}

struct object *source_object(struct volumes *v, const char *ns, const char *name, bool secret)
{
	return str_empty(name)
		       ? NULL
		       : client_get(v->spec.client, secret ? v->secret : v->config_map, ns, name);
}

/* Only a change of the object can help, so its value counts as not available. */
static struct err *decode(const char *text, void **ret, size_t *ret_len)
{
	struct err *e = base64_decode(text, false, ret, ret_len);

	return e ? err_recode(e, ERR_UNAVAILABLE) : NULL;
}

struct err *source_value(const struct object *o, bool secret, const char *key, char **ret,
			 size_t *ret_len)
{
	const char *text = json_get_str(json_get(o->root, "data"), key);
	void *bytes = NULL;
	struct err *e;

	*ret = NULL;
	if (!text)
		return NULL;
	if (!secret) {
		*ret = xstrdup(text);
		*ret_len = strlen(text);
		return NULL;
	}
	e = decode(text, &bytes, ret_len);
	*ret = bytes;
	return err_wrap(e, "decode key \"%s\" of secret \"%s\"", key, o->name);
}

struct err *source_binary(const struct object *o, const char *key, void **ret, size_t *ret_len)
{
	const char *text = json_get_str(json_get(o->root, "binaryData"), key);

	*ret = NULL;
	return text ? err_wrap(decode(text, ret, ret_len), "decode key \"%s\" of configmap \"%s\"",
			       key, o->name)
		    : NULL;
}
