package state_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/state"
)

// BenchHistory and BenchLists are what a bot of lists keeps: ten short
// messages and three lists.
type BenchHistory struct {
	Turns []BenchMessage `json:"turns"`
}

type BenchMessage struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

type BenchLists struct {
	Lists []BenchList `json:"lists"`
}

type BenchList struct {
	Name  string      `json:"name"`
	Items []BenchItem `json:"items"`
}

type BenchItem struct {
	Text string `json:"text"`
	Done bool   `json:"done,omitzero"`
}

// fill puts a typical turn's state into s.
func fill(s *state.Scope) {
	history, lists := state.Of[BenchHistory](s), state.Of[BenchLists](s)
	for i := range 10 {
		history.Turns = append(history.Turns, BenchMessage{[]string{"user", "assistant"}[i%2], strings.Repeat("word ", 12)})
	}
	for i := range 3 {
		list := BenchList{Name: fmt.Sprintf("list %d", i)}
		for j := range 6 {
			list.Items = append(list.Items, BenchItem{Text: fmt.Sprintf("item %d", j)})
		}
		lists.Lists = append(lists.Lists, list)
	}
}

// turn changes what a turn changes.
func turn(s *state.Scope, i int) {
	history := state.Of[BenchHistory](s)
	history.Turns = append(history.Turns[1:], BenchMessage{"user", fmt.Sprintf("message %d", i)})
	lists := state.Of[BenchLists](s)
	lists.Lists[0].Items[0].Done = !lists.Lists[0].Items[0].Done
}

// BenchmarkScopeEncode is the work on the processor alone: parse a document,
// decode both values, change them, encode, compare.
func BenchmarkScopeEncode(b *testing.B) {
	doc := state.EncodeScope(b, fill)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		state.CycleScope(b, doc, func(s *state.Scope) { turn(s, i) })
	}
}

// BenchmarkScopeUntouched is a scope that is loaded and never asked for.
func BenchmarkScopeUntouched(b *testing.B) {
	doc := state.EncodeScope(b, fill)
	b.ReportAllocs()
	for b.Loop() {
		state.CycleScope(b, doc, func(*state.Scope) {})
	}
}

func BenchmarkRebase(b *testing.B) {
	doc := state.EncodeScope(b, fill)
	b.ReportAllocs()
	for b.Loop() {
		state.CycleScope(b, doc, func(s *state.Scope) {
			turn(s, 1)
			state.RaceScope(b, s, doc, func(s *state.Scope) { state.Of[Counter](s).N++ })
		})
	}
}

func BenchmarkTurnEmbedded(b *testing.B) { benchmarkTurn(b, openEmbedded(b, state.Config{})) }

func BenchmarkTurnServer(b *testing.B) {
	url := os.Getenv("PLANBOT_TEST_REDIS_URL")
	if url == "" {
		b.Skip("PLANBOT_TEST_REDIS_URL is unset: set it to the URL of a redis-server to run this benchmark")
	}
	benchmarkTurn(b, openURL(b, url, state.Config{}))
}

// benchmarkTurn loads three scopes, changes one, looks at another, saves all.
func benchmarkTurn(b *testing.B, r *state.Store) {
	keys := []state.Key{
		state.ConversationKey("bench", "bot", "c"),
		state.ConversationKey("bench", "bot", "c;messageid=1"),
		state.UserKey("bench", "bot", "u"),
	}
	start := load(b, r, keys[0])
	start.Delete()
	fill(start)
	if err := r.Save(b.Context(), start); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		scopes, err := r.Load(b.Context(), keys...)
		if err != nil {
			b.Fatal(err)
		}
		turn(scopes[0], i)
		state.Of[Counter](scopes[2])
		if err := r.Save(b.Context(), scopes...); err != nil {
			b.Fatal(err)
		}
	}
}
