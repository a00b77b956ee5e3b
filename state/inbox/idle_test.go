package inbox

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestWithoutLeasesNothingWakes: a century would be three thousand million looks at nothing.
func TestWithoutLeasesNothingWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		k := newLeases(nil, 6*time.Second) // it asks no Redis
		defer k.close()
		time.Sleep(100 * 365 * 24 * time.Hour)
	})
}
