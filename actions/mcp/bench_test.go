package mcp_test

import (
	"fmt"
	"testing"

	"github.com/planbot-go/planbot/actions/mcp"
)

// BenchmarkOffer is what 200 tools of 5 connections cost a turn that uses none.
func BenchmarkOffer(b *testing.B) {
	var all []*mcp.Connection
	for i := range 5 {
		f := newFake(b)
		for n := range 40 {
			f.tools = append(f.tools, tool(fmt.Sprint("tool", n)))
		}
		c, _ := connectTo(b, f.URL, func(cfg *mcp.Config) { cfg.Key = fmt.Sprint("svc", i) })
		all = append(all, c)
	}
	turn := turnOf(b, "ada")
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range all {
			if names, _ := c.Offer(b.Context(), turn); len(names) != 40 {
				b.Fatal(names)
			}
			c.Actions()
		}
	}
}
