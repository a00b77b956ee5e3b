package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/state/inbox"
)

// vote is a pause of a feature that somebody has written.
type vote struct {
	turn.Pause `json:"-"`
	N          int `json:"n"`
}

// TestUpgradeCheck says which turns that wait a build cannot finish, and changes nothing.
func TestUpgradeCheck(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	url := "redis://" + redis.Addr()
	model := obedient(t, nil)
	weekly := func(b *Bot) {
		b.Routes = func(made *bot.Bot) {
			made.OnNotice("weekly", func(context.Context, *bot.Turn) error { return nil })
		}
	}
	old := newWarehouse()
	old.own = weekly
	b := old.bot()
	b.features = AllFeatures()
	s := settingsOf(b)
	if err := s.Read("--redis-url="+url, "--openai-base-url="+model, "--openai-model=m"); err != nil {
		t.Fatal(err)
	}
	p := &program{Settings: s, own: b, log: zerolog.New(io.Discard)}
	say, rest, _ := conversing(t, p)
	say("mia", "order bolts")
	say("otto", "order nuts")
	say("otto", "order more")
	rest()
	to := actions.Recipient{Channel: "msteams", Bot: "28:bot", Conversation: "otto"}
	if _, err := p.bot.Notify(t.Context(), actions.Notice{To: to, Run: "weekly", Every: "0 9 * * 1", Key: "w"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.bot.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	p.close()
	check := func(change func(*warehouse), args ...string) (int, string) {
		w := newWarehouse()
		w.own = weekly
		change(w)
		args = append([]string{"upgrade-check", "--redis-url=" + url, "--openai-base-url=" + model, "--openai-model=m"}, args...)
		code, out, errs := executeFor(t, w.bot(), "", args...)
		return code, out + errs
	}
	policy := func(decides func(actions.Call) actions.Approval) func(*warehouse) {
		return func(w *warehouse) {
			w.policy = func(_ context.Context, _ *actions.Turn, c actions.Call) (actions.Approval, error) {
				return decides(c), nil
			}
		}
	}
	same := func(*warehouse) {}
	noOrders := func(w *warehouse) { w.gone = []string{"orderGoods"} }
	before := redis.Dump()
	for name, of := range map[string]struct {
		change func(*warehouse)
		args   []string
		code   int
		want   string
	}{
		"the same":         {same, nil, 0, "4 waiting turns checked, 0 cannot be finished, 0 people waiting in vain"},
		"gone":             {noOrders, nil, 1, "approval, 3 turns of 2 people: the action orderGoods is gone"},
		"one may":          {noOrders, []string{"--allow=1"}, 1, "2 people waiting in vain"},
		"two may":          {noOrders, []string{"--allow=2"}, 0, "3 cannot be finished, 2 people"},
		"too old":          {noOrders, []string{"--max-age=1ns"}, 0, "too old to count"},
		"renamed":          {func(w *warehouse) { w.schema["orderGoods"] = "renamed" }, nil, 1, "approval, 3 turns of 2 people: the entities of orderGoods do not fit any more"},
		"shorter":          {func(w *warehouse) { w.schema["orderGoods"] = "narrow" }, nil, 1, "the entities of orderGoods do not fit any more"},
		"denied":           {policy(func(actions.Call) actions.Approval { return actions.Approval{Denied: "closed"} }), nil, 1, "the policy denies orderGoods: closed"},
		"bound":            {policy(func(actions.Call) actions.Approval { return actions.Approval{Required: true, Bind: "x"} }), nil, 1, "would do something else than"},
		"no notice":        {func(w *warehouse) { w.own = nil }, nil, 1, "recurring notice, 1 turn of 1 person: there is no handler for its notice weekly"},
		"a harmless build": {func(w *warehouse) { w.about["orderGoods"], w.gone = "Orders", []string{"addStock"} }, nil, 0, "0 cannot be finished"},
	} {
		if code, out := check(of.change, of.args...); code != of.code || !strings.Contains(out, of.want) {
			t.Errorf("%s: code %d, want %d and %q in %s", name, code, of.code, of.want, out)
		}
	}
	if after := redis.Dump(); after != before {
		t.Errorf("it changed Redis:\n%s\nbecame\n%s", before, after)
	}
	if code, _ := check(same, "--redis-url="); code != cli.ExitUsage {
		t.Errorf("code %d without Redis", code)
	}

	l := newLetters(t, url) // of a newer version, one that is broken, and a dead letter
	for id, record := range map[string]string{
		"newer": strings.Replace(secretNew, `"v":1`, `"v":99`, 1), "broken": `{"v":1}`,
		"vote": strings.Replace(secretNew, `"phase":"planning"`, `"phase":"waiting","wait":{"for":"vote","then":"running","vote":{"n":1}}`, 1),
	} {
		if _, err := l.accept(id, record).Wait(t.Context(), nil, inbox.Wait{Until: time.Now().Add(time.Hour)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	l.bury("dead", secretRecord, "nobody knows")
	stop, stopped := context.WithCancel(t.Context())
	changes := make(chan error, 1)
	go func() { // others go on meanwhile
		for n := 0; stop.Err() == nil; n++ {
			id := fmt.Sprint("moves", n)
			receipt, err := l.inbox.Accept(t.Context(), inbox.Entry{Queue: theQueue(), ID: id, Record: []byte(secretNew), Wait: &inbox.Wait{Until: time.Now().Add(time.Hour)}})
			if err == nil {
				_, err = l.inbox.Drop(t.Context(), theQueue(), id)
			}
			if _ = receipt; err != nil {
				changes <- err
				return
			}
		}
		changes <- nil
	}()
	const noVote = "vote, 1 turn of 1 person: no feature of this build can read what it waits for"
	if _, out := check(func(w *warehouse) {
		w.own = func(b *Bot) {
			b.Setup = func(cfg *bot.Config) error {
				cfg.Features = []bot.Feature{{Name: "votes", Pauses: map[string]func() turn.Pause{"vote": func() turn.Pause { return &vote{} }}}}
				return nil
			}
		}
	}); strings.Contains(out, noVote) {
		t.Error(out)
	}
	l.bury("strange", strings.NewReplacer(`"first"`, `"strange"`, `"run":{`, `"run":{"distrust":true,`,
		`"addItem","entities":{"list":"secret","item":"secret"}`, `"addStock","entities":{"item":"x"}`).Replace(secretRecord), "why")
	if _, out := check(policy(func(c actions.Call) (a actions.Approval) {
		if c.Salvaged {
			a.Denied = "strangers wrote that"
		}
		return a
	})); !strings.Contains(out, "the policy denies addStock: strangers wrote that") {
		t.Error(out)
	}
	for range 5 {
		code, out := check(same)
		for _, want := range []string{"it has version 99, this program knows", "the record cannot be read", noVote, "dead letter, 1 turn of 1 person: the action"} {
			if code != 1 || !strings.Contains(out, want) {
				t.Errorf("code %d, want %q in %s", code, want, out)
			}
		}
	}
	stopped()
	if err := <-changes; err != nil {
		t.Error(err)
	}
}
