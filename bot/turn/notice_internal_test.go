package turn

import (
	"testing"
	"time"
)

// TestNextTime is internal: the clocks of a test bot cannot be set to when clocks change.
func TestNextTime(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	for _, c := range []struct{ every, zone, after, want string }{
		{"0 9 * * *", "", "2026-11-23T08:59:59Z", "2026-11-23T09:00:00Z"},
		{"0 9 * * *", "", "2026-11-23T09:00:00Z", "2026-11-24T09:00:00Z"},
		{"0 9 * * MON", berlin, "2026-11-23T08:00:00Z", "2026-11-30T08:00:00Z"},
		{"0 9 29 2 *", "", "2026-01-01T00:00:00Z", "2028-02-29T09:00:00Z"},
		{"0 9 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T09:00:00Z"},
		// The clock goes from 2 to 3 on 29 March and from 3 to 2 on 25 October.
		{"30 2 * * *", berlin, "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
		{"30 2 * * *", berlin, "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		{"30 2,3 * * *", berlin, "2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"},
		{"0 9 * * *", berlin, "2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z"},
		{"30 2 * * *", berlin, "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", berlin, "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"30 2 * * *", berlin, "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"},
		{"0 9 * * *", berlin, "2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z"},
		{"*/30 * * * *", berlin, "2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z"},
		{"*/30 * * * *", berlin, "2026-10-25T01:30:00Z", "2026-10-25T02:00:00Z"},
		{"0 * * * *", berlin, "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"},
	} {
		after, _ := time.Parse(time.RFC3339, c.after)
		got, err := nextTime(c.every, c.zone, after)
		if err != nil || got.UTC().Format(time.RFC3339) != c.want {
			t.Errorf("%q in %q after %s: %v %v, want %s", c.every, c.zone, c.after, got, err, c.want)
		}
	}
}
