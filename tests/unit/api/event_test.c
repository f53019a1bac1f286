/* SPDX-License-Identifier: Apache-2.0 */
#include "api/event.h"

#include "api/meta.h"
#include "api/object.h"
#include "api_test.h"
#include "base/mem.h"
#include "kinds.h"

TEST(the_name_of_an_event_fits_and_differs_each_time)
{
	autoptr(json_doc) d = json_doc_new();
	char about[254];
	const char *a, *b;

	memset(about, 'x', 253);
	about[253] = '\0';
	a = json_str(event_name(d, about));
	b = json_str(event_name(d, about));
	is_true(!meta_bad_dns_subdomain(a));
	is_true(!str_eq(a, b));
}

TEST(the_text_of_an_event_is_cut_between_characters)
{
	autoptr(json_doc) d = json_doc_new();
	char text[2001];

	for (size_t i = 0; i < 2000; i++)
		text[i] = "\xc3\xa4"[(i + 1) % 2];
	text[0] = 'x'; /* so that byte 1024 is inside a character */
	text[2000] = '\0';
	eq_int(strlen(json_str(event_text(d, text))), 1023);
	eq_str(json_str(event_text(d, "short")), "short");
}

TEST(an_event_of_the_node_says_what_it_is_about_and_where_it_was)
{
	autoptr(object) node =
		object_new(kind_named("Node"), doc("{'metadata':{'name':'n','uid':'n'}}"));
	autoptr(object) pod = object_new(
		kind_named("Pod"), doc("{'metadata':{'name':'p','namespace':'x','uid':'u'}}"));
	autoptr(json_doc) one = node_event_doc(&(struct node_event){
		.about = node, .warning = true, .reason = "R", .message = "m", .node = "n" });
	autoptr(json_doc) two = node_event_doc(
		&(struct node_event){ .about = pod, .reason = "R", .message = "m", .node = "n" });

	eq_json(json_at_path(json_root(one), "involvedObject"),
		"{'apiVersion':'v1','kind':'Node','name':'n','uid':'n'}");
	eq_json(json_at_path(json_root(one), "source"), "{'component':'cay-node','host':'n'}");
	eq_str(json_get_str(json_root(one), "type"), "Warning");
	eq_str(json_str(json_at_path(json_root(one), "metadata.namespace")), "default");
	eq_str(node_event_ns(node), "default");
	eq_str(json_get_str(json_root(two), "type"), "Normal");
	eq_str(json_str(json_at_path(json_root(two), "metadata.namespace")), "x");
	eq_str(json_get_str(json_root(two), "lastTimestamp"), "1970-01-01T00:00:00Z");
}
