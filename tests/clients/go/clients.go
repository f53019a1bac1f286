// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"
)

var sandboxes = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}

// typed asks with the encoding that the client chooses by itself.
func typed(ctx context.Context, config *rest.Config) {
	c := kubernetes.NewForConfigOrDie(config)
	ns := namespace(ctx, c, "typed")
	maps, pods := c.CoreV1().ConfigMaps(ns), c.CoreV1().Pods(ns)

	made, err := maps.Create(ctx, configMap("one", map[string]string{"a": "1"}), metav1.CreateOptions{})
	ok(err, "create")
	_, err = maps.Create(ctx, configMap("one", nil), metav1.CreateOptions{})
	check(errors.IsAlreadyExists(err), "create twice: %v", err)
	made.Data["b"] = "2"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	ok(err, "update")
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	check(errors.IsConflict(err), "update of an old version: %v", err)
	got, err := maps.Patch(ctx, "one", types.StrategicMergePatchType, []byte(`{"data":{"a":null}}`), metav1.PatchOptions{})
	check(err == nil && len(got.Data) == 1 && got.Data["b"] == "2", "patch: %v %v", got, err)
	_, err = maps.Get(ctx, "none", metav1.GetOptions{})
	check(errors.IsNotFound(err), "get none: %v", err)

	_, err = pods.Create(ctx, &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: core.PodSpec{
		RestartPolicy: core.RestartPolicyNever,
		Volumes:       []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}},
		Containers: []core.Container{{Name: "main", Image: "host", Command: []string{"sh", "-c", "echo said"},
			VolumeMounts: []core.VolumeMount{{Name: "v", MountPath: "/v"}}}},
	}}, metav1.CreateOptions{})
	ok(err, "create a Pod")
	_, err = watch.UntilWithSync(ctx, cache.NewListWatchFromClient(c.CoreV1().RESTClient(), "pods", ns, fields.Everything()), &core.Pod{}, nil,
		func(e apiwatch.Event) (bool, error) {
			return e.Object.(*core.Pod).Status.Phase == core.PodSucceeded, nil
		})
	ok(err, "wait for the Pod")
	stream, err := pods.GetLogs("pod", &core.PodLogOptions{}).Stream(ctx)
	ok(err, "log")
	text, err := io.ReadAll(stream)
	check(err == nil && string(text) == "said\n", "log: %q %v", text, err)
	ok(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "made-by=go"}), "delete collection")
	version, err := c.Discovery().ServerVersion()
	check(err == nil && version.Major == "1", "version: %v %v", version, err)
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	check(err == nil && len(lists) > 5, "discovery: %v", err)
}

func sandbox(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "main", "image": "host", "command": []any{"sleep", "infinity"}}}}}},
	}}
}

// untyped is the dynamic client and the one that reads metadata alone.
func untyped(ctx context.Context, config *rest.Config) {
	ns := namespace(ctx, kubernetes.NewForConfigOrDie(config), "dynamic")
	boxes := dynamic.NewForConfigOrDie(config).Resource(sandboxes).Namespace(ns)
	meta := metadata.NewForConfigOrDie(config).Resource(sandboxes).Namespace(ns)

	_, err := boxes.Create(ctx, sandbox("one"), metav1.CreateOptions{})
	ok(err, "create")
	w, err := meta.Watch(ctx, metav1.ListOptions{})
	ok(err, "watch metadata")
	defer w.Stop()
	event := <-w.ResultChan()
	_, is := event.Object.(*metav1.PartialObjectMetadata)
	check(is && event.Type == apiwatch.Added, "watch metadata: %v %T", event.Type, event.Object)
	patched, err := boxes.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"operatingMode":"Suspended"}}`), metav1.PatchOptions{})
	check(err == nil && patched.GetLabels()["a"] == "b", "patch: %v", err)
	listed, err := meta.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	check(err == nil && len(listed.Items) == 1 && listed.Items[0].Name == "one" && listed.Items[0].UID == patched.GetUID(), "list metadata: %v %v", listed, err)
	applied, err := boxes.Apply(ctx, "one", sandbox("one"), metav1.ApplyOptions{FieldManager: "go", Force: true})
	check(err == nil && applied.GetGeneration() > 0, "apply: %v", err)
	_, err = boxes.Get(ctx, "one", metav1.GetOptions{}, "status")
	ok(err, "get status")
	ok(boxes.Delete(ctx, "one", metav1.DeleteOptions{}), "delete")
}

// inform follows objects with an informer; watchList says whether that begins with a watch instead of a list.
func inform(ctx context.Context, config *rest.Config, watchList bool) {
	c := kubernetes.NewForConfigOrDie(config)
	ns := namespace(ctx, c, "inform")
	maps := c.CoreV1().ConfigMaps(ns)
	for i := range 50 {
		_, err := maps.Create(ctx, configMap(fmt.Sprintf("before-%02d", i), nil), metav1.CreateOptions{})
		ok(err, "create")
	}
	setWatchList(watchList)
	var seen requests
	followed := rest.CopyConfig(config)
	followed.Wrap(seen.wrap)
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(followed), 0, informers.WithNamespace(ns))
	informer := factory.Core().V1().ConfigMaps()
	var added, updated, deleted atomic.Int32
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	ok(err, "handler")
	factory.Start(ctx.Done())
	check(cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced), "the cache does not become whole")
	check(len(informer.Informer().GetStore().List()) >= 50, "%d objects in the cache", len(informer.Informer().GetStore().List()))
	check(seen.initial.Load() == watchList && seen.lists.Load() == !watchList, "asked by watch: %v, by list: %v", seen.initial.Load(), seen.lists.Load())

	_, err = maps.Create(ctx, configMap("after", nil), metav1.CreateOptions{})
	ok(err, "create")
	_, err = maps.Patch(ctx, "after", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
	ok(err, "patch")
	ok(maps.Delete(ctx, "after", metav1.DeleteOptions{}), "delete")
	for deleted.Load() == 0 {
		check(ctx.Err() == nil, "the deletion is not seen")
		time.Sleep(10 * time.Millisecond)
	}
	_, err = informer.Lister().ConfigMaps(ns).Get("after")
	check(errors.IsNotFound(err) && added.Load() >= 51 && updated.Load() == 1, "events: %d %d, %v", added.Load(), updated.Load(), err)
}

func apply(ctx context.Context, config *rest.Config) {
	c := kubernetes.NewForConfigOrDie(config)
	ns := namespace(ctx, c, "apply")
	maps := c.CoreV1().ConfigMaps(ns)
	one := corev1ac.ConfigMap("cm", ns).WithData(map[string]string{"a": "1", "b": "2"})
	_, err := maps.Apply(ctx, one, metav1.ApplyOptions{FieldManager: "one"})
	ok(err, "apply")
	two := corev1ac.ConfigMap("cm", ns).WithData(map[string]string{"a": "9"})
	_, err = maps.Apply(ctx, two, metav1.ApplyOptions{FieldManager: "two"})
	check(errors.IsConflict(err), "apply what is another's: %v", err)
	_, err = maps.Apply(ctx, two, metav1.ApplyOptions{FieldManager: "two", Force: true})
	ok(err, "apply by force")
	got, err := maps.Get(ctx, "cm", metav1.GetOptions{})
	ok(err, "get")
	extracted, err := corev1ac.ExtractConfigMap(got, "one")
	text, _ := json.Marshal(extracted.Data)
	check(err == nil && string(text) == `{"b":"2"}`, "what one still owns: %s %v", text, err)
	got, err = maps.Apply(ctx, corev1ac.ConfigMap("cm", ns), metav1.ApplyOptions{FieldManager: "one"})
	check(err == nil && len(got.Data) == 1 && got.Data["a"] == "9", "dropped fields go: %v %v", got, err)
}

const (
	objects = 10000
	writers = 8
)

// pages lists 10,000 objects in pages while others come, change and go: whatever was there all the time is seen exactly once.
func pages(ctx context.Context, config *rest.Config) {
	c := kubernetes.NewForConfigOrDie(config)
	maps := c.CoreV1().ConfigMaps(namespace(ctx, c, "pages"))
	each(objects, func(i int) {
		_, err := maps.Create(ctx, configMap(fmt.Sprintf("stays-%05d", i), nil), metav1.CreateOptions{})
		ok(err, "create")
	})
	stop, cancel := context.WithCancel(ctx)
	var busy sync.WaitGroup
	var writes atomic.Int64
	for w := range writers {
		busy.Go(func() {
			for i := 0; stop.Err() == nil; i++ {
				name := fmt.Sprintf("stays-%05d-goes-%d", (i*7919)%objects, w)
				_, err := maps.Create(ctx, configMap(name, nil), metav1.CreateOptions{})
				ok(err, "create beside")
				_, err = maps.Patch(ctx, fmt.Sprintf("stays-%05d", (i*104729+w)%objects), types.MergePatchType,
					fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i), metav1.PatchOptions{})
				ok(err, "patch beside")
				ok(maps.Delete(ctx, name, metav1.DeleteOptions{}), "delete beside")
				writes.Add(3)
			}
		})
	}
	for _, limit := range []int64{500, 137} {
		list(ctx, maps, limit)
	}
	cancel()
	busy.Wait()
	check(writes.Load() > 100, "only %d writes beside the lists", writes.Load())
	fmt.Println("writes beside the lists:", writes.Load())
}

// each runs f for 0 to n-1, several at a time.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < n; i += writers {
				f(i)
			}
		})
	}
	all.Wait()
}
