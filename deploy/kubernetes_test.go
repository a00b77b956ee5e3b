//go:build ci

// The types of Kubernetes take 18 CPU seconds to compile, more than anything else that go test ./... needs
// only for one test: .ci/run has -tags ci.

package deploy

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// decode reads every document of the files strictly: an unknown field is an error.
func decode(t *testing.T, files ...string) map[string]any {
	t.Helper()
	byKind := map[string]any{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("kubernetes", file)) //nolint:gosec // a file of the repository
		if err != nil {
			t.Fatal(err)
		}
		for part := range bytes.SplitSeq(text, []byte("\n---\n")) {
			var head struct{ Kind string }
			if err := yaml.Unmarshal(part, &head); err != nil {
				t.Fatal(err)
			}
			objects := map[string]any{
				"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "Secret": &corev1.Secret{},
				"Ingress": &networkingv1.Ingress{}, "NetworkPolicy": &networkingv1.NetworkPolicy{}, "PodDisruptionBudget": &policyv1.PodDisruptionBudget{},
			}
			object := objects[head.Kind]
			if object == nil {
				t.Fatalf("%s has an unexpected kind %q", file, head.Kind)
			}
			if err := yaml.UnmarshalStrict(part, object); err != nil {
				t.Errorf("%s, %s: %v", file, head.Kind, err)
			}
			byKind[head.Kind] = object
		}
	}
	return byKind
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	objects := decode(t, "planbot.yaml", "secret.example.yaml")
	known := settings(t)
	deployment := objects["Deployment"].(*appsv1.Deployment)
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]

	if *deployment.Spec.Replicas != 2 {
		t.Errorf("%d replicas, want 2", *deployment.Spec.Replicas)
	}
	routed := container.Lifecycle.PreStop.Sleep.Seconds // until no endpoint names the pod any more
	if routed < 5 || *pod.TerminationGracePeriodSeconds <= routed+20 {
		t.Error("the pod ends while it is still routed to, or the grace period leaves no time for BOT_DRAIN_TIMEOUT")
	}
	if !*pod.SecurityContext.RunAsNonRoot || !*container.SecurityContext.ReadOnlyRootFilesystem {
		t.Error("the pod runs as root or may write to its root folder")
	}
	for _, env := range container.Env {
		if !slices.Contains(known, env.Name) {
			t.Errorf("no setting %s", env.Name)
		}
	}
	for name := range objects["Secret"].(*corev1.Secret).StringData {
		if !slices.Contains(known, name) {
			t.Errorf("no setting %s", name)
		}
	}
	env := maps.Clone(objects["Secret"].(*corev1.Secret).StringData)
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	if err := refused(env); err != nil {
		t.Errorf("the bot refuses these settings: %v", err)
	}
	if container.LivenessProbe.HTTPGet.Path != "/healthz" || container.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Error("wrong probes")
	}
	labels := deployment.Spec.Template.Labels
	for name, selector := range map[string]map[string]string{
		"Deployment":          deployment.Spec.Selector.MatchLabels,
		"Service":             objects["Service"].(*corev1.Service).Spec.Selector,
		"PodDisruptionBudget": objects["PodDisruptionBudget"].(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels,
		"NetworkPolicy":       objects["NetworkPolicy"].(*networkingv1.NetworkPolicy).Spec.PodSelector.MatchLabels,
	} {
		for key, value := range selector {
			if labels[key] != value {
				t.Errorf("%s selects %s=%s, which no pod has", name, key, value)
			}
		}
	}
}
