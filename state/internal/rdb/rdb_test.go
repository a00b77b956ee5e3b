package rdb_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

// A reader waits longer than the other client, and needs few connections, whatever the URL
// says of them.
func TestReader(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://a:1/3?read_timeout=1s&pool_size=7&min_idle_conns=2&max_active_conns=9",
		"redis+cluster://a:1?addr=b:2&read_timeout=1s&pool_size=7&min_idle_conns=2",
		"redis+sentinel://a:1?master_name=main&read_timeout=1s&pool_size=7&min_idle_conns=2",
	} {
		db, err := rdb.Open(url, rdb.Config{Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		reader := db.Reader(func() {})
		pool, wait := 1, time.Duration(0)
		switch client := reader.(type) {
		case *redis.Client:
			wait = client.Options().ReadTimeout
			if got := client.Options(); got.PoolSize != pool || got.MinIdleConns != 0 || got.MaxActiveConns != 0 {
				t.Errorf("%s: %+v", url, got)
			}
		case *redis.ClusterClient:
			wait = client.Options().ReadTimeout
			if got := client.Options(); got.PoolSize != 64 || got.MinIdleConns != 0 || got.MaxActiveConns != 0 {
				t.Errorf("%s: %+v", url, got)
			}
		default:
			t.Errorf("%s: %T", url, reader)
		}
		if wait <= rdb.ReadBlock {
			t.Errorf("%s: reads end after %v", url, wait)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
