package turnlog_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
)

// tested is a log with what a bot would tell it.
type tested struct {
	*testing.T
	*turnlog.Log
}

func newLog(t *testing.T, cfg turnlog.Config) tested {
	t.Helper()
	cfg.MaxPerSecond = 10_000 // tests are fast
	l := turnlog.New(cfg)
	t.Cleanup(l.Close)
	return tested{t, l}
}

// settle waits until all is recorded.
func (l tested) settle() {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.Context(), 30*time.Second)
	defer cancel()
	if err := l.Settle(ctx); err != nil {
		l.Fatal(err)
	}
}

// receive begins a turn with an activity of that conversation.
func (l tested) receive(id, conversation string, fields ...string) {
	more := strings.Join(fields, "")
	for name, value := range map[string]string{"type": "message", "text": "hello"} {
		if !strings.Contains(more, `"`+name+`":`) {
			more += `,"` + name + `":"` + value + `"`
		}
	}
	raw := `{"id":"` + id + `","from":{"id":"u","name":"Mia"},"conversation":{"id":"` + conversation + `"}` + more + `}`
	l.WatchTurn(turn.Event{Turn: id, At: time.Now(), Received: &turn.Received{Activity: []byte(raw), Text: "hello"}})
}

func (l tested) end(id, outcome string) {
	l.WatchTurn(turn.Event{Turn: id, At: time.Now(), Ended: &turn.Ended{Outcome: outcome}})
}

// says is a call of an action with that result.
func (l tested) says(id, text string) {
	l.WatchTurn(turn.Event{Turn: id, Called: &turn.Called{Command: plan.Command{Action: "a"}, Result: actions.Text("%s", text)}})
}

// sends sends a message as the bot does in that turn; the channel gives it that id.
func (l tested) sends(turnID, id string, a *activity.Activity, err error) {
	ctx := turnid.With(l.Context(), turnid.Of{Turn: turnID})
	if got, failed := l.Channel(channel{id: id, err: err}).Send(ctx, activity.Reference{}, a); got != id || !errors.Is(failed, err) {
		l.Errorf("the channel answers %q, %v", got, failed)
	}
}

// channel answers with an id.
type channel struct {
	turn.Channel
	id  string
	err error
}

func (c channel) Send(context.Context, activity.Reference, *activity.Activity) (string, error) {
	return c.id, c.err
}

// turn is the record of a turn, which must be there.
func (l tested) turn(id string) turnlog.Record {
	l.Helper()
	r, ok := l.Turn(id)
	if !ok {
		l.Fatalf("no turn %s", id)
	}
	return r
}

// ids are those of all turns, oldest first.
func (l tested) ids() (all []string) {
	for _, h := range slices.Backward(l.Turns()) {
		all = append(all, h.ID)
	}
	return all
}

// TestMostTurns keeps 200 turns: the newest ones, and those that somebody has to see.
func TestMostTurns(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	for i := range 250 {
		id := fmt.Sprintf("turn%03d", i)
		l.receive(id, fmt.Sprint("room", i%3))
		outcome := turnlog.OK
		if i == 1 {
			outcome = turnlog.Parked
		}
		l.end(id, outcome)
		l.settle()
		if i == 2 && !l.Pin(id, true) {
			t.Error("a turn cannot be pinned")
		}
	}
	got := l.ids()
	if len(got) != 200 || got[0] != "turn001" || got[1] != "turn002" || got[2] != "turn052" || got[199] != "turn249" {
		t.Errorf("%d turns, from %v to %v", len(got), got[:3], got[len(got)-1])
	}
	if !l.turn("turn002").Pinned || !l.Pin("turn002", false) || l.turn("turn002").Pinned || l.Pin("nobody", true) {
		t.Error("pins")
	}
}

// Pinned turns go after dead letters, if nothing else is left to go.
func TestPinnedTurnsGoLast(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{MaxTurns: 3})
	for _, id := range []string{"pinned", "parked", "other"} {
		l.receive(id, id)
		l.end(id, map[string]string{"parked": turnlog.Parked, "pinned": turnlog.OK, "other": turnlog.OK}[id])
	}
	l.settle()
	l.Pin("pinned", true)
	for i, want := range []string{"pinned parked 0", "pinned 0 1", "pinned 1 2"} {
		id := fmt.Sprint(i)
		l.receive(id, id)
		l.end(id, turnlog.Parked)
		l.settle()
		if got := strings.Join(l.ids(), " "); got != want {
			t.Errorf("after %d: %s, want %s", i, got, want)
		}
	}
}

// One conversation that is busy leaves half of the room to the others.
func TestHalfForOneConversation(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{MaxTurns: 10})
	for i := range 5 {
		l.receive(fmt.Sprint("quiet", i), "quiet")
	}
	for i := range 50 {
		l.receive(fmt.Sprint("busy", i), "busy")
	}
	l.settle()
	quiet := slices.DeleteFunc(l.ids(), func(id string) bool { return !strings.HasPrefix(id, "quiet") })
	if len(quiet) != 5 || len(l.ids()) != 10 {
		t.Errorf("%v are left of the quiet conversation", quiet)
	}
}

const text256 = 256 << 10

// TestMostBytes cuts texts and turns that are too large, and keeps 64 MiB in all.
func TestMostBytes(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	fits, over := strings.Repeat("a", text256), strings.Repeat("b", text256+1)
	l.receive("one", "c")
	l.says("one", fits)
	l.settle()
	if r := l.turn("one"); r.Cut || r.Commands[0].Text != fits {
		t.Error("a text of 256 KiB is cut")
	}
	l.says("one", over)
	l.settle()
	want := fmt.Sprintf("[left out: %d bytes, sha256 %x]", len(over), sha256.Sum256([]byte(over)))
	if r := l.turn("one"); !r.Cut || r.Commands[1].Text != want {
		t.Errorf("cut: %v, %.200s", r.Cut, r.Commands[1].Text)
	}
	size := func(id string) (n int) {
		for _, c := range l.turn(id).Commands {
			n += len(c.Text)
		}
		return n
	}
	for i := range 50 {
		id := fmt.Sprint("large", i)
		l.receive(id, id)
		for range 10 {
			l.says(id, fits)
		}
		l.settle()
		if n := size(id); n < 7*text256 || n > 2<<20 || !l.turn(id).Cut {
			t.Fatalf("a turn holds %d bytes", n)
		}
	}
	all := 0
	for _, id := range l.ids() {
		all += size(id)
	}
	if ids := l.ids(); all > 64<<20 || all < 60<<20 || ids[len(ids)-1] != "large49" {
		t.Errorf("%d bytes are kept", all)
	}
}

// TestScrubbed has a secret wherever something comes from, and looks for it wherever something is kept.
func TestScrubbed(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-the-password"
	const known = "sk-proj-Zm9vYmFyYmF6cXV4cXV1eHF1dXV4MDEyMzQ1Njc4OQ"
	both := "my " + secret + " and " + known
	l := newLog(t, turnlog.Config{Secrets: []string{secret}})
	state := func() turn.State { return turn.State{"user": {"note": []byte(`"` + both + `"`)}} }
	now := func() turn.State { return turn.State{"user": {"note": []byte(`"now ` + both + `"`)}} }
	raw := `{"type":"message","id":"1","from":{"id":"u","name":"` + both + `"},"conversation":{"id":"c"},"text":"` + both + `"}`
	l.WatchTurn(turn.Event{Turn: "one", Received: &turn.Received{Text: both, Dropped: both, Activity: []byte(raw)}})
	l.WatchTurn(turn.Event{Turn: "one", Began: &turn.Began{}, State: state})
	l.WatchPlanner(planner.Event{Turn: "one", Asked: &planner.Asked{Sections: []planner.Section{{Name: "person", Message: models.Message{Role: "user", Text: both, Calls: []models.Call{{Arguments: both}}}}}}})
	p := plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: both}, {Kind: plan.Do, Action: "a", Entities: map[string]any{"x": both}}}}
	l.WatchPlanner(planner.Event{Turn: "one", Answered: &planner.Answered{
		Response: &models.Response{Text: both, Calls: []models.Call{{Name: "a", Arguments: both}}}, Err: errors.New(both), Fault: errors.New(both), Told: both, Plan: &p,
	}})
	l.WatchTurn(turn.Event{Turn: "one", Planned: &p})
	l.WatchTurn(turn.Event{Turn: "one", Called: &turn.Called{
		Command: p.Commands[1], Entities: p.Commands[1].Entities, Result: actions.Text("%s", both), Err: both,
	}, State: now})
	l.WatchTurn(turn.Event{Turn: "one", Saved: &turn.Saved{Record: []byte(`{"phase":"waiting","wait":{"for":"operator","reason":"` + secret + `"}}`), Err: both}})
	l.sends("one", "7", &activity.Activity{Type: activity.Message, Text: both}, errors.New(both))
	log := zerolog.New(l.Writer()).With().Str("turn", "one").Logger()
	log.Error().Str("x", both).Err(errors.New(both)).Msg(both)
	l.WatchTurn(turn.Event{Turn: "one", Ended: &turn.Ended{Outcome: turnlog.Failed, Err: both, Answer: []byte(`{"value":"` + both + `"}`)}, State: state})
	l.settle()
	r := l.turn("one")
	kept, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rounds) != 1 || len(r.Plans) != 1 || len(r.Commands) != 1 || len(r.Journal) == 0 || len(r.Sent) != 1 || len(r.Log) != 1 || len(r.Changes) < 2 || r.Error == "" {
		t.Errorf("not all is recorded: %s", kept)
	}
	for line := range strings.SplitSeq(string(kept), "\n") {
		if strings.Contains(line, secret) || strings.Contains(line, known) {
			t.Errorf("a secret is kept: %s", line)
		}
	}
	if n := strings.Count(string(kept), "[secret]"); n < 30 {
		t.Errorf("only %d secrets were found: %s", n, kept)
	}
}

// TestLost fills the log while nobody takes from it: nothing waits for it, and the record says that
// something is missing, also if nothing more comes of the turn.
func TestLost(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 10_000), make(chan struct{})
	l := newLog(t, turnlog.Config{Changed: func(turnlog.Head) {
		entered <- struct{}{}
		<-release
	}})
	l.receive("first", "c")
	<-entered // the log is busy now
	l.receive("second", "c")
	l.receive("whole", "c")
	l.end("whole", turnlog.OK)
	for range 5000 {
		l.says("second", "x")
		l.says("unknown", "x") // of which nothing is kept
	}
	l.end("second", turnlog.OK)
	l.end("first", turnlog.OK)
	close(release)
	l.settle()
	if r := l.turn("first"); !r.Incomplete || r.Outcome != turnlog.Running {
		t.Errorf("a turn whose end was lost: %+v", r.Head)
	}
	if r := l.turn("second"); !r.Incomplete || len(r.Commands) == 0 || len(r.Commands) >= 5000 || r.Outcome != turnlog.Running {
		t.Errorf("incomplete: %v, %d calls, %s", r.Incomplete, len(r.Commands), r.Outcome)
	}
	if r := l.turn("whole"); r.Incomplete || r.Outcome != turnlog.OK {
		t.Errorf("a turn of which nothing was lost: %+v", r.Head)
	}
}

// TestManyAtOnce records turns of many goroutines while others read them.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{MaxTurns: 20})
	reading, stop := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for reading.Err() == nil {
				for _, h := range l.Turns() {
					r, _ := l.Turn(h.ID)
					if _, err := json.Marshal(r); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for i := range 25 {
				id := fmt.Sprintf("turn-%d-%d", w, i)
				l.receive(id, id)
				l.WatchTurn(turn.Event{Turn: id, Began: &turn.Began{}, State: func() turn.State { return turn.State{"user": {"n": []byte("1")}} }})
				l.says(id, "done")
				l.sends(id, id, &activity.Activity{Type: activity.Message, Text: "hi"}, nil)
				l.Pin(id, i%2 == 0)
				l.end(id, turnlog.OK)
				if i%5 == 4 {
					l.settle()
				}
			}
		})
	}
	writers.Wait()
	l.settle()
	stop()
	readers.Wait()
	if n := len(l.Turns()); n != 20 {
		t.Errorf("%d turns are kept", n)
	}
	for _, h := range l.Turns() {
		if r := l.turn(h.ID); h.Incomplete || h.Outcome != turnlog.OK || len(r.Commands) != 1 || len(r.Sent) != 1 || len(r.Changes) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestParents: only a click on what a turn has sent makes it the parent.
func TestParents(t *testing.T) {
	t.Parallel()
	const about = `,"value":{"turn":"asksforthis1","x":"asksforthis1"}`
	for name, c := range map[string]struct {
		conversation, fields, want string
	}{
		"a click":                {"c", `,"replyToId":"77"` + about, "asksforthis1"},
		"a click on a card":      {"c", `,"type":"invoke","name":"adaptiveCard/action","replyToId":"77"` + about, "asksforthis1"},
		"in a thread":            {"c;messageid=1", `,"replyToId":"77"` + about, "asksforthis1"},
		"a text with the id":     {"c", `,"text":"asksforthis1"`, ""},
		"a value with the id":    {"c", about, ""},
		"another message":        {"c", `,"replyToId":"78"` + about, ""},
		"another conversation":   {"d", `,"replyToId":"77"` + about, ""},
		"a reply that says so":   {"c", `,"replyToId":"77"`, ""},
		"an invoke of something": {"c", `,"type":"invoke","name":"task/fetch","replyToId":"77"` + about, ""},
	} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprint(name, early), func(t *testing.T) {
				t.Parallel()
				l := newLog(t, turnlog.Config{})
				l.receive("asksforthis1", "c")
				if early { // the click is faster than the answer to who sent the card
					l.receive("click", c.conversation, c.fields)
				}
				l.sends("asksforthis1", "77", &activity.Activity{Type: activity.Message, Text: "May I?"}, nil)
				if !early {
					l.receive("click", c.conversation, c.fields)
				}
				l.settle()
				if got := l.turn("click").Parent; got != c.want {
					t.Errorf("the parent is %q, want %q", got, c.want)
				}
			})
		}
	}
}

// TestClicks: a click says what it pressed, where, and why it did not count. The text of another card's answer is no refusal.
func TestClicks(t *testing.T) {
	t.Parallel()
	const no = `{"body":{"value":"You can't decide this."}}`
	for name, c := range map[string]struct{ room, verb, answer, refused, parent string }{
		"decided":      {"c", "planbot/approve", `{"body":{"value":{"type":"AdaptiveCard"}}}`, "", "asksforthis1"},
		"refused":      {"c", "planbot/approve", no, "You can't decide this.", "asksforthis1"},
		"another card": {"c", "lunch", no, "", "asksforthis1"},
		"elsewhere":    {"otto", "planbot/approve", no, "You can't decide this.", "asksforthis1"},
		"of nothing":   {"else", "planbot/approve", no, "You can't decide this.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLog(t, turnlog.Config{})
			l.receive("asksforthis1", "c")
			l.sends("asksforthis1", "77", &activity.Activity{Type: activity.Message, Text: "May I?"}, nil)
			var to activity.Reference
			to.Conversation.ID = "otto"
			ctx := turnid.With(t.Context(), turnid.Of{Turn: "asksforthis1"})
			if _, err := l.Channel(channel{id: "77"}).Send(ctx, to, &activity.Activity{Type: activity.Message}); err != nil {
				t.Fatal(err)
			}
			l.receive("click", c.room, `,"type":"invoke","name":"adaptiveCard/action","replyToId":"77","value":{"action":{"title":"Approve","verb":"`+c.verb+`"}}`)
			l.WatchTurn(turn.Event{Turn: "click", At: time.Now(), Ended: &turn.Ended{Outcome: turnlog.OK, Answer: []byte(c.answer)}})
			l.settle()
			want := "clicked Approve"
			if c.parent != "" {
				want += " on “hello”"
			}
			if r := l.turn("click"); r.Text != want || r.Refused != c.refused || r.Parent != c.parent {
				t.Errorf("%q, refused %q, a click on %q", r.Text, r.Refused, r.Parent)
			}
		})
	}
}

// TestUnchanged: a turn whose actions found nothing to act on is told from one that did something.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	for id, last := range map[string]actions.Result{"none": actions.Unchanged("there is no list"), "some": actions.Done} {
		l.receive(id, id)
		for _, result := range []actions.Result{actions.Unchanged("there is no list"), last} {
			l.WatchTurn(turn.Event{Turn: id, Called: &turn.Called{Command: plan.Command{Action: "a"}, Result: result}})
		}
		l.end(id, turnlog.OK)
	}
	l.settle()
	if !l.turn("none").Unchanged || l.turn("some").Unchanged {
		t.Errorf("none: %t, some: %t", l.turn("none").Unchanged, l.turn("some").Unchanged)
	}
}

// TestPromptAction: what an action asks a model is a round of the turn, and a call that is counted.
func TestPromptAction(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	l.receive("one", "c")
	for _, kind := range []string{"sequence", "action"} {
		l.WatchPlanner(planner.Event{Turn: "one", Asked: &planner.Asked{Planner: kind, Prompt: kind}})
		l.WatchPlanner(planner.Event{Turn: "one", Answered: &planner.Answered{Response: &models.Response{Text: kind, Usage: models.Usage{Prompt: 5, Completion: 2}}}})
	}
	l.settle()
	r := l.turn("one")
	if r.ModelCalls != 2 || r.TokensIn != 10 || len(r.Rounds) != 2 || r.Rounds[1].Planner != "action" || r.Rounds[1].Answer.Text != "action" || r.Rounds[1].Plan != nil {
		t.Errorf("%+v", r)
	}
}

// TestPaused: the time that a person takes to decide is no work of the turn.
func TestPaused(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	l.receive("1", "c")
	l.settle()
	began := l.turn("1").At
	see := func(after time.Duration, e turn.Event) {
		e.Turn, e.At = "1", began.Add(after)
		l.WatchTurn(e)
	}
	see(time.Second, turn.Event{Began: &turn.Began{}, State: func() turn.State { return turn.State{} }})
	for i := range 2 {
		at := time.Duration(i) * time.Hour
		see(at+2*time.Second, turn.Event{Saved: &turn.Saved{Record: []byte(`{"phase":"waiting"}`)}})
		see(at+3*time.Second, turn.Event{Ended: &turn.Ended{Outcome: turnlog.Waiting}})
		see(at+time.Hour, turn.Event{Began: &turn.Began{Again: true}, State: func() turn.State { return turn.State{} }})
	}
	see(2*time.Hour+time.Second, turn.Event{Ended: &turn.Ended{Outcome: turnlog.OK}})
	l.settle()
	r := l.turn("1")
	if r.WaitedNS != time.Second || r.PausedNS != 2*time.Hour-6*time.Second || r.TookNS != 6*time.Second || r.Over().Sub(began) != 2*time.Hour+time.Second {
		t.Errorf("waited %s, paused %s, took %s, over after %s", r.WaitedNS, r.PausedNS, r.TookNS, r.Over().Sub(began))
	}
	if got := r.Journal[1].PausedNS; got != time.Hour-3*time.Second {
		t.Errorf("the first wait took %s", got)
	}
}

// TestLostCall: a call whose outcome went with its process is not told as if it had been done twice.
func TestLostCall(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	l.receive("1", "c")
	at := time.Now()
	see := func(e turn.Event) {
		at = at.Add(time.Second)
		e.Turn, e.At = "1", at
		l.WatchTurn(e)
	}
	call := turn.Event{Called: &turn.Called{Command: plan.Command{Action: "a"}, Result: actions.Done}}
	saved := turn.Event{Saved: &turn.Saved{Record: []byte(`{"phase":"running"}`)}}
	for _, e := range []turn.Event{
		{Began: &turn.Began{}}, {Planned: &plan.Plan{}}, call, {Began: &turn.Began{Tries: 1}}, // which plans again
		{Planned: &plan.Plan{}}, saved, call, saved, call, {Began: &turn.Began{Tries: 2, Again: true}}, call,
	} {
		see(e)
	}
	l.settle()
	var got []string
	for _, c := range l.turn("1").Commands {
		got = append(got, fmt.Sprint(c.Plan, c.Result))
	}
	if want := "1lost 1ok 1lost 1ok"; strings.Join(got, " ") != want || len(l.turn("1").Plans) != 1 {
		t.Errorf("the calls are %v, want %s", got, want)
	}
}

// TestTakenOver has what came in of a turn that another process received.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	raw := []byte(`{"type":"message","id":"a","from":{"id":"u","name":"Mia"},"conversation":{"id":"c"},"text":"hello"}`)
	l.WatchTurn(turn.Event{Turn: "1", At: time.Now(), Began: &turn.Began{Activity: raw, Text: "hello", Phase: "running", Tries: 1}})
	l.settle()
	if r := l.turn("1"); r.Person != "Mia" || r.Text != "hello" || r.Received.Text != "hello" || r.Activity != "a" || r.Tries != 1 {
		t.Errorf("%+v", r)
	}
}

// TestSharedState: what an action finds in the state that all conversations share is there before it, and nothing that it made.
// What others changed while it waited is theirs.
func TestSharedState(t *testing.T) {
	t.Parallel()
	l := newLog(t, turnlog.Config{})
	l.receive("1", "c")
	at := time.Now()
	see := func(e turn.Event, s turn.State) {
		at = at.Add(time.Second)
		e.Turn, e.At = "1", at
		if s != nil {
			e.State = func() turn.State { return s }
		}
		l.WatchTurn(e)
	}
	own := func(value string) map[string]jsontext.Value {
		return map[string]jsontext.Value{"a": jsontext.Value(value)}
	}
	call := turn.Event{Called: &turn.Called{Command: plan.Command{Action: "close"}, Result: actions.Done}}
	see(turn.Event{Began: &turn.Began{}}, turn.State{"conversation": own("1")})
	see(turn.Event{Loaded: true}, turn.State{"bot": own(`{"x":1,"y":2}`)})
	see(call, turn.State{"conversation": own("1"), "bot": own(`{"x":1}`)})
	see(turn.Event{Ended: &turn.Ended{Outcome: turnlog.Waiting}}, turn.State{"conversation": own("1"), "bot": own(`{"x":1}`)})
	see(turn.Event{Began: &turn.Began{}}, turn.State{"conversation": own("5")}) // which has not read it yet
	see(turn.Event{Loaded: true}, turn.State{"bot": own(`{"x":1,"z":3}`)})      // z is another turn's
	see(turn.Event{Ended: &turn.Ended{Outcome: turnlog.OK}}, turn.State{"conversation": own("5"), "bot": own(`{"x":1,"z":3}`)})
	l.settle()
	r := l.turn("1")
	others := turnlog.Change{Path: "conversation.a", Before: "1", After: "5", By: turnlog.Others}
	if want := []turnlog.Change{{Path: "bot.a.y", Before: "2", By: "close"}, others}; !slices.Equal(r.Changes, want) {
		t.Errorf("the changes are %+v", r.Changes)
	}
	if got := string(r.Before["bot"]["a"]); got != `{"x":1,"y":2}` {
		t.Errorf("before it was %s", got)
	}
}
