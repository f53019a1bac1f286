/* SPDX-License-Identifier: Apache-2.0 */
#include "node/access/session_priv.h"

bool cri_parse(struct span line, struct cri_line *ret)
{
	struct span rest, stream, tag;

	ret->time = span_cut(line, ' ', &rest);
	if (!rest.p || ret->time.len < 20)
		return false;
	stream = span_cut(rest, ' ', &rest);
	if (!rest.p || (!span_eq(stream, "stdout") && !span_eq(stream, "stderr")))
		return false;
	tag = span_cut(rest, ' ', &rest);
	if (!rest.p || (!span_eq(tag, "F") && !span_eq(tag, "P")))
		return false;
	ret->is_stderr = stream.p[3] == 'e';
	ret->partial = *tag.p == 'P';
	ret->text = rest;
	return true;
}
