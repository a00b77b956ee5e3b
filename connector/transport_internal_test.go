package connector

import "testing"

// TestReach is inside the package since only a resolver that lies could show it
// from outside.
func TestReach(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address                  string
		public, listed, loopback bool
	}{
		{"20.49.104.10:443", true, true, false},
		{"[2603:1030::1]:443", true, true, false},
		{"[64:ff9b::1431:680a]:443", true, true, false},
		{"10.0.0.1:443", false, true, false},
		{"[64:ff9b::a00:1]:443", false, true, false},
		{"168.63.129.16:443", false, true, false},
		{"192.88.99.1:443", false, true, false},
		{"[::a00:1]:443", false, true, false},
		{"[2001:0:1431:680a::1]:443", false, true, false},
		{"[3fff::1]:443", false, true, false},
		{"[5f00::1]:443", false, true, false},
		{"127.0.0.1:443", false, true, true},
		{"[::1]:443", false, true, true},
		{"[::ffff:127.0.0.1]:443", false, true, true},
		{"nonsense", false, false, false},
	}
	for _, tt := range tests {
		for r, want := range map[reach]bool{reachPublic: tt.public, reachListed: tt.listed, reachLoopback: tt.loopback} {
			if err := r.control("tcp", tt.address, nil); (err == nil) != want {
				t.Errorf("reach %d to %s: err = %v, want allowed %t", r, tt.address, err, want)
			}
		}
	}
}
