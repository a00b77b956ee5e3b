package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// bots that answer in their own way: say posts a reply to where the message came from.
type misbehaviour func(say func(text string), n int64, text string) (status int)

func botThat(t *testing.T, behaves misbehaviour) (url string) {
	t.Helper()
	var messages atomic.Int64
	client := &http.Client{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in activity
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		say := func(text string) {
			raw, err := json.Marshal(map[string]string{"type": "message", "text": text})
			if err != nil {
				t.Error(err)
			}
			res, err := client.Post(in.ServiceURL+"v3/conversations/"+in.Conversation.ID+"/activities/"+in.ID, "application/json", bytes.NewReader(raw))
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
		}
		w.WriteHeader(behaves(say, messages.Add(1)-1, in.Text))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(client.CloseIdleConnections)
	return server.URL
}

// outcome is counts without the atomics.
type outcome struct{ errors, retried, lost, doubled, stray, reordered int64 }

func (c *counts) outcome() outcome {
	return outcome{c.errors.Load(), c.retried.Load(), c.lost.Load(), c.doubled.Load(), c.stray.Load(), c.reordered.Load()}
}

func TestTally(t *testing.T) {
	t.Parallel()
	var kept string
	for name, c := range map[string]struct {
		bot      misbehaviour
		retry    bool
		answered bool
		want     outcome
	}{
		"as it should be": {
			bot:      func(say func(string), _ int64, text string) int { say("Done: " + text); return 200 },
			answered: true,
		},
		"nothing is said": {
			bot:  func(func(string), int64, string) int { return 202 },
			want: outcome{lost: 2},
		},
		"all is said twice": {
			bot:      func(say func(string), _ int64, text string) int { say(text); say(text); return 200 },
			answered: true, want: outcome{doubled: 2},
		},
		"something else is said, too": {
			bot: func(say func(string), _ int64, text string) int {
				say(text)
				say("Sorry.")
				say("x #t0-99")
				say("x #t1-0")
				return 200
			},
			answered: true, want: outcome{stray: 6},
		},
		"the second comes first": {
			bot: func(say func(string), n int64, text string) int {
				if n == 0 {
					kept = text
					return 200
				}
				say(text)
				say(kept)
				return 200
			},
			answered: true, want: outcome{reordered: 1},
		},
		"all is refused": {
			bot:  func(func(string), int64, string) int { return 503 },
			want: outcome{errors: 1},
		},
		"the first is refused once": {
			bot: func(say func(string), n int64, text string) int {
				if n == 0 {
					return 503
				}
				say(text)
				return 200
			},
			retry: true, answered: true, want: outcome{retried: 1},
		},
		"all is refused twice": {
			bot:   func(func(string), int64, string) int { return 503 },
			retry: true, want: outcome{errors: 1, retried: 1},
		},
		"what is wrong is not sent again": {
			bot:   func(func(string), int64, string) int { return 400 },
			retry: true, want: outcome{errors: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 10 * time.Second
			if c.want.lost > 0 {
				timeout = 50 * time.Millisecond
			}
			l, err := newLoad(t.Context(), loadConfig{
				urls: []string{botThat(t, c.bot)}, conversations: 1, burst: 2, timeout: timeout, retry: c.retry,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.close()
			if answered := l.talks[0].turn(t.Context()); answered != c.answered {
				t.Errorf("answered: %v", answered)
			}
			if got := l.counts.outcome(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if wrong := c.want != (outcome{retried: c.want.retried}); wrong != (l.fault() != "") {
				t.Errorf("fault %q", l.fault())
			}
		})
	}
}

func TestWhatOneReplicaRefusesTheNextTakes(t *testing.T) {
	t.Parallel()
	takes := botThat(t, func(say func(string), _ int64, text string) int { say(text); return 200 })
	refuses := botThat(t, func(func(string), int64, string) int { return 503 })
	l, err := newLoad(t.Context(), loadConfig{urls: []string{takes, refuses}, conversations: 1, burst: 6, timeout: 10 * time.Second, retry: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if !l.talks[0].turn(t.Context()) || l.counts.outcome() != (outcome{retried: 3}) {
		t.Errorf("got %+v: %s", l.counts.outcome(), l.fault())
	}
}
