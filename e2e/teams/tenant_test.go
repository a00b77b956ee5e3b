//go:build !race

// Go 1.26's race detector crashes now and then where this many timers of a bubble fire at once
// (SIGSEGV below runtime.raceacquirectx). So this test runs without it, as a step of .ci/run.

package teams_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

var people = flag.Int("people", 128, "how many people of one tenant read answers at once in TestTenant; from 512 on half of Teams' requests are for the ends")

// TestTenant has many people of one tenant read answers at once, while they are written: each of them
// two, one after another. Teams takes 50 requests a second from a tenant, too few for all parts of the
// answers. Their ends must not be late.
func TestTenant(t *testing.T) {
	t.Parallel()
	const (
		written = 20 * time.Second // how long the model writes an answer of 600 words
		rest    = 2500 * time.Millisecond
		limit   = 50 // requests in a second
		late    = 2 * time.Second
	)
	next := written / time.Duration(*people) // somebody writes
	answer := bottest.Answer{Pieces: []bottest.Piece{{Text: `{"type":"answer","commands":[{"type":"SAY","response":"`}}}
	for at := time.Duration(0); at < written; at += written / 40 {
		answer.Pieces = append(answer.Pieces, bottest.Piece{At: at, Text: strings.Repeat("words ", 15)})
	}
	answer.Pieces = append(answer.Pieces, bottest.Piece{At: written, Text: `end."}]}`})
	p := &played{}
	ends := map[string][]time.Duration{} // by conversation, when the model ended
	synctest.Test(t, func(t *testing.T) {
		var g given
		g.Options.Stream = true
		kit := bottest.New(t, bottest.Config{Bubble: true, New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) { return p.newBot(ctx, parts, g) }})
		p.began = time.Now()
		p.connector, _ = url.Parse(kit.Connector.URL) // it serves there
		kit.Model.Decides(func(c bottest.ModelCall) (bottest.Answer, bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			ends[c.Conversation] = append(ends[c.Conversation], time.Since(p.began)+written)
			return answer, true
		})
		var all sync.WaitGroup
		for i := range 2 * *people {
			all.Go(func() {
				time.Sleep(time.Duration(i)*next + time.Duration(i / *people)*rest)
				id := fmt.Sprint("a:", i%*people)
				post(kit, map[string]any{
					"type": "message", "id": fmt.Sprint(i), "channelId": "msteams", "serviceUrl": "https://smba.trafficmanager.net/emea/", "text": "what is a list?",
					"from": map[string]any{"id": "29:" + id}, "recipient": map[string]any{"id": "28:bot"},
					"conversation": map[string]any{"id": id, "conversationType": "personal", "tenantId": "contoso"},
					"channelData":  map[string]any{"tenant": map[string]any{"id": "contoso"}},
				})
			})
		}
		all.Wait()
		kit.Settle()
		kit.Connector.Sent() // all of it is looked at
	})
	kinds := map[string]int{}
	var worst time.Duration
	for i, c := range p.calls {
		if i >= limit && c.at-p.calls[i-limit].at < time.Second {
			t.Fatalf("more than %d requests within a second, the last %v", limit, c)
		}
		if c.status >= http.StatusBadRequest {
			t.Errorf("refused: %v", c)
		}
		if c.typing {
			kinds["typing"]++
			continue
		}
		kinds[c.stream]++
		if c.stream == "streaming" || c.stream == "informative" {
			continue
		}
		id := strings.Split(c.path, "/")[3]
		worst = max(worst, c.at-ends[id][0])
		ends[id] = ends[id][1:]
	}
	if ended := kinds["final"] + kinds[""]; ended != 2**people || worst > late {
		t.Errorf("%d answers ended, want %d; the last %v after the model, want at most %v", ended, 2**people, worst, late)
	}
	if kinds["typing"] > kinds["streaming"] {
		t.Errorf("typing indicators leave no room for text: %v", kinds)
	}
	t.Logf("requests by kind: %v; the end of an answer came at most %v after the model's", kinds, worst)
}
