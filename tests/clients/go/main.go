// SPDX-License-Identifier: Apache-2.0

// Programs as people write them with client-go and controller-runtime, unmodified: clients SCENARIO. KUBECONFIG names the
// server. Says what went wrong and exits with 1.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var scenarios = map[string]func(context.Context, *rest.Config){
	"typed":     typed,
	"dynamic":   untyped,
	"watchlist": func(ctx context.Context, c *rest.Config) { inform(ctx, c, true) },
	"listwatch": func(ctx context.Context, c *rest.Config) { inform(ctx, c, false) },
	"apply":     apply,
	"manager":   manage,
	"pages":     pages,
}

func check(good bool, format string, args ...any) {
	if !good {
		log.Fatalf(format, args...)
	}
}

func ok(err error, what string) {
	check(err == nil, "%s: %v", what, err)
}

// namespace makes one for a scenario.
func namespace(ctx context.Context, c kubernetes.Interface, name string) string {
	made, err := c.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-" + name + "-"}}, metav1.CreateOptions{})
	ok(err, "make a namespace")
	return made.Name
}

func configMap(name string, data map[string]string) *core.ConfigMap {
	return &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"made-by": "go"}}, Data: data}
}

func main() {
	run, known := scenarios[os.Args[1]]
	check(known, "no scenario named %s", os.Args[1])
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	ok(err, "kubeconfig")
	config.QPS = -1
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	run(ctx, config)
	fmt.Println("done")
}
