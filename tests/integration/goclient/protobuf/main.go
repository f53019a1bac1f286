// SPDX-License-Identifier: Apache-2.0

// Kubernetes' own protobuf, against ours: protobuf compare FILE | client.
//
// compare reads lines of JSON TAB BASE64, the same object in both forms as Cay writes it, and writes it anew with the
// published encoders. client drives a server with a typed client that speaks protobuf alone.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"reflect"
	"strings"

	extensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

func check(good bool, format string, args ...any) {
	if !good {
		log.Fatalf(format, args...)
	}
}

func parse(text []byte) any {
	var tree any
	check(json.Unmarshal(text, &tree) == nil, "not JSON: %s", text)
	return tree
}

// An object that its JSON says the kind of, read from that JSON.
func typed(text []byte) runtime.Object {
	var named metav1.TypeMeta
	check(json.Unmarshal(text, &named) == nil, "no kind: %.200s", text)
	kind := schema.FromAPIVersionAndKind(named.APIVersion, named.Kind)
	obj, err := scheme.Scheme.New(kind)
	check(err == nil, "%s: %v", kind, err)
	err = json.Unmarshal(text, obj)
	check(err == nil, "%s: %v", kind, err)
	return obj
}

func encoded(obj runtime.Object) []byte {
	var out bytes.Buffer
	s := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	err := s.Encode(obj, &out)
	check(err == nil, "encode %T: %v", obj, err)
	return out.Bytes()
}

func decoded(data []byte) runtime.Object {
	s := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	obj, kind, err := s.Decode(data, nil, nil)
	check(err == nil, "decode: %v in %x", err, data)
	obj.GetObjectKind().SetGroupVersionKind(*kind)
	return obj
}

// Where two encodings part, with what comes before it.
func parting(a, b []byte) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(i-40, 0)
	return fmt.Sprintf("at %d of %d and %d: %q and %q", i, len(a), len(b), a[from:min(i+20, len(a))], b[from:min(i+20, len(b))])
}

// The same object as JSON and as protobuf.
func compare(text, ours []byte) {
	obj := typed(text)
	kind := obj.GetObjectKind().GroupVersionKind()
	theirs := encoded(obj)
	check(bytes.Equal(ours, theirs), "%s: ours and theirs differ %s", kind, parting(ours, theirs))
	if _, list := obj.(metav1.ListInterface); list {
		return // in JSON, the items of ours say what they are; in protobuf they cannot
	}
	again, err := json.Marshal(decoded(ours))
	check(err == nil, "%s: %v", kind, err)
	straight, err := json.Marshal(obj)
	check(err == nil, "%s: %v", kind, err)
	check(reflect.DeepEqual(parse(again), parse(straight)), "%s: %s and %s", kind, again, straight)
}

func compareFile(name string) {
	file, err := os.Open(name)
	check(err == nil, "%v", err)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	n := 0
	for lines.Scan() {
		text, b64, found := strings.Cut(lines.Text(), "\t")
		check(found, "no tab in %.80s", lines.Text())
		data, err := base64.StdEncoding.DecodeString(b64)
		check(err == nil, "%v", err)
		compare([]byte(text), data)
		n++
	}
	check(lines.Err() == nil, "%v", lines.Err())
	fmt.Println(n, "objects are the same")
}

func main() {
	log.SetFlags(0)
	check(extensions.AddToScheme(scheme.Scheme) == nil && metrics.AddToScheme(scheme.Scheme) == nil, "the scheme is complete")
	check(len(os.Args) > 1, "usage: protobuf compare FILE | client")
	switch os.Args[1] {
	case "compare":
		compareFile(os.Args[2])
	case "client":
		client()
	default:
		log.Fatalf("no command %s", os.Args[1])
	}
}
