// The MPI operator and CoreDNS; the name by which it is called picks one.
package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	clientset "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	informers "github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	if filepath.Base(os.Args[0]) == "coredns" {
		dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
		coremain.Run()
		return
	}
	mpiOperator()
}

// mpiOperator does what its own main does, without leader election and without the health server, which listens
// on all addresses.
func mpiOperator() {
	// Not the common set of flags: CoreDNS has a -version there.
	flags := flag.NewFlagSet("mpi-operator", flag.ExitOnError)
	klog.InitFlags(flags)
	given := options.NewServerOption()
	given.AddFlags(flags)
	check(flags.Parse(os.Args[1:]))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags(given.MasterURL, given.Kubeconfig)
	check(err)
	config.QPS, config.Burst = float32(given.QPS), given.Burst
	kube, jobs := kubernetes.NewForConfigOrDie(config), clientset.NewForConfigOrDie(config)
	core, own := kubeinformers.NewSharedInformerFactory(kube, 0), informers.NewSharedInformerFactory(jobs, 0)
	made, err := controller.NewMPIJobController(ctx, kube, jobs, nil, nil,
		core.Core().V1().ConfigMaps(), core.Core().V1().Secrets(), core.Core().V1().Services(), core.Batch().V1().Jobs(),
		core.Core().V1().Pods(), core.Scheduling().V1().PriorityClasses(), own.Kubeflow().V2beta1().MPIJobs(), given)
	check(err)
	core.Start(ctx.Done())
	own.Start(ctx.Done())
	check(made.Run(given.Threadiness, ctx.Done()))
}

func check(err error) {
	if err != nil {
		klog.Fatal(err)
	}
}
