package bottest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// fakeTest is a test that is to fail.
type fakeTest struct {
	testing.TB
	ctx      context.Context
	mu       sync.Mutex
	failures []string
	logs     []string
	cleanups []func()
}

func (f *fakeTest) Helper()                  {}
func (f *fakeTest) Context() context.Context { return f.ctx }

func (f *fakeTest) Logf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs = append(f.logs, fmt.Sprintf(format, args...))
}

func (f *fakeTest) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *fakeTest) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *fakeTest) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.failures) > 0
}

func (f *fakeTest) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

// failing runs what is to fail, and returns how it did.
func failing(t *testing.T, cfg bottest.Config, test func(kit *bottest.Kit)) string {
	t.Helper()
	f := &fakeTest{ctx: t.Context()}
	f.run(func() { test(bottest.New(f, cfg)) })
	return strings.Join(f.failures, "\n")
}

// failingInBubble is failing where waits take no time.
func failingInBubble(t *testing.T, cfg bottest.Config, test func(kit *bottest.Kit)) (failures string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTest{ctx: t.Context()}
		cfg.Bubble = true
		f.run(func() { test(bottest.New(f, cfg)) })
		failures = strings.Join(f.failures, "\n")
	})
	return failures
}

// run runs the test and what it wants done at its end, when its context is over.
func (f *fakeTest) run(test func()) {
	inOwn := func(do func()) {
		var wg sync.WaitGroup
		wg.Go(do)
		wg.Wait()
	}
	ctx, cancel := context.WithCancel(f.ctx)
	f.ctx = ctx
	inOwn(test)
	cancel()
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		inOwn(f.cleanups[i])
	}
}

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, want := range want {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

func TestFailuresShowWhatHappened(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		test func(kit *bottest.Kit)
		want []string
	}{
		"another reply": {func(kit *bottest.Kit) {
			kit.Model.Says(addMilk)
			chat := kit.Personal("Mia")
			chat.Say("add milk")
			chat.Expect("Added bread.")
		}, []string{
			`the bot said "Added milk.", want "Added bread."`, "what happened:", "Mia            add milk", "plan         [", "calls        addItem {", "BOT            Added milk.",
			"the last prompt:", "user: add milk", "what the bot keeps:", `Mia.lists = {"all":[{"name":"groceries"`,
		}},
		"no match":        {func(kit *bottest.Kit) { chat := said(kit); chat.ExpectMatch("^bread") }, []string{`want what matches ^bread`}},
		"no card":         {func(kit *bottest.Kit) { chat := said(kit); chat.ExpectCard() }, []string{`the bot said "Well.", want a card`}},
		"no reply":        {func(kit *bottest.Kit) { chat := said(kit); chat.Next(); chat.Expect("more") }, []string{`the bot said nothing more, want "more"`}},
		"a reply":         {func(kit *bottest.Kit) { chat := said(kit); chat.ExpectNothing() }, []string{`the bot said "Well.", want nothing`}},
		"unexpected call": {func(kit *bottest.Kit) { kit.Personal("Mia").Say("hi"); kit.Settle() }, []string{"call 1 of the model was not expected; it was asked:", "user: hi"}},
		"script left":     {func(kit *bottest.Kit) { kit.Model.Says("a", "b") }, []string{"2 scripted answers of the model were not asked for"}},
		"other model": {func(kit *bottest.Kit) {
			kit.Model.Answers(bottest.Answer{Text: "hi", Model: "big"})
			kit.Personal("Mia").Say("hi")
			kit.Settle()
		}, []string{"call 1 was to go to the model big and went to scripted"}},
		"no button": {func(kit *bottest.Kit) { kit.Personal("Mia").Press("Approve") }, []string{"the bot has sent no card yet"}},
		"other button": {func(kit *bottest.Kit) {
			chat := kit.Personal("Mia")
			chat.Say("/forget")
			chat.Next().Press("Yes")
		}, []string{`no button "Yes", only "Delete everything", in {`}},
		"not taken":  {func(kit *bottest.Kit) { kit.Personal("Mia").Deliver(map[string]any{"type": nil}).Taken() }, []string{"the activity was not taken: 400"}},
		"no replica": {func(kit *bottest.Kit) { kit.Personal("Mia").On(2).Say("hi") }, []string{"there is no replica 2"}},
		"dead":       {func(kit *bottest.Kit) { kit.Kill(1); kit.Personal("Mia").Say("hi") }, []string{"replica 1 is dead"}},
		"kept as something else": {func(kit *bottest.Kit) {
			chat := said(kit)
			chat.Next()
			state.At[int](chat.Conversation(), "reference")
		}, []string{"read what the bot keeps: ", "reference"}},
		"no call": {func(kit *bottest.Kit) { kit.Model.LastCall() }, []string{"the model was not asked"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contains(t, failing(t, listBot(), tt.test), tt.want...)
		})
	}
}

// said is a chat in which the bot has said something.
func said(kit *bottest.Kit) *bottest.Chat {
	kit.Model.Says("Well.")
	chat := kit.Personal("Mia")
	chat.Say("hi")
	return chat
}

func TestBotsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]bottest.Config{
		"neither New nor Actions": {},
		"the Config has New":      {New: routedBot, Planner: "tools"},
		`no planner "wild"`:       {Actions: listBot().Actions, Planner: "wild"},
		"neither a bot nor":       {New: func(context.Context, bottest.Parts) (*bot.Bot, error) { return nil, nil }},
	} {
		if got := failing(t, cfg, func(*bottest.Kit) {}); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestLimitsComeFirst: an answer that takes a time takes longer than a limit of that time, and
// chance decides nothing.
func TestLimitsComeFirst(t *testing.T) {
	t.Parallel()
	var model models.Model
	cfg := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (_ *bot.Bot, err error) {
		model = parts.Model
		cfg := parts.Bot
		cfg.Actions = listBot().Actions
		if cfg.Planner, err = parts.Planner(ctx, "", planner.Config{Model: model, Actions: cfg.Actions}); err != nil {
			return nil, err
		}
		return bot.New(cfg)
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(bottest.Answer{Text: "Hi.", Takes: time.Second})
		began := time.Now()
		if _, err := model.Complete(t.Context(), &models.Request{Messages: []models.Message{{Role: "user", Text: "hi"}}}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took <= time.Second || took > time.Second+time.Millisecond {
			t.Errorf("it took %v, want a moment more than a second", took)
		}
	})
}
