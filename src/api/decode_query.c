/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/decode_priv.h"
#include "base/parse.h"
#include "base/str.h"

/* The parameters of a URL as options, read as Kubernetes' parameter codec reads them. */

/* Absent, "0" and "false" are false; anything else, even the empty text, is true. */
static struct json *bool_of(struct json_doc *d, const char *text)
{
	return json_new_bool(d, !str_eq(text, "0") && !str_eq_nocase(text, "false"));
}

static struct err *int_of(struct json_doc *d, const char *text, struct json **ret)
{
	const char *digits = text + (*text == '-' || *text == '+');
	bool number = *digits && !digits[strspn(digits, "0123456789")];
	int64_t value = 0;
	struct err *e = parse_int(*text == '+' ? digits : text, INT64_MIN, INT64_MAX, &value);

	if (e) {
		err_free(e);
		return err_new(ERR_MALFORMED, "strconv.ParseInt: parsing \"%s\": %s", text,
			       number ? "value out of range" : "invalid syntax");
	}
	*ret = json_new_int(d, value);
	return NULL;
}

static struct json *list_of(struct json_doc *d, const struct decode_query *q, const char *name)
{
	struct json *list = json_arr(d);
	const char *text;

	for (size_t i = 0; (text = q->get(q->arg, name, i)); i++)
		json_push_str(d, list, text);
	return list;
}

static struct err *param_of(struct json_doc *d, const struct decode_query *q, const struct field *f,
			    struct json **ret)
{
	const char *text = q->get(q->arg, f->name, 0);

	*ret = NULL;
	if (!text)
		return NULL;
	switch (f->type->kind) {
	case TYPE_BOOL:
		*ret = bool_of(d, text);
		return NULL;
	case TYPE_INT64:
		return int_of(d, text, ret);
	case TYPE_LIST:
		*ret = list_of(d, q, f->name);
		return NULL;
	case TYPE_STRING:
		*ret = json_new_str(d, text);
		return NULL;
	case TYPE_INT32:
	case TYPE_NUMBER:
	case TYPE_INT_OR_STRING:
	case TYPE_QUANTITY:
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
	case TYPE_BYTES:
	case TYPE_OBJECT: /* preconditions come in a body */
	case TYPE_MAP:
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		break;
	}
	return NULL;
}

struct err *schema_decode_query(const struct type *t, const struct decode_query *q,
				struct json_doc **ret)
{
	struct json_doc *d = json_doc_new();
	struct err *e = NULL;
	struct json *v;

	json_set_root(d, json_obj(d));
	for (const struct field *f = t->fields; f->name && !e; f++) {
		if (f->embed)
			continue; /* apiVersion and kind */
		e = param_of(d, q, f, &v);
		if (!e && v)
			json_add(d, json_root(d), f->name, v);
	}
	if (e) {
		json_doc_free(d);
		return e;
	}
	return schema_decode(t, &(struct decode_input){ .media = DECODE_TREE, .tree = d }, NULL,
			     ret);
}
