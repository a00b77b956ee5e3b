package auth_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOddButAllowed gets 200, and the answer that is said here: none, or one.
func TestOddButAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.works()
	for _, group := range []struct {
		changes changes
		replies int
	}{{ignored(), 0}, {answered(), 1}} {
		for _, name := range slices.Sorted(maps.Keys(group.changes)) {
			a := w.good()
			group.changes[name](a)
			before := len(w.connector.Sent())
			if got := w.send(a); got.status != http.StatusOK {
				t.Errorf("%s: status %d", name, got.status)
				continue
			}
			if group.replies > 0 {
				w.answers(name, a)
			} else if now := len(w.connector.Sent()); now != before {
				t.Errorf("%s: %d calls", name, now-before)
			}
		}
		w.works()
		w.none()
	}
	w.logIsClean()
}

// answers takes the reply to a. The connector finds it only if the conversation is one segment of
// the path.
func (w *world) answers(name string, a *attempt) {
	w.Helper()
	sent := w.next()
	if sent.Activity.Text != "Hello." || sent.Authorization != "Bearer "+accessToken {
		w.Errorf("%s: %s got %q", name, sent.To, sent.Activity.Text)
	}
	again := w.send(a)
	if again.status != http.StatusOK {
		w.Errorf("%s, again: status %d", name, again.status)
	}
}

// set changes a field of the activity; nil removes it.
func set(field string, value any) func(*attempt) {
	return func(a *attempt) {
		a.activity[field] = value
		if value == nil {
			delete(a.activity, field)
		}
	}
}

func both(all ...func(*attempt)) func(*attempt) {
	return func(a *attempt) {
		for _, one := range all {
			one(a)
		}
	}
}

// ignored is what asks for no answer.
func ignored() changes {
	of := func(typ string, more ...func(*attempt)) func(*attempt) {
		return both(append([]func(*attempt){set("type", typ), set("text", nil)}, more...)...)
	}
	group := set("conversation", object{"id": "19:group@thread.v2", "conversationType": "groupChat", "isGroup": true})
	return changes{
		"unknown type":               of("foo"),
		"type in another case":       of("MESSAGE "),
		"typing":                     of("typing"),
		"trace":                      of("trace"),
		"end of conversation":        of("endOfConversation"),
		"handoff":                    of("handoff"),
		"an unknown event":           of("event", set("name", "no/such"), set("value", object{"x": 1})),
		"an event without a name":    of("event"),
		"an unknown eventType":       of("conversationUpdate", set("channelData", object{"eventType": "noSuch", "tenant": object{"id": tenantID}})),
		"a message that was edited":  both(set("type", "messageUpdate")),
		"a message that was deleted": of("messageDelete", set("channelData", object{"eventType": "softDeleteMessage"})),
		"reactions":                  of("messageReaction", set("reactionsAdded", []object{{"type": "like"}, {"type": "1f440_eyes"}}), set("replyToId", "1")),
		"of the bot itself":          set("from", object{"id": "28:" + appID}),
		"of a bot":                   set("from", object{"id": "28:other", "role": "bot"}),
		"two tenants":                set("channelData", object{"tenant": object{"id": "another"}}),
		"to nobody, in a group":      group,
		"to a name, in a group":      both(group, set("text", "<at>Planbot</at> "+secretText)),
		"to somebody else, in a group": both(group, set("text", "<at>Planbot</at> "+secretText), set("entities", []object{
			{"type": "mention", "text": "<at>Planbot</at>", "mentioned": object{"id": "29:bob", "name": "Planbot"}},
		})),
		"to an empty id, in a group": both(group, set("recipient", object{}), set("entities", []object{{"type": "mention", "text": "", "mentioned": object{"id": ""}}})),
		"a dot behind the host": func(a *attempt) {
			of("typing")(a)
			a.activity["serviceUrl"], a.token.claims["serviceurl"] = "https://smba.trafficmanager.net./amer/", "https://smba.trafficmanager.net/amer"
		},
	}
}

// answered is what is odd, and a message all the same.
func answered() changes {
	in := func(id string) func(*attempt) { return set("conversation", object{"id": id}) }
	claim := func(name string, value any) func(*attempt) { return func(a *attempt) { a.token.claims[name] = value } }
	var mentions []object
	for range 1000 {
		mentions = append(mentions, object{"type": "mention", "text": "", "mentioned": object{"id": "28:" + appID}})
	}
	now := time.Now().Unix()
	return changes{
		"audience of several":    claim("aud", []string{"another", appID}),
		"audience in upper case": claim("aud", strings.ToUpper(appID)),
		"expired just now":       claim("exp", now-200),
		"valid soon":             claim("nbf", now+200),
		"times with parts":       claim("exp", float64(now)+1000.5),
		"serviceurl without a slash": func(a *attempt) {
			a.token.claims["serviceurl"] = strings.TrimSuffix(a.activity["serviceUrl"].(string), "/")
		},
		"serviceurl in upper case": func(a *attempt) {
			a.token.claims["serviceurl"] = strings.Replace(a.activity["serviceUrl"].(string), "http:", "HTTP:", 1)
		},
		"charset":   func(a *attempt) { a.header.Set("Content-Type", `application/json; charset="UTF-8"`) },
		"in chunks": func(a *attempt) { a.chunked = true },
		"serviceUrl in other case": func(a *attempt) {
			a.activity["ServiceUrl"], a.activity["SERVICEURL"] = "https://evil.example/", "https://evil.example/"
		},
		"callerId":            set("callerId", "urn:botframework:aadappid:attacker"),
		"channelData a text":  set("channelData", "x"),
		"channelData a list":  set("channelData", []int{1}),
		"channelData null":    func(a *attempt) { a.activity["channelData"] = nil },
		"team null":           set("channelData", object{"team": nil, "tenant": nil}),
		"tenant a number":     set("channelData", object{"tenant": 7}),
		"entities of no kind": set("entities", []any{nil, object{}, object{"type": nil}, object{"type": 7}, "x", 7, []int{}}),
		"attachments null":    set("attachments", []any{nil}),
		"a copy in HTML":      set("attachments", []object{{"contentType": "text/html", "content": "<b>x</b>"}}),
		"no times":            both(set("timestamp", "yesterday"), set("localTimestamp", "2024-01-01T00:00:00"), set("expiration", 7)),
		"fields of tomorrow":  both(set("legacy", object{"a": 1}), set("rawTimestamp", "x"), set("é", []int{1})),
		"a delivery mode":     set("deliveryMode", "no-such"),
		"a thousand mentions": set("entities", mentions),
		"control characters":  set("text", secretText+"\x00\x1b[31m\u2028\u202e"),
		"a value beside text": set("value", object{"approval": "x", "verb": "approve"}),
		"a path up":           in("../../evil"),
		"a path":              in("a/b/c"),
		"a query":             in("x?y#z"),
		"escaped":             in("%2e%2e%2f%2e%2e%2f"),
		"NUL":                 in("a\x00b"),
		"a new line":          in("a\r\nHost: evil.example\r\n\r\n"),
		"backslashes":         in(`..\..\evil`),
		"not ASCII":           in("ü/☃"),
		"livechat":            in("c|livechat"),
		"a thread":            in("19:x@thread.tacv2;messageid=1"),
		"an id of a kilobyte": in(fmt.Sprintf("%01024d", 1)),
	}
}

// TestLoneSurrogates are no reason to refuse a message.
func TestLoneSurrogates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.good()
	a.body = fmt.Appendf(nil, `{"type":"message","id":"1","text":"%s \ud800","channelId":"msteams","serviceUrl":%q,"from":{"id":"29:mia"},"recipient":{"id":"28:bot"},"conversation":{"id":"c"}}`, secretText, w.connector.URL)
	if got := w.send(a); got.status != http.StatusOK {
		t.Errorf("status %d", got.status)
	}
	w.answers("a lone surrogate", a)
	w.logIsClean()
}

// TestTheSameAgain has one effect, also when all of it arrives at once.
func TestTheSameAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.good()
	const times = 20
	answers := make(chan int, times)
	for range times {
		req := w.request(a)
		go func() {
			resp, err := w.client.Do(req)
			if err != nil {
				answers <- 0
				return
			}
			_ = resp.Body.Close()
			answers <- resp.StatusCode
		}()
	}
	for range times {
		if status := <-answers; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	w.next()
	w.works()
	w.none()
	if n := w.modelled.Load(); n != 2 {
		t.Errorf("%d calls of the model for two messages", n)
	}
}
