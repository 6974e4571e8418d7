// What a controller does by client-go, on the cluster of KUBECONFIG. Prints a line for each thing that works, and ends with
// an error at the first that does not.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

const (
	namespace = "default"
	selector  = "app=client-go"
	patience  = 30 * time.Second
)

type session struct {
	context.Context
	clients kubernetes.Interface
}

func works(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
	fmt.Println("works:", what)
}

func must[T any](what string) func(T, error) T {
	return func(value T, err error) T {
		works(what, err)
		return value
	}
}

// unless is an error if the condition does not hold.
func unless(holds bool, seen any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("seen: %v", seen)
}

func (s session) until(condition func() bool) error {
	return wait.PollUntilContextTimeout(s, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
}

func pod(name string) *core.Pod {
	grace := int64(1)
	container := core.Container{Name: "main", Image: "localhost/debian:1", Command: []string{"sleep", "600"}}
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{"app": "client-go"}},
		Spec:       core.PodSpec{Containers: []core.Container{container}, TerminationGracePeriodSeconds: &grace},
	}
}

func (s session) pods() typed.PodInterface { return s.clients.CoreV1().Pods(namespace) }

// creates five pods, which an informer tells of, and lists them in pages.
func (s session) creates() cache.Store {
	factory := informers.NewSharedInformerFactoryWithOptions(s.clients, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(options *meta.ListOptions) { options.LabelSelector = selector }))
	informer := factory.Core().V1().Pods().Informer()
	factory.Start(s.Done())
	works("an informer has listed", unless(cache.WaitForCacheSync(s.Done(), informer.HasSynced), "nothing"))
	for _, name := range []string{"go-a", "go-b", "go-c", "go-d", "go-e"} {
		_, err := s.pods().Create(s, pod(name), meta.CreateOptions{})
		works(name+" is created", err)
	}
	_, err := s.pods().Create(s, pod("go-a"), meta.CreateOptions{})
	works("a second of its name is refused", unless(errors.IsAlreadyExists(err), err))
	works("the informer tells of all, and that they run", s.until(func() bool {
		running := 0
		for _, found := range informer.GetStore().List() {
			if found.(*core.Pod).Status.Phase == core.PodRunning {
				running++
			}
		}
		return running == 5
	}))
	seen, options := 0, meta.ListOptions{LabelSelector: selector, Limit: 2}
	for {
		page := must[*core.PodList]("a page of a list")(s.pods().List(s, options))
		seen += len(page.Items)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	works("all are in the pages", unless(seen == 5, seen))
	return informer.GetStore()
}

// changes pods by each kind of patch, and is refused what is out of date.
func (s session) changes() {
	before := must[*core.Pod]("a pod is read")(s.pods().Get(s, "go-a", meta.GetOptions{}))
	patches := map[types.PatchType]string{
		types.StrategicMergePatchType: `{"metadata": {"labels": {"patched": "strategic"}}}`,
		types.MergePatchType:          `{"metadata": {"labels": {"patched": "merge"}}}`,
		types.JSONPatchType:           `[{"op": "replace", "path": "/metadata/labels/patched", "value": "json"}]`,
	}
	for _, kind := range []types.PatchType{types.StrategicMergePatchType, types.MergePatchType, types.JSONPatchType} {
		_, err := s.pods().Patch(s, "go-a", kind, []byte(patches[kind]), meta.PatchOptions{})
		works(string(kind), err)
	}
	before.Labels["late"] = "yes"
	_, err := s.pods().Update(s, before, meta.UpdateOptions{})
	works("an update of an old version is refused", unless(errors.IsConflict(err), err))
	// Its node may write the status meanwhile.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		pod := must[*core.Pod]("it is read again")(s.pods().Get(s, "go-a", meta.GetOptions{}))
		pod.Spec.Containers[0].Command = nil
		_, err := s.pods().Update(s, pod, meta.UpdateOptions{})
		return err
	})
	works("another command is refused", unless(errors.IsInvalid(err), err))
}

// leads by a Lease, which a second candidate gets when it is released.
func (s session) leads() {
	lead := func(name string) error {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  meta.ObjectMeta{Name: "client-go", Namespace: namespace},
			Client:     s.clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		leading, stop := context.WithTimeout(s, patience)
		led := false
		leaderelection.RunOrDie(leading, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { led = true; stop() },
				OnStoppedLeading: func() {},
			},
		})
		return unless(led, "no leader")
	}
	works("a candidate leads", lead("one"))
	works("and another one, when it has released the Lease", lead("two"))
	works("the Lease is deleted", s.clients.CoordinationV1().Leases(namespace).Delete(s, "client-go", meta.DeleteOptions{}))
}

// tells of a pod by an Event.
func (s session) tells() {
	about := must[*core.Pod]("a pod is read")(s.pods().Get(s, "go-b", meta.GetOptions{}))
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typed.EventSinkImpl{Interface: s.clients.CoreV1().Events(namespace)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, core.EventSource{Component: "client-go"})
	recorder.Event(about, core.EventTypeNormal, "Seen", "a test has seen this pod")
	works("an event is there", s.until(func() bool {
		options := meta.ListOptions{FieldSelector: "involvedObject.uid=" + string(about.UID) + ",reason=Seen"}
		found, err := s.clients.CoreV1().Events(namespace).List(s, options)
		return err == nil && len(found.Items) == 1
	}))
	broadcaster.Shutdown()
}

// proves by a token who a service account is, and asks what it may do itself.
func (s session) proves() {
	accounts := s.clients.CoreV1().ServiceAccounts(namespace)
	must[*core.ServiceAccount]("an account is created")(accounts.Create(s, &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: "client-go"}}, meta.CreateOptions{}))
	seconds := int64(600)
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{Audiences: []string{"test"}, ExpirationSeconds: &seconds}}
	token := must[*authentication.TokenRequest]("it gets a token")(accounts.CreateToken(s, "client-go", request, meta.CreateOptions{}))
	review := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token.Status.Token, Audiences: []string{"test"}}}
	review = must[*authentication.TokenReview]("which is reviewed")(s.clients.AuthenticationV1().TokenReviews().Create(s, review, meta.CreateOptions{}))
	name := "system:serviceaccount:" + namespace + ":client-go"
	works("and tells the account's name", unless(review.Status.Authenticated && review.Status.User.Username == name, review.Status))
	works("the account is deleted", accounts.Delete(s, "client-go", meta.DeleteOptions{}))
	attributes := &authorization.ResourceAttributes{Namespace: namespace, Verb: "create", Resource: "pods"}
	access := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	access = must[*authorization.SelfSubjectAccessReview]("an access is reviewed")(s.clients.AuthorizationV1().SelfSubjectAccessReviews().Create(s, access, meta.CreateOptions{}))
	works("and allowed", unless(access.Status.Allowed, access.Status))
}

// deletes the pods, one by each way.
func (s session) deletes(store cache.Store) {
	wrong := types.UID("another")
	err := s.pods().Delete(s, "go-a", meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &wrong}})
	works("a deletion of another uid is refused", unless(errors.IsConflict(err), err))
	eviction := &policy.Eviction{ObjectMeta: meta.ObjectMeta{Name: "go-b"}}
	works("a pod is evicted", s.pods().EvictV1(s, eviction))
	none := int64(0)
	works("a pod is deleted at once", s.pods().Delete(s, "go-c", meta.DeleteOptions{GracePeriodSeconds: &none}))
	works("the others are deleted together", s.pods().DeleteCollection(s, meta.DeleteOptions{}, meta.ListOptions{LabelSelector: selector}))
	works("the informer knows of none", s.until(func() bool { return len(store.List()) == 0 }))
	_, err = s.pods().Get(s, "go-a", meta.GetOptions{})
	works("and none can be read", unless(errors.IsNotFound(err), err))
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	works("the kubeconfig is read", err)
	if len(os.Args) > 1 {
		config.ContentType = os.Args[1]
	}
	clients, err := kubernetes.NewForConfig(config)
	works("clients", err)
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	s := session{ctx, clients}
	version, err := clients.Discovery().ServerVersion()
	works("the version is told", err)
	fmt.Fprintln(os.Stderr, version)
	store := s.creates()
	s.changes()
	s.leads()
	s.tells()
	s.proves()
	s.deletes(store)
}
