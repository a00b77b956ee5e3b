package mcp

import (
	"errors"
	"strconv"
	"testing"
	"time"
)

// TestNobodyWhoWaitsIsDropped is internal: it needs a thousand people at once, in states that last for a moment.
func TestNobodyWhoWaitsIsDropped(t *testing.T) {
	t.Parallel()
	c := &Connection{principals: map[string]*principal{}}
	for i := range maxPrincipals {
		p := &principal{used: time.Now().Add(-time.Minute)}
		p.done = make(chan struct{})
		c.principals[strconv.Itoa(i)] = p
	}
	if _, err := c.principal("new"); !errors.Is(err, errCrowded) {
		t.Fatalf("a new one among those who wait: %v", err)
	}
	c.principals["7"].done = nil
	if _, err := c.principal("new"); err != nil || len(c.principals) != maxPrincipals || c.principals["7"] != nil {
		t.Fatalf("a new one in place of one who does not wait: %v, %d", err, len(c.principals))
	}
	for key, p := range c.principals {
		if p.gone || key != "new" && p.done == nil {
			t.Errorf("%s is gone", key)
		}
	}
}
