package connector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// logbook is a connector that takes everything and notes when.
type logbook struct {
	status func(n int) int // of the nth request of all; nil: 200
	start  time.Time

	mu  sync.Mutex
	all []entry
}

type entry struct {
	at           time.Duration
	method, path string
	body         string
}

func (l *logbook) RoundTrip(r *http.Request) (*http.Response, error) {
	body := make([]byte, max(r.ContentLength, 0))
	if r.Body != nil {
		_, _ = r.Body.Read(body)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, entry{time.Since(l.start), r.Method, r.URL.Path, string(body)})
	status := http.StatusOK
	if l.status != nil {
		status = l.status(len(l.all))
	}
	return says(status)(r)
}

func (l *logbook) times(kind func(entry) bool) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var times []time.Duration
	for _, e := range l.all {
		if kind(e) {
			times = append(times, e.at)
		}
	}
	slices.Sort(times)
	return times
}

func everything(entry) bool { return true }

// within fails the test when more than most of the times lie in one span.
func within(t *testing.T, times []time.Duration, most int, span time.Duration) {
	t.Helper()
	for i := most; i < len(times); i++ {
		if d := times[i] - times[i-most]; d < span {
			t.Errorf("%d requests in %v, from %v on, want at most %d in %v", most+1, d, times[i-most], most, span)
			return
		}
	}
}

func thread(id, tenant string) schema.ConversationReference {
	ref := reference(serviceURL)
	ref.Conversation.ID, ref.Conversation.TenantID = id, tenant
	return ref
}

// inBubble runs f in a bubble of time of its own.
func inBubble(t *testing.T, f func(t *testing.T, l *logbook, c *connector.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &logbook{start: time.Now()}
		f(t, l, scripted(t, l, fixedToken("t")))
	})
}

// conversationLimits are those of Teams.
var conversationLimits = map[time.Duration]int{time.Second: 7, 2 * time.Second: 8, 30 * time.Second: 60, time.Hour: 1800}

// TestLimitsOfAConversation simulates two hours of a conversation in which everything is
// sent as early as it may be.
func TestLimitsOfAConversation(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *connector.Client, int) error{
		"what is sent": func(ctx context.Context, c *connector.Client, i int) error {
			ref := thread("19:x;messageid=1", "t1")
			switch i % 4 {
			case 0:
				return c.Update(ctx, ref, "1", message())
			case 1:
				return c.Delete(ctx, ref, "1", false)
			case 2:
				_, err := c.Reply(ctx, ref, "1", message())
				return err
			default:
				_, err := c.Send(ctx, ref, message())
				return err
			}
		},
		"what is created": func(ctx context.Context, c *connector.Client, _ int) error {
			_, err := c.CreateConversation(ctx, reference(serviceURL), "29:mia", message())
			return err
		},
	} {
		for _, senders := range []int{1, 40} {
			t.Run(fmt.Sprintf("%s by %d", name, senders), func(t *testing.T) {
				inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
					times := asEarlyAsMayBe(t, l, senders, func(i int) error { return do(t.Context(), c, i) })
					for span, most := range conversationLimits {
						within(t, times, most, span)
					}
					if len(times) < 2*1500 {
						t.Errorf("%d calls in two hours: slower than need be", len(times))
					}
				})
			})
		}
	}
}

// asEarlyAsMayBe calls for two hours, and lets the bursts fill again now and then.
func asEarlyAsMayBe(t *testing.T, l *logbook, senders int, do func(i int) error) []time.Duration {
	t.Helper()
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for i := 0; time.Since(l.start) < 2*time.Hour; i++ {
				var e *connector.Error
				err := do(i)
				switch {
				case errors.As(err, &e) && e.HeldBack && e.Status == 429 && e.RetryAfter > 0:
					time.Sleep(e.RetryAfter)
				case err != nil:
					t.Error(err)
					return
				}
				if i%1000 == 999 {
					time.Sleep(3 * time.Minute)
				}
			}
		})
	}
	wg.Wait()
	return l.times(everything)
}

// TestTheTimeThatARefusalNames is when there is room.
func TestTheTimeThatARefusalNames(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		ref := thread("busy", "t1")
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		for range 6 {
			if _, err := c.Send(ctx, ref, message()); err != nil {
				t.Fatal(err)
			}
		}
		var e *connector.Error
		_, err := c.Send(ctx, ref, message())
		if !errors.As(err, &e) || !e.HeldBack || e.Status != 429 || e.RetryAfter > 2*time.Second || time.Since(l.start) != 0 {
			t.Fatalf("a wait that the deadline does not allow: %v after %v", err, time.Since(l.start))
		}
		time.Sleep(e.RetryAfter)
		if _, err := c.Send(t.Context(), ref, message()); err != nil || time.Since(l.start) != e.RetryAfter {
			t.Errorf("err = %v after %v, want none after %v", err, time.Since(l.start), e.RetryAfter)
		}
	})
}

// TestTextWithAttachmentsIsTwoMessages for Teams, but one request.
func TestTextWithAttachmentsIsTwoMessages(t *testing.T) {
	t.Parallel()
	a := message()
	a.Attachments = []activity.Attachment{{ContentType: "image/png", ContentURL: "https://x.example/1"}}
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		for range 60 {
			if _, err := c.Send(t.Context(), thread("busy", ""), a); err != nil {
				t.Fatal(err)
			}
		}
		times := l.times(everything)
		within(t, times, 3, time.Second)
		within(t, times, 4, 2*time.Second)
		within(t, times, 30, 30*time.Second)
	})
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		for n := range 10 {
			if _, err := c.Reply(t.Context(), thread(fmt.Sprint(n), "t1"), "1", a); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(l.start); took != 0 {
			t.Errorf("10 requests of a tenant took %v", took)
		}
	})
}

// TestLimitsAtRandom has many conversations of two tenants send as they like.
func TestLimitsAtRandom(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		var wg sync.WaitGroup
		for n := range 40 {
			ref := thread(fmt.Sprintf("c%d-%d", n%2, n/2), fmt.Sprintf("tenant%d", n%2))
			for sender := range 2 {
				wg.Go(func() {
					pause := rand.New(rand.NewPCG(uint64(sender), uint64(n)))
					for range 40 {
						if _, err := c.Send(t.Context(), ref, message()); err != nil {
							var e *connector.Error
							if !errors.As(err, &e) || e.Status != 429 {
								t.Error(err)
							}
							return
						}
						if n%3 == 0 {
							time.Sleep(time.Duration(pause.Int64N(int64(time.Second))))
						}
					}
				})
			}
		}
		wg.Wait()
		if len(l.all) < 2000 {
			t.Errorf("only %d calls were made", len(l.all))
		}
		for tenant := range 2 {
			within(t, l.times(func(e entry) bool { return strings.Contains(e.path, fmt.Sprintf("/c%d-", tenant)) }), 50, time.Second)
		}
		for n := range 40 {
			id := fmt.Sprintf("/c%d-%d/", n%2, n/2)
			times := l.times(func(e entry) bool { return strings.Contains(e.path, id) })
			for span, most := range map[time.Duration]int{time.Second: 7, 2 * time.Second: 8, 30 * time.Second: 60} {
				within(t, times, most, span)
			}
		}
	})
}

func TestABusyConversationHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		var wg sync.WaitGroup
		for range 30 { // waits of up to half a minute in one conversation
			wg.Go(func() { _, _ = c.Send(t.Context(), thread("busy", "t1"), message()) })
		}
		synctest.Wait()
		for _, ref := range []schema.ConversationReference{thread("quiet", "t1"), thread("quiet", "")} {
			start := time.Now()
			if _, err := c.Send(t.Context(), ref, message()); err != nil || time.Since(start) != 0 {
				t.Errorf("%s of %s waited %v (%v)", ref.Conversation.ID, ref.Conversation.TenantID, time.Since(start), err)
			}
		}
		if _, err := c.Team(t.Context(), thread("busy", "t1"), "19:t"); err != nil || time.Since(l.start) != 0 {
			t.Errorf("a question waited for what is sent: %v", err)
		}
		wg.Wait()
	})
}

// TestReactions: two a second at most, which take no room of messages.
func TestReactions(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := c.React(t.Context(), thread("busy", "t1"), "1", "like", true); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for range 6 {
			if _, err := c.Send(t.Context(), thread("busy", "t1"), message()); err != nil || time.Since(l.start) != 0 {
				t.Errorf("a message after %v: %v", time.Since(l.start), err)
			}
		}
		wg.Wait()
		within(t, l.times(func(e entry) bool { return strings.Contains(e.path, "/reactions/") }), 2, time.Second)
	})
}

func TestLimitsKeepTheOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				a := message()
				a.Text = fmt.Sprintf("<%02d>", i)
				if _, err := c.Send(t.Context(), thread("busy", "t1"), a); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		for i, e := range l.all {
			if !strings.Contains(e.body, fmt.Sprintf("<%02d>", i)) {
				t.Fatalf("activity %d is %s", i, e.body)
			}
		}
	})
}

func TestLimitsOfATenant(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		var wg sync.WaitGroup
		for n := range 160 { // a tenant is one in whatever letters
			wg.Go(func() { _, _ = c.Reply(t.Context(), thread(fmt.Sprint(n), []string{"t1", "T1"}[n%2]), "1", message()) })
		}
		wg.Wait()
		times := l.times(everything)
		within(t, times, 50, time.Second)
		if last := times[len(times)-1]; len(times) != 160 || last > 4*time.Second {
			t.Errorf("160 conversations took %v for %d calls, want four seconds at most", last, len(times))
		}
	})
}

// TestAChannelIsOneConversation with all its threads, in whatever letters.
func TestAChannelIsOneConversation(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		var wg sync.WaitGroup
		for n := range 20 {
			wg.Go(func() {
				id := fmt.Sprintf("%s;messageid=%d", []string{"19:c@thread.tacv2", "19:C@thread.tacv2"}[n%2], n)
				if _, err := c.Send(t.Context(), thread(id, ""), message()); err != nil {
					t.Error(err)
				}
				if n >= 5 {
					return
				}
				if _, err := c.Send(t.Context(), thread("19:c@thread.tacv2", ""), message()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		times := l.times(everything)
		within(t, times, 7, time.Second)
		within(t, times, 8, 2*time.Second)
		if len(times) != 25 {
			t.Errorf("%d calls, want 25", len(times))
		}
	})
}

// TestLimitsAfterAWaitForTheToken: what waited for it does not leave together.
func TestLimitsAfterAWaitForTheToken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		n, most int
		do      func(context.Context, *connector.Client) error
	}{
		{"send", 20, 7, func(ctx context.Context, c *connector.Client) error {
			_, err := c.Send(ctx, thread("busy", ""), message())
			return err
		}},
		{"question", 120, 50, func(ctx context.Context, c *connector.Client) error {
			_, err := c.Team(ctx, thread("busy", "t1"), "19:t")
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &logbook{start: time.Now()}
			c := scripted(t, l, connector.TokensFrom(func(context.Context) (string, error) {
				time.Sleep(5 * time.Second)
				return "t", nil
			}))
			var wg sync.WaitGroup
			for range tt.n {
				wg.Go(func() {
					if err := tt.do(t.Context(), c); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			times := l.times(everything)
			within(t, times, tt.most, time.Second)
			if len(times) != tt.n || times[0] != 5*time.Second {
				t.Errorf("%s: %d calls from %v on", tt.name, len(times), times[0])
			}
		})
	}
}

func TestRetriesCountAgainstTheLimits(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		l.status = func(n int) int {
			if n%5 == 0 {
				return http.StatusOK
			}
			return http.StatusBadGateway
		}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				for range 4 {
					_, _ = c.Send(t.Context(), thread("busy", ""), message())
				}
			})
		}
		wg.Wait()
		times := l.times(everything)
		if len(times) < 60 {
			t.Errorf("%d calls", len(times))
		}
		within(t, times, 7, time.Second)
		within(t, times, 8, 2*time.Second)
		within(t, times, 60, 30*time.Second)
	})
}

// TestWhoStopsWaitingFreesItsPlace in the conversation.
func TestWhoStopsWaitingFreesItsPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		ref := thread("busy", "")
		for range 6 {
			if _, err := c.Send(t.Context(), ref, message()); err != nil {
				t.Fatal(err)
			}
		}
		waiting, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := c.Send(waiting, ref, message())
			gone <- err
		}()
		synctest.Wait()
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) || len(l.all) != 6 {
			t.Errorf("who left: %v, %d calls", err, len(l.all))
		}
		if _, err := c.Send(t.Context(), ref, message()); err != nil || time.Since(l.start) > 1200*time.Millisecond {
			t.Errorf("the next call: %v after %v", err, time.Since(l.start))
		}
	})
}

// TestWhoIsFarBackIsTurnedAwayAtOnce, with the time at which there is room.
func TestWhoIsFarBackIsTurnedAwayAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		var wg sync.WaitGroup
		var turned atomic.Int32
		for range 200 {
			wg.Go(func() {
				var e *connector.Error
				if _, err := c.Send(t.Context(), thread("busy", ""), message()); !errors.As(err, &e) {
					return
				}
				turned.Add(1)
				if e.RetryAfter <= 30*time.Second || time.Since(l.start) != 0 {
					t.Errorf("turned away after %v for %v", time.Since(l.start), e.RetryAfter)
				}
			})
		}
		wg.Wait()
		if sent := len(l.all); sent+int(turned.Load()) != 200 || sent < 30 || sent > 60 {
			t.Errorf("%d were sent and %d turned away", sent, turned.Load())
		}
	})
}

func TestTypingThatWouldWaitIsDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		ref := thread("busy", "")
		for range 10 {
			if _, err := c.Send(t.Context(), ref, activity.To(ref, activity.Typing)); err != nil && !heldBack(err) {
				t.Fatal(err)
			}
		}
		if len(l.all) != 6 || time.Since(l.start) != 0 {
			t.Errorf("%d of ten indicators were sent in %v, want six at once", len(l.all), time.Since(l.start))
		}
		if _, err := c.Send(t.Context(), ref, activity.To(ref, activity.Typing)); !heldBack(err) {
			t.Errorf("err = %v, want one that is held back", err)
		}
	})
}

// TestTypingLeavesRoom in its tenant for growing messages and for replies.
func TestTypingLeavesRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		for n := range 20 {
			ref := thread(fmt.Sprint(n), "t1")
			if _, err := c.Send(t.Context(), ref, activity.To(ref, activity.Typing)); err != nil && !heldBack(err) {
				t.Fatal(err)
			}
		}
		typed := len(l.all)
		for n := range 3 {
			ref := thread(fmt.Sprint("growing", n), "t1")
			part := activity.To(ref, activity.Typing)
			part.Text = "You have"
			part.SetStream(activity.StreamInfo{Type: activity.StreamText, Sequence: 1})
			if _, err := c.Send(t.Context(), ref, part); err != nil {
				t.Errorf("after %d indicators part %d: %v", typed, n, err)
			}
		}
		if typed != 5 || time.Since(l.start) != 0 {
			t.Errorf("%d of 20 indicators were sent in %v, want five at once", typed, time.Since(l.start))
		}
	})
}

// TestTypingIsNotSentLate: a wait that the connector asks for would make it a lie.
func TestTypingIsNotSentLate(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		l.status = func(int) int { return http.StatusTooManyRequests }
		var e *connector.Error
		ref := thread("busy", "")
		if _, err := c.Send(t.Context(), ref, activity.To(ref, activity.Typing)); !errors.As(err, &e) || len(l.all) != 1 || time.Since(l.start) != 0 {
			t.Errorf("err = %v after %d calls and %v, want the 429 at once", err, len(l.all), time.Since(l.start))
		}
	})
}

// TestTypingThatWasLostIsNotDropped: what got no answer is told, and not tried again.
func TestTypingThatWasLostIsNotDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := scripted(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			if calls++; calls < 6 {
				return says(200)(r)
			}
			httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
			return breaks(r)
		}), fixedToken("t"))
		ref := thread("busy", "")
		for range 5 {
			if _, err := c.Send(t.Context(), ref, activity.To(ref, activity.Typing)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Send(t.Context(), ref, activity.To(ref, activity.Typing)); !errors.Is(err, connector.ErrNoAnswer) || calls != 6 {
			t.Errorf("err = %v after %d calls, want ErrNoAnswer after six", err, calls)
		}
	})
}

// TestOnlyMicrosoftIsLimited: a connector of the operator's knows its own limits.
func TestOnlyMicrosoftIsLimited(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		local bool
		url   string
	}{{false, "https://connector.example/x"}, {false, "http://127.0.0.1:7001/"}, {true, "http://localhost:7002"}, {true, "https://connector.example/x"}} {
		synctest.Test(t, func(t *testing.T) {
			l := &logbook{start: time.Now()}
			c := newClient(t, connector.Config{Transport: l, AllowedHosts: []string{"connector.example"}}, nil)
			if !tt.local {
				c = newClient(t, withApp(l, "connector.example", "127.0.0.1:7001"), fixedToken("t"))
			}
			ref := thread("busy", "t1")
			ref.ServiceURL = tt.url
			for range 300 {
				if _, err := c.Send(t.Context(), ref, message()); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(l.start); took != 0 || len(l.all) != 300 {
				t.Errorf("%s: %d calls took %v", tt.url, len(l.all), took)
			}
		})
	}
}

func heldBack(err error) bool {
	refused, ok := errors.AsType[*connector.Error](err)
	return ok && refused.HeldBack
}

// TestPartsOfAStream go to the conversation, once and without a wait. The end is no reply either, but
// waits and is repeated as a message is.
func TestPartsOfAStream(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		ref := thread("mia", "")
		ref.Conversation.ConversationType = "personal"
		part := activity.To(ref, activity.Typing)
		part.Text = "You have"
		part.SetStream(activity.StreamInfo{Type: activity.StreamText, Sequence: 1})
		l.status = func(n int) int { return []int{200, 429, 429, 200}[min(n, 4)-1] }
		_, first := c.Send(t.Context(), ref, part)
		_, second := c.Send(t.Context(), ref, part)
		if first != nil || second == nil || heldBack(second) || len(l.all) != 2 || time.Since(l.start) != 0 {
			t.Errorf("%v, %v after %d calls and %v", first, second, len(l.all), time.Since(l.start))
		}
		end := message()
		end.SetStream(activity.StreamInfo{ID: "s1", Type: activity.StreamFinal})
		if _, err := c.Reply(t.Context(), ref, "a1", end); err != nil || len(l.all) != 4 {
			t.Errorf("%v after %d calls", err, len(l.all))
		}
		for _, e := range l.all {
			if !strings.HasSuffix(e.path, "/v3/conversations/mia/activities") {
				t.Errorf("%s %s", e.method, e.path)
			}
		}
		if !strings.Contains(l.all[0].body, `"channelId":"msteams"`) || !strings.Contains(l.all[0].body, `"conversationType":"personal"`) {
			t.Errorf("the body lacks what the Playground wants: %s", l.all[0].body)
		}
	})
}

// TestPartsLeaveRoomForMessages, in their conversation and their tenant.
func TestPartsLeaveRoomForMessages(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *logbook, c *connector.Client) {
		part := func(conversation, tenant string) error {
			ref := thread(conversation, tenant)
			a := activity.To(ref, activity.Typing)
			a.Text = "You have"
			a.SetStream(activity.StreamInfo{Type: activity.StreamText, Sequence: 1})
			_, err := c.Send(t.Context(), ref, a)
			if err != nil && !heldBack(err) {
				t.Fatal(err)
			}
			return err
		}
		for part("busy", "") == nil {
		}
		parts := len(l.all)
		for range 2 {
			if _, err := c.Send(t.Context(), thread("busy", ""), message()); err != nil {
				t.Fatal(err)
			}
		}
		if parts == 0 || time.Since(l.start) != 0 {
			t.Errorf("after %d parts two messages waited %v", parts, time.Since(l.start))
		}
		sent := 0
		for range 100 { // ten seconds of a tenant with many conversations
			for n := range 10 {
				if part(fmt.Sprint("c", n), "t1") == nil {
					sent++
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if sent < 40 || sent > 250 {
			t.Errorf("%d parts of a tenant in ten seconds, want half of what it may have at most", sent)
		}
	})
}
