package bottest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/internal/plainjson"
)

// Outside notes what a bot does in the world outside. It is for the stand-ins of the services that the actions of a
// bot call, see [CrashScenarios]. It outlives a process. It is safe for concurrent use.
type Outside struct {
	mu   sync.Mutex
	did  []string
	keys map[string]bool
}

// Did notes that a service did something, such as "charged 5 EUR", as often as it is asked.
func (o *Outside) Did(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.did = append(o.did, what)
}

// Once is Did for a service that knows a request by its key, such as [actions.Attempt].Key: it does it once. It
// reports whether it has done it before.
func (o *Outside) Once(key, what string) (before bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.keys == nil {
		o.keys = map[string]bool{}
	}
	if before = o.keys[key]; !before {
		o.keys[key] = true
		o.did = append(o.did, what)
	}
	return before
}

// Crashes is what came of a scenario in which processes die.
type Crashes struct {
	Places  int // where a process can die: before and after each save
	Covered int // places at which one died; fewer, if the budget was too small
	Faults  []CrashFault
}

// CrashFault is something that no crash may lead to, in the shortest history that leads there.
type CrashFault struct {
	Text  string // such as: "charged 5 EUR" was done 2 times, not 1
	Place string // where the process died; "": none did
	Story string // what happened
}

// String counts the places.
func (c Crashes) String() string {
	return fmt.Sprintf("%d of %d places covered, %d faults", c.Covered, c.Places, len(c.Faults))
}

// PlayCrashes plays a scenario on two replicas again and again, and kills the process that makes a save, before it or
// after it, each time another one. Afterwards the bot has to have done and said what it does and says without that: a
// message may come twice, and the bot may say that it could not finish. newBot makes the bot for each history, see
// [Play] for what it may set. It ends with the budget; 0: a minute.
func PlayCrashes(s *record.Scenario, budget time.Duration, newBot func(out *Outside) Config) Crashes {
	if len(s.Faults) > 0 {
		return Crashes{Faults: []CrashFault{{Text: strings.Join(s.Faults, "\n")}}}
	}
	ends := time.Now().Add(cmp.Or(budget, time.Minute))
	want, again := live(s, newBot, nil), live(s, newBot, nil)
	result := Crashes{Places: 2 * want.saves}
	add := func(place string, h history, faults []string) {
		for _, text := range faults {
			i := slices.IndexFunc(result.Faults, func(f CrashFault) bool { return f.Text == text })
			switch {
			case i < 0:
				result.Faults = append(result.Faults, CrashFault{text, place, h.story})
			case len(h.story) < len(result.Faults[i].Story):
				result.Faults[i] = CrashFault{text, place, h.story}
			}
		}
	}
	if differs := want.judge(again); len(differs) > 0 {
		add("", again, []string{"it does or says something else each time, without a crash: " + strings.Join(differs, "; ")})
		return result
	}
	for n := range want.saves {
		for _, after := range []bool{false, true} {
			if time.Now().After(ends) {
				return result
			}
			d := &death{save: n, after: after}
			h := live(s, newBot, d)
			result.Covered++
			add(d.String(), h, want.judge(h))
		}
	}
	return result
}

// CrashScenarios is [PlayCrashes] for the scenarios in all files that match the patterns, each as a subtest, the shortest
// first. The longer ones share what those leave of the budget. newBot makes the bot for each of its processes: what it
// keeps in memory is lost with them.
func CrashScenarios(t *testing.T, budget time.Duration, newBot func(out *Outside) app.Bot, patterns ...string) {
	t.Helper()
	all := scenariosIn(t, patterns)
	slices.SortStableFunc(all, func(a, b record.Scenario) int { return len(a.Steps) - len(b.Steps) })
	ends := time.Now().Add(cmp.Or(budget, time.Minute))
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) {
			each := max(time.Until(ends)/time.Duration(len(all)-i), time.Nanosecond)
			c := PlayCrashes(&all[i], each, func(out *Outside) Config {
				return Config{Name: newBot(out).Name, New: func(ctx context.Context, parts Parts) (*bot.Bot, error) {
					return app.New(ctx, newBot(out), parts.Model, parts.Bot)
				}}
			})
			for _, f := range c.Faults {
				t.Errorf("%s\n%s\n%s", f.Text, f.Place, f.Story)
			}
			t.Log(c)
		})
	}
}

// death is where a process dies: before or after the n-th save of all processes.
type death struct {
	save  int // from 0
	after bool

	mu    sync.Mutex
	saves int
}

func (d *death) String() string {
	return fmt.Sprintf("the process died %s save %d", map[bool]string{false: "before", true: "after"}[d.after], d.save+1)
}

// isSave names the requests to Redis that save something of a turn. A script that Redis does not know yet comes twice.
func isSave(p []byte) string {
	if bytes.Contains(p, []byte("eval")) && (bytes.Contains(p, []byte("/records")) || bytes.Contains(p, []byte("/queue"))) {
		return "save"
	}
	return ""
}

var errDead = errors.New("this process is dead")

// at wraps the connections of a process.
func (d *death) at(p *process, to pipe.Dialer) pipe.Dialer {
	if d == nil {
		return to
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := to(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return pipe.Stepwise(conn, isSave, func(_ string, do func() error) error {
			d.mu.Lock()
			here := d.saves == d.save
			d.saves++
			d.mu.Unlock()
			if here && !d.after {
				p.kit.Kill(p.replica)
				return errDead
			}
			err := do()
			if here {
				p.kit.Kill(p.replica)
				return errDead
			}
			return err
		}), nil
	}
}

// history is one play of a scenario.
type history struct {
	saves int
	did   []string
	state map[string]string // by conversation
	said  map[string][]string
	sorry bool // the bot said that it could not finish
	stuck string
	story string
}

// unsure is what a model says that is told of something that the scenario does not know.
const unsure = `{"type":"plan","commands":[{"type":"SAY","response":"` + unsureText + `"}]}`

const unsureText = "Sorry, I am not sure what came of it."

// askedBy identifies what a model is asked, apart from the time.
func askedBy(call ModelCall) string {
	var texts []string
	for _, m := range call.Messages {
		if m.Role != "system" {
			texts = append(texts, m.Role, m.Text)
		}
	}
	return plainjson.Text([]any{call.Conversation, call.Activity, texts})
}

// live plays a scenario in which a process dies; nil: none does.
func live(s *record.Scenario, newBot func(*Outside) Config, d *death) (h history) {
	out, rec := &Outside{}, &recorder{}
	counts := d == nil
	if counts {
		d = &death{save: -1}
	}
	defer func() {
		if p := recover(); p != nil { // from the bubble: something in it never ends
			h.stuck = fmt.Sprintf("the bot did not come to rest: %v", p)
		}
	}()
	synctest.Test(new(testing.T), func(t *testing.T) {
		rec.T = t
		rec.do(func() {
			cfg := newBot(out)
			cfg.death = d
			h = playOut(rec, s, cfg)
		})
	})
	h.saves, h.did = d.saves, out.did
	for _, failure := range rec.failures {
		if strings.Contains(failure, "the bot is still at work") || strings.Contains(failure, "panic: ") {
			h.stuck = failure
		}
	}
	return h
}

// playOut has the people of a scenario say what they say, whatever comes back.
func playOut(rec *recorder, s *record.Scenario, cfg Config) history {
	r := newRun(rec, s, cfg)
	r.answered = map[string]Answer{}
	r.kit = New(rec, Config{
		New: r.newBot, Name: cmp.Or(cfg.Name, "Planbot"), Models: s.Options.Models, Replicas: 2, Bubble: true, death: cfg.death,
	})
	r.kit.Model.Decides(r.answer)
	r.kit.Connector.Decides(r.sending)
	r.seed()
	for i := range s.Steps {
		if s.Steps[i].Control != "" {
			r.kit.Restart()
			continue
		}
		stage := r.prepare(&s.Steps[i])
		stage.crash = 0
		r.stage.Store(stage)
		began := time.Now()
		for _, d := range slices.SortedStableFunc(slices.Values(stage.deliveries), byTime) {
			time.Sleep(time.Until(began.Add(time.Duration(d.Event.AtMS) * time.Millisecond)))
			insist(r, d)
		}
		r.kit.Settle()
	}
	h := history{state: map[string]string{}, said: map[string][]string{}, story: r.kit.Explain()}
	for name := range r.chats {
		h.state[name] = aTime.ReplaceAllString(r.snapshot(name).String(), "TIME")
	}
	for _, sent := range r.kit.Connector.Sent() {
		if !sent.Message() {
			continue
		}
		text := cmp.Or(sent.Activity.Text, sent.Activity.Summary, "(a card)")
		h.sorry = h.sorry || isSorry(text)
		h.said[sent.To] = append(h.said[sent.To], text)
	}
	return h
}

// insist delivers an activity until a replica takes it, as channels do.
func insist(r *run, d *delivery) {
	const tries, pause = 4, 3 * time.Second
	for range tries {
		for replica := range 2 {
			if r.kit.Alive(replica + 1) {
				d.chat = d.chat.On(replica + 1)
				break
			}
		}
		r.deliver(d)
		if taken(d.answer) || d.answer.Status >= 400 && d.answer.Status < 500 {
			return
		}
		time.Sleep(pause)
	}
}

var (
	aTime   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	ofTurns = regexp.MustCompile(`\(turn [a-z0-9]+\)`)
)

// isSorry reports whether the bot says that it could not finish something, or does not know.
func isSorry(text string) bool {
	return strings.HasPrefix(text, "Sorry, ") || ofTurns.MatchString(text)
}

// judge says what is wrong with another history.
func (h history) judge(other history) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if other.stuck != "" {
		return []string{other.stuck}
	}
	was, is := counts(h.did), counts(other.did)
	for _, what := range sortedKeys(is) {
		if is[what] > was[what] {
			add("%q was done %d times, not %d", what, is[what], was[what])
		}
	}
	if !other.sorry || h.sorry {
		for _, what := range sortedKeys(was) {
			if is[what] < was[what] {
				add("%q was done %d times, not %d, and nobody was told", what, is[what], was[what])
			}
		}
		for _, name := range sortedKeys(h.state) {
			if h.state[name] != other.state[name] {
				add("the state of %s is %s, not %s", name, other.state[name], h.state[name])
			}
		}
	}
	for _, name := range sortedKeys(h.said) {
		was, is := counts(h.said[name]), counts(other.said[name])
		for _, text := range sortedKeys(is) {
			switch {
			case was[text] == 0 && !isSorry(text) && !record.Own(text): // such as that a click came again
				add("%q is false: without a crash nobody reads that", text)
			case was[text] > 0 && is[text] > was[text]+1:
				add("%q was said %d times, not %d", text, is[text], was[text])
			}
		}
		for _, text := range sortedKeys(was) {
			if is[text] < was[text] && !other.sorry {
				add("%q was said %d times, not %d", text, is[text], was[text])
			}
		}
	}
	return faults
}

func counts(all []string) map[string]int {
	n := map[string]int{}
	for _, one := range all {
		n[one]++
	}
	return n
}
