package state_test

import (
	"os"
	"testing"

	"github.com/planbot-go/planbot/state"
)

// openEmbedded opens a Redis of the test's own.
func openEmbedded(t testing.TB, cfg state.Config) *state.Store {
	t.Helper()
	return openURL(t, "", cfg)
}

// openURL opens the Redis at url.
func openURL(t testing.TB, url string, cfg state.Config) *state.Store {
	t.Helper()
	r, err := state.Open(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRedis(t, r) })
	return r
}

func closeRedis(t testing.TB, r *state.Store) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// serverURL is the URL of a real server or cluster, from the environment.
func serverURL(t testing.TB, variable, what string) string {
	t.Helper()
	url := os.Getenv(variable)
	if url == "" {
		t.Skipf("%s is unset: set it to the URL of %s to run this test", variable, what)
	}
	return url
}

func TestContractEmbedded(t *testing.T) {
	t.Parallel()
	testStore(t, func(t *testing.T) *state.Store { return openEmbedded(t, state.Config{}) })
}

func TestContractServer(t *testing.T) {
	t.Parallel()
	url := serverURL(t, "PLANBOT_TEST_REDIS_URL", "a redis-server")
	testStore(t, func(t *testing.T) *state.Store { return openURL(t, url, state.Config{}) })
}

func TestContractCluster(t *testing.T) {
	t.Parallel()
	url := serverURL(t, "PLANBOT_TEST_REDIS_CLUSTER_URL", "a redis cluster, as in redis+cluster://127.0.0.1:7000")
	testStore(t, func(t *testing.T) *state.Store { return openURL(t, url, state.Config{}) })
}
