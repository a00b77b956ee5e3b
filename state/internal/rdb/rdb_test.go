package rdb_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state/internal/rdb"
)

// A reader has a connection for each partition, whatever the URL says.
func TestReader(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://a:1/3?pool_size=7&min_idle_conns=2&max_active_conns=9",
		"redis+cluster://a:1?addr=b:2&pool_size=7&min_idle_conns=2",
		"redis+sentinel://a:1?master_name=main&pool_size=7&min_idle_conns=2",
	} {
		db, err := rdb.Open(url, rdb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		reader := db.Reader(func() {})
		size, idle, active := 0, 0, 0
		switch client := rdb.Underlying(reader).(type) {
		case *redis.Client:
			size, idle, active = client.Options().PoolSize, client.Options().MinIdleConns, client.Options().MaxActiveConns
		case *redis.ClusterClient:
			size, idle, active = client.Options().PoolSize, client.Options().MinIdleConns, client.Options().MaxActiveConns
		}
		if size != rdb.Partitions || idle != 0 || active != 0 {
			t.Errorf("%s: %d connections, %d idle, %d active", url, size, idle, active)
		}
		if err := errors.Join(reader.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}
