package memory_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/memory"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

const day = 24 * time.Hour

// bundle is a person's chat, on a store.
type bundle struct {
	*testing.T
	registry *actions.Registry
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{T: t, registry: actions.New()}
	memory.Register(b.registry)
	return b
}

// turn is a turn of Mia with this state.
func turn(user *state.Scope) *actions.Turn {
	a := &activity.Activity{}
	a.From.ID, a.From.AadObjectID, a.Conversation.ID, a.Conversation.TenantID = "29:mia", "aad-mia", "a:mia", "t1"
	return &actions.Turn{ID: "turn1", Activity: a, User: user, Thread: state.NewScope()}
}

// call calls an action, and returns its text.
func (b *bundle) call(turn *actions.Turn, action string, entities map[string]any) string {
	b.Helper()
	a, ok := b.registry.Lookup(action)
	if !ok {
		b.Fatalf("no action %s", action)
	}
	checked, err := a.Check(entities)
	if err != nil {
		return err.Error()
	}
	result, err := a.Call(b.Context(), turn, checked)
	if err != nil {
		b.Fatal(err)
	}
	return result.Text()
}

func (b *bundle) learns(turn *actions.Turn, fact string) {
	b.Helper()
	if got := b.call(turn, "rememberFact", map[string]any{"fact": fact}); !strings.HasPrefix(got, "I'll remember: ") {
		b.Errorf("%q: %s", fact, got)
	}
}

// texts are the facts of the turn's person.
func (b *bundle) texts(turn *actions.Turn) string {
	b.Helper()
	all, err := memory.Of(turn)
	if err != nil {
		b.Fatal(err)
	}
	var list []string
	for _, one := range all {
		list = append(list, one.Text)
	}
	return strings.Join(list, ", ")
}

func TestWhatIsNotKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	card := func(parts ...string) string { return strings.Join(parts, " ") } // nobody who looks for numbers finds one here
	for _, fact := range []string{
		"my card is " + card("4111", "1111", "1111", "1111"), "card 4111-1111-1111-1111, valid", "４１１１ １１１１ １１１１ １１１１", "5500.0000.0000.0004",
		"pays with 3782 822463 10005", "card\u00a04111\u00a01111\u00a01111\u00a01111", "٤١١١١١١١١١١١١١١١",
		"my password is hunter2x", "Passwort: Geheim99", "la contraseña es Secreto1", "mot de passe : bonjour9", "PIN is 1234", "my pin code is 99812", "密码是geheim66", "パスワードはhimitsu9",
		"my password hunter2", "Passwort 'x9yz'", "pin 4321", "api key a1b2c3",
		"key " + strings.Join([]string{"sk", "-proj-0123456789abcdef"}, ""),
		"login: mia / geheim77", "Zugangsdaten: mia;geheim77", "the door code is 4711", "der Türcode lautet 4711", "4711 is the code of the gate", "alarm code: 998877", "the code for the garage is 55110", "secret question answer: Rex", "my security answer is Rex", "die Geheimfrage: Antwort ist Rex",
		"SSN 078-05-1120", "078-05-1120", "passport number C01X00T47", "mein Personalausweis ist L01X00T47", "身份证号 11010519491231002X", "11010519491231002X",
		"IBAN DE89 3704 0044 0532 0130 00", "DE89370400440532013000", "Steuer-ID 12 345 678 901", "codice fiscale RSSMRA85T10A562S", "DNI 12345678Z", "NINO AB 12 34 56 C", "my number is 123456789012",
	} {
		if got, want := b.call(turn(state.NewScope()), "rememberFact", map[string]any{"fact": fact}), "I don't keep secrets, such as passwords, codes, and card or identity numbers"; got != want {
			t.Errorf("%q: %s", fact, got)
		}
	}
	for _, fact := range []string{
		"is vegetarian", "my phone is +49 170 1234567", "phone 030 123456789", "born on 1984-05-17", "meets at 10:30 on 24.12.2026", "lives in 10115 Berlin", "uses a password manager", "has 2 password managers",
		"passport expires in May 2027", "shopping is fun", "is not a morning person", "order 20481", "works from 2019-01-01 to 2024-12-31", "prefers tables with 1,000 rows", "isst nie vor 12 Uhr",
		"writes code in Go 1", "lives next door to Ben", "has an account at the library", "the dress code is casual", "logs in from Berlin", "login name is mia", "zip code 10115? no, moved", "reviews code at 9",
	} {
		b.learns(turn(state.NewScope()), fact)
	}
	for fact, want := range map[string]string{
		strings.Repeat("ä", 201): "a fact may have at most 200 characters",
		strings.Repeat("ä", 200): "I'll remember: " + strings.Repeat("ä", 200) + ". Say /memory to see what I remember.",
		"a\u202eb\n\tc.":         "I'll remember: ab c. Say /memory to see what I remember.",
		"\u200b":                 "say what to remember",
		"":                       "missing required entity fact",
	} {
		if got := b.call(turn(state.NewScope()), "rememberFact", map[string]any{"fact": fact}); got != want {
			t.Errorf("%q: %s", fact, got)
		}
	}
}

// TestNumbersStay: a fact keeps its number for good, and no other one ever has it. An expired one leaves the state
// with the next turn.
func TestNumbersStay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, user := setup(t), state.NewScope()
		for _, fact := range []string{"likes tea", "likes figs", "likes rye", "likes oats"} {
			b.learns(turn(user), fact)
		}
		for n, want := range []bool{true, false} {
			if gone, ok := memory.Forget(turn(user), 3); ok != want || ok && gone.Text != "likes rye" {
				t.Errorf("time %d: %v, %t", n+1, gone, ok)
			}
		}
		if _, ok := memory.Forget(turn(user), 4); !ok {
			t.Error("the fourth is gone")
		}
		b.learns(turn(user), "likes kale")
		all, err := memory.Of(turn(user))
		if err != nil || len(all) != 3 || all[2].Number != 5 {
			t.Errorf("%+v, %v", all, err)
		}
		time.Sleep(2 * 365 * day)
		_, err = memory.Extension{}.Extend(t.Context(), turn(user))
		if kept, _ := user.JSON("facts"); err != nil || strings.Contains(string(kept), "likes") {
			t.Errorf("facts that are over: %s, %v", kept, err)
		}
	})
}

// TestOldestUnusedGoes: of more than a hundred facts the one that was not used for longest goes, not one
// that was learnt before it and used since.
func TestOldestUnusedGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, user := setup(t), state.NewScope()
		for i := range 100 {
			b.learns(turn(user), fmt.Sprintf("likes flavour%d", i))
			time.Sleep(time.Second)
		}
		time.Sleep(2 * day)
		asks := turn(user)
		asks.Text = "where do I get flavour0?"
		extra, err := memory.Extension{}.Extend(t.Context(), asks)
		if err != nil || len(extra.Quoted) != 1 || !strings.Contains(extra.Quoted[0], "\n1. \"likes flavour0\" (said on 2000-01-01)") {
			t.Errorf("told %q, %v", extra.Quoted, err)
		}
		if got := b.call(turn(user), "rememberFact", map[string]any{"fact": "likes tea"}); !strings.HasSuffix(got, " I keep at most 100 facts, so I forgot: likes flavour1.") {
			t.Errorf("the 101st: %s", got)
		}
		if got := b.texts(turn(user)); !strings.HasPrefix(got, "likes flavour0, likes flavour2, ") || !strings.HasSuffix(got, "likes flavour99, likes tea") || strings.Count(got, "likes") != 100 {
			t.Errorf("kept %s", got)
		}
	})
}

// TestFactsExpire after a year without use, or when the person says.
func TestFactsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, user := setup(t), state.NewScope()
		b.learns(turn(user), "likes leeks")
		b.learns(turn(user), "lives in Bern")
		b.call(turn(user), "rememberFact", map[string]any{"fact": "is away", "until": time.Now().Add(3 * day).Format(time.RFC3339)})
		if got := b.call(turn(user), "rememberFact", map[string]any{"fact": "was away", "until": time.Now().Add(-day).Format(time.RFC3339)}); got != "that time has passed" {
			t.Error(got)
		}
		for _, step := range []struct {
			wait time.Duration
			says string
			want string
		}{
			{2 * day, "", "likes leeks, lives in Bern, is away"},
			{2 * day, "", "likes leeks, lives in Bern"},
			{300 * day, "any leeks?", "likes leeks, lives in Bern"},
			{100 * day, "", "likes leeks"},
			{300 * day, "", ""},
		} {
			time.Sleep(step.wait)
			asks := turn(user)
			asks.Text = step.says
			if _, err := (memory.Extension{}).Extend(t.Context(), asks); err != nil {
				t.Fatal(err)
			}
			if got := b.texts(turn(user)); got != step.want {
				t.Errorf("after %v more: %q, want %q", step.wait, got, step.want)
			}
		}
	})
}

// TestTheModelIsToldWhatFits: with long facts not all, but first of all what the person speaks of.
func TestTheModelIsToldWhatFits(t *testing.T) {
	t.Parallel()
	b, user := setup(t), state.NewScope()
	for i := range 100 {
		b.learns(turn(user), fmt.Sprintf("thing%d ", i)+strings.TrimSpace(strings.Repeat("word ", 36)))
	}
	for text, want := range map[string]string{"hello": `"thing99 `, "what about thing0?": `"thing0 `} {
		asks := turn(user)
		asks.Text = text
		extra, err := memory.Extension{}.Extend(t.Context(), asks)
		if err != nil || !strings.Contains(extra.Quoted[0], want) || strings.Contains(extra.Quoted[0], `"thing5 `) || len(extra.Quoted[0]) > 8000 {
			t.Errorf("%q: told %q, %v", text, extra.Quoted, err)
		}
	}
}

// TestFactsOfTwoChatsMerge: two conversations of one person change their facts at the same time.
func TestFactsOfTwoChatsMerge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	store, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	key := state.UserKey("msteams", "28:bot", "29:mia")
	load := func() *state.Scope {
		t.Helper()
		scopes, err := store.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return scopes[0]
	}
	save := func(s *state.Scope) error { return store.Save(t.Context(), s) }
	first := load()
	for _, fact := range []string{"is vegetarian", "lives in Bern"} {
		b.learns(turn(first), fact)
	}
	if err := save(first); err != nil {
		t.Fatal(err)
	}
	mine, theirs := load(), load()
	b.learns(turn(mine), "likes leeks")
	if _, ok := memory.Forget(turn(theirs), 1); !ok {
		t.Error("there is no fact 1")
	}
	b.learns(turn(theirs), "likes tea")
	if err := save(theirs); err != nil {
		t.Fatal(err)
	}
	if err := save(mine); err == nil {
		t.Fatal("nobody lost the race")
	}
	if err := mine.Rebase(load()); err != nil {
		t.Fatal(err)
	}
	if err := save(mine); err != nil {
		t.Fatal(err)
	}
	got := b.texts(turn(load()))
	for _, want := range []string{"lives in Bern", "likes leeks", "likes tea"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if strings.Contains(got, "vegetarian") {
		t.Errorf("what was forgotten came back: %s", got)
	}
	again := actions.Attempt{Key: "turn1.0"}.Context(t.Context()) // a process that took over makes the call once more
	remember, _ := b.registry.Lookup("rememberFact")
	repeated := load()
	for range 2 {
		if _, err := remember.Call(again, turn(repeated), map[string]any{"fact": "likes rain"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.texts(turn(repeated)); strings.Count(got, "likes rain") != 1 {
		t.Errorf("kept %s", got)
	}
}
