/* SPDX-License-Identifier: Apache-2.0 */
#include "api/table.h"

#include "api/jsonpath.h"
#include "api_test.h"
#include "kinds.h"

static const usec minute = 60 * 1000000LL;

static void row_is(const struct kind *k, const char *object, usec now, const char *cells)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(json_doc) o = doc(object);
	struct json *t = table_new(d, k);

	table_add(d, t, &(struct table_rows){ k, TABLE_NONE, now }, json_root(o));
	eq_json(json_at_path(t, "rows.0.cells"), cells);
	eq_int(json_len(json_get(t, "columnDefinitions")),
	       json_len(json_at_path(t, "rows.0.cells")));
}

TEST(ages_are_written_like_kubectl)
{
	static const struct {
		int64_t seconds;
		const char *text;
	} rows[] = {
		{ -5, "<invalid>" },
		{ 0, "0s" },
		{ 119, "119s" },
		{ 125, "2m5s" },
		{ 240, "4m" },
		{ 3600, "60m" },
		{ 10800, "3h" },
		{ 14460, "4h1m" },
		{ 36000, "10h" },
		{ 180000, "2d2h" },
		{ 864000, "10d" },
		{ 31536000LL * 3, "3y" },
		{ 31536000LL * 3 + 86400, "3y1d" },
		{ 31536000LL * 9, "9y" },
	};
	char text[32];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		table_age(0, rows[i].seconds * 1000000, text, sizeof(text));
		eq_str(text, rows[i].text);
	}
}

TEST(json_paths_of_columns_are_followed)
{
	autoptr(json_doc) d =
		doc("{'a':{'b':[{'type':'X','v':1},{'type':'Ready','v':2}]},'c.d':3}");
	const struct json *v = json_root(d);

	eq_int(json_int(jsonpath_get(v, ".a.b[1].v"), 0), 2);
	eq_int(json_int(jsonpath_get(v, ".a.b[?(@.type=='Ready')].v"), 0), 2);
	eq_int(json_int(jsonpath_get(v, ".a.b[?(@.type==\"X\")].v"), 0), 1);
	eq_int(json_int(jsonpath_get(v, "['c.d']"), 0), 3);
	is_true(jsonpath_get(v, ".a.b[?(@.type=='No')].v") == NULL);
	is_true(jsonpath_get(v, ".a.b[9].v") == NULL);
	is_true(jsonpath_get(v, ".a.b[*") == NULL);
	is_true(jsonpath_get(v, ".a.b[?(") == NULL);
	is_true(jsonpath_get(NULL, ".a") == NULL);
}

TEST(pod_row_tells_what_hinders_it)
{
#define RUNS "{'ready':true,'restartCount':0,'state':{'running':{}}}"
	static const struct {
		const char *object, *cells;
	} rows[] = {
		{ "{'metadata':{'name':'p','creationTimestamp':'1970-01-01T00:00:00Z'},'spec':{"
		  "'containers':[{},{}],'nodeName':'n'},'status':{'phase':'Running','podIPs':[{'ip':"
		  "'10.0.0.1'}],'containerStatuses':[" RUNS ",{'restartCount':2,'lastState':{"
		  "'terminated':{'finishedAt':'1970-01-01T00:01:00Z'}},'state':{'waiting':{'reason':"
		  "'CrashLoopBackOff'}}}]}}",
		  "['p','1/2','CrashLoopBackOff','2 (2m ago)','3m','10.0.0.1','n','<none>','<none>']" },
		{ "{'metadata':{'name':'p','creationTimestamp':'1970-01-01T00:00:00Z',"
		  "'deletionTimestamp':'1970-01-01T00:01:00Z'},'spec':{'containers':[{}]},'status':{"
		  "'phase':'Running','containerStatuses':[" RUNS "]}}",
		  "['p','1/1','Terminating','0','3m','<none>','<none>','<none>','<none>']" },
		{ "{'metadata':{'name':'p'},'spec':{'containers':[{}]},'status':{'phase':'Succeeded',"
		  "'containerStatuses':[{'state':{'terminated':{'exitCode':0,'reason':'Completed'}}}]"
		  "}}",
		  "['p','0/1','Completed','0','<unknown>','<none>','<none>','<none>','<none>']" },
		{ "{'metadata':{'name':'p'},'spec':{'containers':[{}],'initContainers':[{},{}]},"
		  "'status':{'phase':'Pending','initContainerStatuses':[{'state':{'terminated':{"
		  "'exitCode':0}}},{'state':{'running':{}}}]}}",
		  "['p','0/1','Init:1/2','0','<unknown>','<none>','<none>','<none>','<none>']" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		row_is(kind_named("Pod"), rows[i].object, 3 * minute, rows[i].cells);
}

TEST(rows_of_the_agent_kinds_are_their_printer_columns)
{
	row_is(kind_named("Sandbox"),
	       "{'metadata':{'name':'s','creationTimestamp':'1970-01-01T00:00:00Z'},'status':{"
	       "'conditions':[{'type':'Suspended','status':'False'},{'type':'Ready','status':'True',"
	       "'reason':'DependenciesReady','message':'Pod is Ready'}]}}",
	       minute, "['s','True','DependenciesReady','60s','Pod is Ready']");
	row_is(kind_named("SandboxClaim"),
	       "{'metadata':{'name':'c','creationTimestamp':'1970-01-01T00:00:00Z'},'status':{"
	       "'sandbox':{'name':'pool-x'},'conditions':[{'type':'Ready','status':'False','reason':"
	       "'SandboxNotReady'}]}}",
	       minute, "['c','False','pool-x','SandboxNotReady','60s',null]");
	row_is(kind_named("SandboxWarmPool"),
	       "{'metadata':{'name':'p','creationTimestamp':'1970-01-01T00:00:00Z'},'spec':{"
	       "'replicas':3},'status':{'readyReplicas':2}}",
	       minute, "['p',2,3,'60s']");
	row_is(kind_named("SandboxTemplate"),
	       "{'metadata':{'name':'t','creationTimestamp':'1970-01-01T00:00:00Z'}}", minute,
	       "['t','60s']");
	row_is(kind_named("Sandbox"), "{'metadata':{'name':'s'}}", 0,
	       "['s',null,null,'<unknown>',null]");
}

TEST(rows_of_other_kinds_look_like_kubectl)
{
	row_is(kind_named("Service"),
	       "{'metadata':{'name':'s'},'spec':{'type':'ClusterIP','clusterIP':'None','ports':["
	       "{'port':80,'protocol':'TCP'},{'port':443,'nodePort':30000}],'selector':{'a':'b'}}}",
	       0, "['s','ClusterIP','None','<none>','80/TCP,443:30000/TCP','<unknown>','a=b']");
	row_is(kind_named("PersistentVolumeClaim"),
	       "{'metadata':{'name':'c'},'spec':{'volumeName':'v','storageClassName':'local',"
	       "'volumeMode':'Filesystem'},'status':{'phase':'Bound','capacity':{'storage':"
	       "'1024Mi'},'accessModes':['ReadWriteOnce']}}",
	       0, "['c','Bound','v','1Gi','RWO','local','<unset>','<unknown>','Filesystem']");
	row_is(kind_named("Event"),
	       "{'metadata':{'name':'e'},'involvedObject':{'kind':'Pod','name':'p'},'type':'Normal',"
	       "'reason':'Started','message':'went well\\n','lastTimestamp':'1970-01-01T00:00:30Z',"
	       "'count':2}",
	       minute, "['30s','Normal','Started','pod/p','','','went well','<unknown>',2,'e']");
	row_is(kind_named("events.k8s.io/v1 Event"),
	       "{'metadata':{'name':'e'},'regarding':{'kind':'Sandbox','name':'s'},'type':'Warning',"
	       "'reason':'R','note':'n','eventTime':'1970-01-01T00:00:30.000000Z',"
	       "'reportingController':'c'}",
	       minute, "['30s','Warning','R','sandbox/s','','c','n','30s',1,'e']");
	row_is(kind_named("Node"),
	       "{'metadata':{'name':'n','labels':{'node-role.kubernetes.io/worker':''}},'spec':{"
	       "'unschedulable':true},'status':{'conditions':[{'type':'Ready','status':'True'}],"
	       "'nodeInfo':{'kubeletVersion':'v1'},'addresses':[{'type':'InternalIP','address':"
	       "'10.0.0.1'}]}}",
	       0,
	       "['n','Ready,SchedulingDisabled','worker','<unknown>','v1','10.0.0.1','<none>',null,"
	       "null,null]");
	row_is(kind_named("Secret"),
	       "{'metadata':{'name':'s'},'type':'Opaque','data':{'a':'','b':''}}", 0,
	       "['s','Opaque',2,'<unknown>']");
	row_is(kind_named("NetworkPolicy"),
	       "{'metadata':{'name':'n'},'spec':{'podSelector':{'matchLabels':{'a':'b'},"
	       "'matchExpressions':[{'key':'c','operator':'In','values':['d','e']}]}}}",
	       0, "['n','a=b,c in (d,e)','<unknown>']");
	row_is(kind_named("Deployment"),
	       "{'metadata':{'name':'d'},'spec':{'replicas':2,'selector':{'matchLabels':{'a':'b'}},"
	       "'template':{'spec':{'containers':[{'name':'c','image':'i'},{'name':'e','image':'j'}"
	       "]}}},'status':{'readyReplicas':1,'updatedReplicas':2}}",
	       0, "['d','1/2',2,0,'<unknown>','c,e','i,j','a=b']");
	row_is(kind_named("ReplicaSet"),
	       "{'metadata':{'name':'r'},'spec':{'replicas':2},'status':{'replicas':3}}", 0,
	       "['r',2,3,0,'<unknown>','','','']");
	row_is(kind_named("EndpointSlice"),
	       "{'metadata':{'name':'e'},'addressType':'IPv4','ports':[{'port':80}],'endpoints':["
	       "{'addresses':['1']},{'addresses':['2','3','4']}]}",
	       0, "['e','IPv4','80','1,2,3 + 1 more...','<unknown>']");
	row_is(kind_named("Gateway"),
	       "{'metadata':{'name':'g'},'spec':{'gatewayClassName':'cay'},'status':{'addresses':["
	       "{'value':'127.0.0.2'},{'value':'127.0.0.3'}],'conditions':[{'type':'Programmed',"
	       "'status':'True'}]}}",
	       0, "['g','cay','127.0.0.2','True','<unknown>']");
}

TEST(table_row_carries_metadata_or_the_object)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(json_doc) o = doc("{'kind':'ConfigMap','metadata':{'name':'c'},'data':{'a':'b'}}");
	struct json *t = table_new(d, kind_named("ConfigMap"));

	table_add(d, t, &(struct table_rows){ kind_named("ConfigMap"), TABLE_METADATA },
		  json_root(o));
	table_add(d, t, &(struct table_rows){ kind_named("ConfigMap"), TABLE_OBJECT },
		  json_root(o));
	eq_json(json_at_path(t, "rows.0.object"),
		"{'kind':'PartialObjectMetadata','apiVersion':'meta.k8s.io/v1','metadata':{'name':"
		"'c'}}");
	eq_json(json_at_path(t, "rows.1.object"),
		"{'kind':'ConfigMap','metadata':{'name':'c'},'data':{'a':'b'}}");
	eq_str(json_get_str(t, "apiVersion"), "meta.k8s.io/v1");
	eq_str(json_str(json_at_path(t, "columnDefinitions.0.name")), "Name");
	eq_str(json_str(json_at_path(t, "columnDefinitions.0.format")), "name");
}
