/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay/read_priv.h"
#include "base/parse.h"
#include "base/str.h"

const char *read_text(const struct json *obj, const char *key)
{
	return str_or(json_get_str(obj, key), "");
}

const char *const *read_texts(const struct json *list, struct arena *a,
			      const char *const *otherwise)
{
	const char **ret;
	size_t n = 0;

	if (!json_is(list, JSON_ARR))
		return otherwise;
	ret = arena_new_n(a, const char *, json_len(list) + 1);
	json_each(it, list)
		if (json_str(it.val))
			ret[n++] = json_str(it.val);
	return ret;
}

usec read_duration(const struct json *obj, const char *key, usec otherwise)
{
	const char *text = json_get_str(obj, key);
	struct err *e;
	uint64_t ms;

	if (!text)
		return otherwise;
	e = parse_duration_ms(text, &ms);
	if (!e)
		return (usec)(ms * 1000);
	err_free(e); /* the schema accepts only durations */
	return otherwise;
}

int read_word(const struct json *obj, const char *key, const char *const *names, int otherwise)
{
	const char *text = json_get_str(obj, key);

	for (int i = 0; text && names[i]; i++)
		if (str_eq(text, names[i]))
			return i;
	return otherwise;
}
