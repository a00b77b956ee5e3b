package state_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://localhost":                                      "redis localhost:6379/0",
		"rediss://user:sesame@cache.example:6380/3":              "redis cache.example:6380/3",
		"redis://[::1]:7000?db=2":                                "redis [::1]:7000/2",
		"redis+cluster://:sesame@a:7000?addr=b:7001&addr=c:7002": "redis cluster a:7000,b:7001,c:7002",
		"rediss+cluster://a":                                     "redis cluster a:6379",
		"redis-cluster://a:1":                                    "redis cluster a:1",
		"redis://a:1?addr=b:2":                                   "redis cluster a:1,b:2",
		"redis+sentinel://:sesame@s1:26379/1?master_name=main&addr=s2:26379&password=sesame": "redis main/1 through sentinels s1:26379,s2:26379",
		"redis://s1:26379?master_name=main":                                                  "redis main/0 through sentinels s1:26379",
	} {
		r := openURL(t, url, state.Config{})
		if r.String() != want || r.Embedded() {
			t.Errorf("%s is %q, want %q", url, r, want)
		}
	}
}

// No error quotes any of a URL that may hold a password, however it is broken.
func TestBadURLsKeepTheirSecrets(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"localhost:6379":                           "want redis://",
		"redis:sesame":                             "want redis://",
		"redis://":                                 "want redis://",
		"http://sesame@localhost":                  "want redis://",
		"redis+proxy://:sesame@localhost":          "unknown form",
		"redis://:open/sesame@localhost":           "percent-encoded",
		"redis://:12/sesame@localhost":             "percent-encoded",
		"redis://:12?sesame@localhost":             "percent-encoded",
		"redis://:12#sesame@localhost":             "percent-encoded",
		"redis://:open sesame@localhost":           "percent-encoded",
		"redis://:%sesame@localhost":               "percent-encoded",
		"redis://:sesame@localhost/seven":          "invalid database number",
		"redis://:sesame@localhost?colour=red":     "unexpected option: colour",
		"redis://:sesame@localhost?pool_size=big":  "pool_size",
		"redis+cluster://:sesame@a?addr=b":         "addr",
		"redis+cluster://:sesame@a?read_only=true": "replicas",
		"redis+sentinel://:sesame@a":               "master_name",
	} {
		_, err := state.Open(t.Context(), url, state.Config{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error about %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%q: the error tells the password: %v", url, err)
		}
	}
}

// Every wait of the client is bounded, unless the URL says otherwise.
func TestLimitsOfTheClient(t *testing.T) {
	t.Parallel()
	options := func(r *state.Store) *redis.Options {
		switch c := r.Client().(type) {
		case *redis.Client:
			return c.Options()
		case *redis.ClusterClient:
			o := c.Options()
			return &redis.Options{
				DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
				MaxRetries: o.MaxRetries, DialerRetries: o.DialerRetries, PoolSize: o.PoolSize, ContextTimeoutEnabled: o.ContextTimeoutEnabled,
			}
		}
		t.Fatalf("unknown client %T", r.Client())
		return nil
	}
	for _, url := range []string{"redis://h", "redis+cluster://h", "redis+sentinel://h?master_name=m"} {
		o := options(openURL(t, url, state.Config{}))
		if o.DialTimeout != 2*time.Second || o.ReadTimeout != 2*time.Second || o.WriteTimeout != 2*time.Second ||
			o.MaxRetries != 1 || o.DialerRetries != 1 || o.PoolSize != 64 || !o.ContextTimeoutEnabled {
			t.Errorf("%s: %+v", url, o)
		}
	}
	o := options(openURL(t, "redis://h?pool_size=7&read_timeout=1s&max_retries=-1", state.Config{}))
	if o.PoolSize != 7 || o.ReadTimeout != time.Second || o.MaxRetries != 0 {
		t.Errorf("the URL's own limits do not count: %d %v %d", o.PoolSize, o.ReadTimeout, o.MaxRetries)
	}
}

func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]state.Config{
		"TTL": {TTL: time.Millisecond}, "MaxBytes": {MaxBytes: 10}, "Timeout": {Timeout: -1},
	} {
		if _, err := state.Open(t.Context(), "redis://h", cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Open with a bad %s: %v", name, err)
		}
	}
}

// The client's own lines do not go to stderr. Not parallel: the process has one.
func TestClientIsSilent(t *testing.T) {
	stderr := os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = write
	defer func() { os.Stderr = stderr }()
	r := openURL(t, "redis+sentinel://127.0.0.1:1?master_name=main", state.Config{})
	if err := r.Ping(t.Context()); err == nil {
		t.Error("a sentinel on port 1 answers")
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	var stray bytes.Buffer
	if _, err := stray.ReadFrom(read); err != nil || stray.Len() > 0 {
		t.Errorf("on stderr: %q, %v", stray.String(), err)
	}
}
