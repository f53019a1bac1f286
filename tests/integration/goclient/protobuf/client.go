// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"
)

const (
	media = "application/vnd.kubernetes.protobuf"
	space = "default"
)

func ok(err error, what string) {
	check(err == nil, "%s: %v", what, err)
}

func config(accept string) *rest.Config {
	c, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	ok(err, "kubeconfig")
	c.ContentType, c.AcceptContentTypes = media, accept
	c.QPS = -1
	return c
}

func pod(name string) *core.Pod {
	return &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "proto", "a": "b"}},
		Spec: core.PodSpec{
			Volumes: []core.Volume{
				{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{SizeLimit: quantity("64Mi")}}},
				{Name: "keys", VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{SecretName: "binary"}}},
				{Name: "all", VolumeSource: core.VolumeSource{Projected: &core.ProjectedVolumeSource{Sources: []core.VolumeProjection{
					{ServiceAccountToken: &core.ServiceAccountTokenProjection{Path: "token"}}}}}},
			},
			Containers: []core.Container{{
				Name: "main", Image: "pause",
				Env: []core.EnvVar{
					{Name: "PLAIN", Value: "v"},
					{Name: "IP", ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "status.podIP"}}},
					{Name: "CPU", ValueFrom: &core.EnvVarSource{ResourceFieldRef: &core.ResourceFieldSelector{Resource: "limits.cpu"}}},
				},
				Ports: []core.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Resources: core.ResourceRequirements{
					Limits:   core.ResourceList{"cpu": resource.MustParse("0.5"), "memory": resource.MustParse("128Mi")},
					Requests: core.ResourceList{"cpu": resource.MustParse("100m")},
				},
				VolumeMounts: []core.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
				LivenessProbe: &core.Probe{
					ProbeHandler:  core.ProbeHandler{HTTPGet: &core.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}},
					PeriodSeconds: 3,
				},
				ReadinessProbe: &core.Probe{ProbeHandler: core.ProbeHandler{TCPSocket: &core.TCPSocketAction{Port: intstr.FromInt32(8080)}}},
			}},
		},
	}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// What comes back has what was sent.
func objects(ctx context.Context, c kubernetes.Interface) {
	data := map[string][]byte{"bytes": {0, 255, 10, 13}, "empty": {}, "text": []byte("hello")}
	secret, err := c.CoreV1().Secrets(space).Create(ctx, &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "binary"}, Data: data}, metav1.CreateOptions{})
	ok(err, "create Secret")
	check(secret.UID != "" && secret.Type == core.SecretTypeOpaque, "Secret: %+v", secret)
	secret, err = c.CoreV1().Secrets(space).Get(ctx, "binary", metav1.GetOptions{})
	ok(err, "get Secret")
	for key, want := range data {
		have, found := secret.Data[key]
		check(found && bytes.Equal(have, want), "Secret: %q is %v", key, have)
	}

	sent := pod("full")
	made, err := c.CoreV1().Pods(space).Create(ctx, sent, metav1.CreateOptions{})
	ok(err, "create Pod")
	main := made.Spec.Containers[0]
	check(made.Spec.Volumes[0].EmptyDir.SizeLimit.String() == "64Mi" && made.Spec.Volumes[1].Secret.SecretName == "binary", "volumes: %+v", made.Spec.Volumes)
	check(main.LivenessProbe.HTTPGet.Port.StrVal == "http" && main.LivenessProbe.PeriodSeconds == 3 && main.LivenessProbe.FailureThreshold == 3, "probe: %+v", main.LivenessProbe)
	check(main.ReadinessProbe.TCPSocket.Port.IntVal == 8080, "probe: %+v", main.ReadinessProbe)
	check(main.Resources.Limits.Cpu().String() == "500m", "resources: %+v", main.Resources)
	check(main.Env[1].ValueFrom.FieldRef.FieldPath == "status.podIP" && main.Env[2].ValueFrom.ResourceFieldRef.Resource == "limits.cpu", "env: %+v", main.Env)
	check(!made.CreationTimestamp.IsZero() && made.Status.Phase == core.PodPending, "Pod: %+v", made)
}

func changes(ctx context.Context, c kubernetes.Interface) {
	pods := c.CoreV1().Pods(space)
	for _, p := range []struct {
		how  types.PatchType
		text string
	}{
		{types.StrategicMergePatchType, `{"metadata":{"labels":{"one":"1"}}}`},
		{types.MergePatchType, `{"metadata":{"labels":{"two":"2"}}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/three","value":"3"}]`},
	} {
		patched, err := pods.Patch(ctx, "full", p.how, []byte(p.text), metav1.PatchOptions{FieldManager: "test"})
		ok(err, string(p.how))
		check(len(patched.Labels) > 2, "%s: %v", p.how, patched.Labels)
	}
	service, err := c.CoreV1().Services(space).Create(ctx, &core.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc"}, Spec: core.ServiceSpec{
		Selector: map[string]string{"app": "proto"}, Ports: []core.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}}}, metav1.CreateOptions{})
	ok(err, "create Service")
	service.Spec.Ports[0].TargetPort = intstr.FromInt32(8080)
	service, err = c.CoreV1().Services(space).Update(ctx, service, metav1.UpdateOptions{})
	ok(err, "update Service")
	check(service.Spec.Ports[0].TargetPort.IntVal == 8080, "Service: %+v", service.Spec)
	token, err := c.CoreV1().ServiceAccounts(space).CreateToken(ctx, "default", &authentication.TokenRequest{}, metav1.CreateOptions{})
	ok(err, "create token")
	check(token.Status.Token != "" && token.Status.ExpirationTimestamp.After(time.Now()), "token: %+v", token.Status)
	review, err := c.AuthenticationV1().TokenReviews().Create(ctx, &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token.Status.Token}}, metav1.CreateOptions{})
	ok(err, "create TokenReview")
	check(review.Status.Authenticated && review.Status.User.Username == "system:serviceaccount:default:default", "review: %+v", review.Status)
}

// Errors are Statuses in protobuf.
func failures(ctx context.Context, c kubernetes.Interface) {
	_, err := c.CoreV1().Pods(space).Get(ctx, "nobody", metav1.GetOptions{})
	check(errors.IsNotFound(err) && err.Error() == `pods "nobody" not found`, "not found: %v", err)
	_, err = c.CoreV1().Secrets(space).Create(ctx, &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: "binary"}}, metav1.CreateOptions{})
	check(errors.IsAlreadyExists(err), "exists: %v", err)
	_, err = c.CoreV1().Pods(space).Create(ctx, &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "Bad_Name"}}, metav1.CreateOptions{})
	check(errors.IsInvalid(err), "invalid: %v", err)
	causes := err.(errors.APIStatus).Status().Details.Causes
	check(slices.ContainsFunc(causes, func(x metav1.StatusCause) bool { return x.Field == "spec.containers" }), "causes: %+v", causes)
	old := "12345"
	err = c.CoreV1().Secrets(space).Delete(ctx, "binary", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}})
	check(errors.IsConflict(err), "conflict: %v", err)
}

func lists(ctx context.Context, c kubernetes.Interface) {
	const n = 300
	for i := range n {
		_, err := c.CoreV1().ConfigMaps(space).Create(ctx, &core.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%03d", i), Labels: map[string]string{"many": "yes"}},
			Data:       map[string]string{"text": string(bytes.Repeat([]byte("x"), 1000+i))}}, metav1.CreateOptions{})
		ok(err, "create ConfigMap")
	}
	all, err := c.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{LabelSelector: "many=yes"})
	ok(err, "list")
	check(len(all.Items) == n && all.ResourceVersion != "", "list: %d", len(all.Items))
	for i, item := range all.Items {
		check(item.Name == fmt.Sprintf("many-%03d", i) && len(item.Data["text"]) == 1000+i, "item %d: %s", i, item.Name)
	}
	seen, next, left := 0, "", int64(0)
	for {
		page, err := c.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{Limit: 70, Continue: next})
		ok(err, "page")
		if page.RemainingItemCount != nil {
			left = *page.RemainingItemCount
		}
		seen += len(page.Items)
		if next = page.Continue; next == "" {
			break
		}
		check(left > 0, "remaining: %d", left)
	}
	check(seen >= n, "pages: %d", seen)
	none, err := c.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{LabelSelector: "many=no"})
	ok(err, "empty list")
	check(len(none.Items) == 0 && none.ResourceVersion != "", "empty list: %+v", none)
}

// The list, the watch, and the bookmark at the end of what was there before, if WatchList is on.
func informer(ctx context.Context, c kubernetes.Interface) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	added, gone := make(chan string, 1000), make(chan string, 1000)
	f := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(space))
	_, err := f.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { added <- o.(*core.ConfigMap).Name },
		DeleteFunc: func(o any) { gone <- o.(*core.ConfigMap).Name },
	})
	ok(err, "handler")
	f.Start(ctx.Done())
	for kind, synced := range f.WaitForCacheSync(ctx.Done()) {
		check(synced, "informer of %v", kind)
	}
	stored := f.Core().V1().ConfigMaps().Informer().GetStore().ListKeys()
	check(len(stored) >= 300, "informer: %d", len(stored))
	_, err = c.CoreV1().ConfigMaps(space).Create(ctx, &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	ok(err, "create late")
	await(ctx, added, "late")
	ok(c.CoreV1().ConfigMaps(space).Delete(ctx, "late", metav1.DeleteOptions{}), "delete late")
	await(ctx, gone, "late")
}

func await(ctx context.Context, names chan string, want string) {
	for {
		select {
		case name := <-names:
			if name == want {
				return
			}
		case <-ctx.Done():
			check(false, "no event about %s", want)
		}
	}
}

func watches(ctx context.Context, c kubernetes.Interface) {
	w, err := c.CoreV1().Pods(space).Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
	if err == nil {
		ev := <-w.ResultChan() // an event, or an error that says that 1 is too old
		check(ev.Type != "" && ev.Object != nil, "event: %+v", ev)
		if ev.Type == watch.Error {
			check(errors.IsResourceExpired(errors.FromObject(ev.Object)), "error event: %+v", ev.Object)
		}
		w.Stop()
	}
	m, err := metadata.NewForConfig(config(""))
	ok(err, "metadata client")
	list, err := m.Resource(core.SchemeGroupVersion.WithResource("pods")).Namespace(space).List(ctx, metav1.ListOptions{})
	ok(err, "metadata")
	check(len(list.Items) > 0 && list.Items[0].Name != "" && list.Items[0].Labels["app"] == "proto", "metadata: %+v", list.Items)
}

// A definition with a schema in which the odd types are in all their forms.
func definition() *extensions.CustomResourceDefinition {
	yes := true
	text, number := extensions.JSONSchemaProps{Type: "string"}, 1.5
	raw := func(s string) *extensions.JSON { return &extensions.JSON{Raw: []byte(s)} }
	spec := extensions.JSONSchemaProps{Type: "object", Properties: map[string]extensions.JSONSchemaProps{
		"open":   {Type: "object", AdditionalProperties: &extensions.JSONSchemaPropsOrBool{Allows: true}},
		"texts":  {Type: "object", AdditionalProperties: &extensions.JSONSchemaPropsOrBool{Allows: true, Schema: &text}},
		"items":  {Type: "array", Items: &extensions.JSONSchemaPropsOrArray{Schema: &text}, Default: raw(`["a","b"]`)},
		"choice": {Type: "string", Enum: []extensions.JSON{*raw(`"one"`), *raw(`null`)}, Nullable: true},
		"amount": {Type: "number", Minimum: &number, Default: raw(`2.5`)},
		"any":    {XPreserveUnknownFields: &yes},
	}}
	return &extensions.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "parts.proto.example.com"},
		Spec: extensions.CustomResourceDefinitionSpec{
			Group: "proto.example.com", Scope: extensions.NamespaceScoped,
			Names: extensions.CustomResourceDefinitionNames{Plural: "parts", Kind: "Part"},
			Versions: []extensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &extensions.CustomResourceValidation{OpenAPIV3Schema: &extensions.JSONSchemaProps{
					Type: "object", Properties: map[string]extensions.JSONSchemaProps{"spec": spec}}}}},
		},
	}
}

func definitions(ctx context.Context) {
	c, err := extensionsclient.NewForConfig(config(media))
	ok(err, "client")
	crds := c.ApiextensionsV1().CustomResourceDefinitions()
	w, err := crds.Watch(ctx, metav1.ListOptions{})
	ok(err, "watch definitions")
	_, err = crds.Create(ctx, definition(), metav1.CreateOptions{})
	ok(err, "create definition")
	made, err := crds.Get(ctx, "parts.proto.example.com", metav1.GetOptions{})
	ok(err, "get definition")
	parts := made.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	check(parts["open"].AdditionalProperties.Allows && parts["open"].AdditionalProperties.Schema == nil, "open: %+v", parts["open"])
	check(parts["texts"].AdditionalProperties.Schema.Type == "string", "texts: %+v", parts["texts"])
	check(parts["items"].Items.Schema.Type == "string" && string(parts["items"].Default.Raw) == `["a","b"]`, "items: %+v", parts["items"])
	check(len(parts["choice"].Enum) == 2 && len(parts["choice"].Enum[1].Raw) == 0, "choice: %+v", parts["choice"])
	check(*parts["amount"].Minimum == 1.5 && *parts["any"].XPreserveUnknownFields, "amount: %+v", parts["amount"])
	for ev := range w.ResultChan() {
		if crd, good := ev.Object.(*extensions.CustomResourceDefinition); good && crd.Name == made.Name {
			break
		}
	}
	w.Stop()
	made.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "changed"
	made, err = crds.Update(ctx, made, metav1.UpdateOptions{})
	ok(err, "update definition")
	check(made.Generation == 2, "generation: %d", made.Generation)
	bad := definition()
	bad.Name, bad.Spec.Names.Plural = "lists.proto.example.com", "lists"
	array := bad.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["items"]
	array.Items = &extensions.JSONSchemaPropsOrArray{JSONSchemas: []extensions.JSONSchemaProps{{Type: "string"}}}
	bad.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["items"] = array
	_, err = crds.Create(ctx, bad, metav1.CreateOptions{})
	check(errors.IsInvalid(err) || errors.IsBadRequest(err), "a list of schemas: %v", err)
	ok(crds.Delete(ctx, made.Name, metav1.DeleteOptions{}), "delete definition")
}

// What is measured comes in protobuf to those who accept nothing else.
func measurements(ctx context.Context) {
	c, err := metricsclient.NewForConfig(config(media))
	ok(err, "client")
	for {
		nodes, err := c.MetricsV1beta1().NodeMetricses().List(ctx, metav1.ListOptions{})
		ok(err, "list NodeMetrics")
		if len(nodes.Items) == 1 {
			node := nodes.Items[0]
			check(!node.Timestamp.IsZero() && node.Window.Duration > 0 && node.Usage.Memory().Value() > 0, "NodeMetrics: %+v", node)
			one, err := c.MetricsV1beta1().NodeMetricses().Get(ctx, node.Name, metav1.GetOptions{})
			ok(err, "get NodeMetrics")
			check(one.Name == node.Name, "NodeMetrics: %+v", one)
			break
		}
		time.Sleep(100 * time.Millisecond) // the first measurement is under way
	}
	_, err = c.MetricsV1beta1().PodMetricses(space).List(ctx, metav1.ListOptions{})
	ok(err, "list PodMetrics")
}

func deletions(ctx context.Context, c kubernetes.Interface) {
	p, err := c.CoreV1().Pods(space).Get(ctx, "full", metav1.GetOptions{})
	ok(err, "get Pod")
	now, uid, how := int64(0), p.UID, metav1.DeletePropagationBackground
	err = c.CoreV1().Pods(space).Delete(ctx, "full", metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &how, Preconditions: &metav1.Preconditions{UID: &uid}})
	ok(err, "delete Pod")
	_, err = c.CoreV1().Pods(space).Create(ctx, pod("evicted"), metav1.CreateOptions{})
	ok(err, "create Pod")
	ok(c.PolicyV1().Evictions(space).Evict(ctx, &policy.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "evicted", Namespace: space}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: &now}}), "evict")
	err = c.CoreV1().ConfigMaps(space).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "many=yes"})
	ok(err, "delete many")
	left, err := c.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{LabelSelector: "many=yes"})
	ok(err, "list")
	check(len(left.Items) == 0, "left: %d", len(left.Items))
}

// Everything that is there, as JSON and as protobuf: ours must be what Kubernetes makes of the JSON.
func sameBytes(ctx context.Context, c kubernetes.Interface) int {
	n := 0
	for _, path := range []string{"/api/v1/namespaces", "/api/v1/pods", "/api/v1/secrets", "/api/v1/services", "/api/v1/configmaps", "/api/v1/nodes",
		"/api/v1/serviceaccounts", "/api/v1/events", "/api/v1/endpoints", "/apis/discovery.k8s.io/v1/endpointslices", "/apis/events.k8s.io/v1/events",
		"/apis/node.k8s.io/v1/runtimeclasses", "/apis/storage.k8s.io/v1/storageclasses", "/apis/coordination.k8s.io/v1/leases",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/networking.k8s.io/v1/ipaddresses", "/apis/networking.k8s.io/v1/servicecidrs"} {
		for range 20 { // until nothing is written in between
			text, err := c.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
			ok(err, path)
			ours, err := c.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", media).DoRaw(ctx)
			ok(err, path)
			var list metav1.PartialObjectMetadataList
			check(json.Unmarshal(text, &list) == nil, "%s: not a list", path)
			if revision(ours) != list.ResourceVersion {
				continue
			}
			compare(text, ours)
			n += len(list.Items)
			break
		}
	}
	return n
}

func revision(data []byte) string {
	return decoded(data).(metav1.ListInterface).GetResourceVersion()
}

func client() {
	ctx, stop := context.WithTimeout(context.Background(), 4*time.Minute)
	defer stop()
	c, err := kubernetes.NewForConfig(config(""))
	ok(err, "client")
	objects(ctx, c)
	changes(ctx, c)
	failures(ctx, c)
	lists(ctx, c)
	informer(ctx, c)
	watches(ctx, c)
	definitions(ctx)
	measurements(ctx)
	fmt.Println(sameBytes(ctx, c), "objects are the same")
	deletions(ctx, c)
}
