//go:build linux

package chaos_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/builtbot"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// deciders is the bot of testdata/approvals.
var deciders = builtbot.Other("../..", "testdata/approvals/main.go")

// The bills that people have paid: those for which Ben and Carla have to approve, and those for which one of them does,
// Carla once she is asked, too.
const pair, next kind = "pair", "next"

// fate is what becomes of an approval: the buttons that people press at the same time, each at another replica, and the
// ends that this may have where both have to approve, and where one does.
type fate struct {
	name          string
	presses       []press // none: the person who asked lets nobody read it
	both, oneOnly []string
}

type press struct{ who, title string }

const (
	approved, rejected, takenBack, undecided = "Approved by", "Rejected by", "Taken back by", "Not decided in time"
	// decidedWithin is how long people wait at most: half a minute to decide, a minute for late clicks, and some for kills.
	decidedWithin = 150 * time.Second
)

// fates have besides that Otto and the person who asked press Approve, which never counts. Where both have to approve, the
// first one takes long.
func fates() []fate {
	ben, carla := press{"Ben", "Approve"}, press{"Carla", "Approve"}
	yes, no, race := []string{approved}, []string{takenBack}, []string{approved, takenBack}
	return []fate{
		{"one of two, twice", []press{ben, ben}, []string{undecided}, yes},
		{"agreed", []press{ben, carla}, yes, yes},
		{"split", []press{ben, {"Carla", "Reject"}}, []string{rejected}, []string{approved, rejected}},
		{"taken back", []press{ben, carla, {"Mia", "Take it back"}}, race, race},
		{"stopped", []press{ben, carla, {"Mia", "/stop"}}, race, race},
		{"not sent", nil, no, no},
	}
}

// office is a world in which people have bills paid.
type office struct {
	*world
	screens *screens

	mu     sync.Mutex
	fates  map[key]fate
	ended  map[key]times
	clicks int
}

// approvalsOfOthers kills replicas and Redis while people ask for approvals, and others decide at the same time.
func approvalsOfOthers(t *testing.T) {
	t.Parallel()
	ledger := filepath.Join(t.TempDir(), "ledger")
	screens := &screens{}
	c := circumstances{bot: deciders, screens: screens, model: http.HandlerFunc(paysBills), env: []string{"LEDGER=" + ledger}}
	o := &office{world: newWorld(t, c), screens: screens, fates: map[key]fate{}, ended: map[key]times{}}
	end := time.Now().Add(*loadFor)
	all := fates()
	for i := range 10 {
		o.talks.Go(func() {
			for n := 1; ; n++ {
				o.asks(key{i/2*3 + i%2, n}, []kind{pair, next}[(i+n/len(all))%2], all[(i+n)%len(all)])
				if time.Now().After(end) {
					return
				}
			}
		})
	}
	for n := 1; time.Now().Before(end.Add(10 * time.Second)); n++ {
		o.pass(o.between(time.Second, 3*time.Second))
		if n%5 == 0 {
			o.redisAway(2 * time.Second)
		} else {
			o.kill(o.dice.IntN(replicas))
		}
	}
	o.talks.Wait()
	o.pass(quietAfterFaults)
	orphans := o.closesOrphans()
	runs, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	o.judge(strings.Fields(string(runs)), orphans)
}

// paysBills is a model that pays what the last message names.
func paysBills(w http.ResponseWriter, r *http.Request) {
	asked, err := fakemodel.Read(r.Body)
	if err != nil {
		return
	}
	text := asked.Last("user")
	k, _ := keyIn(text)
	who := text[max(0, strings.Index(text, k.String())-len("pair ")):][:len("pair")]
	do := object{"type": "DO", "action": "pay", "entities": object{"who": who, "bill": k.String()}}
	fakemodel.Answer{Text: written(object{"type": "plan", "commands": []object{do, {"type": "SAY", "response": k.String() + " is paid"}}})}.Write(w, r, asked)
}

// asks has a bill paid, from the message to the end.
func (o *office) asks(k key, as kind, f fate) {
	o.mu.Lock()
	o.fates[k] = f
	o.mu.Unlock()
	mia := conversation(k.talk)
	o.say(k, as)
	if f.presses == nil {
		o.presses(k, "Mia", mia, "Don't send", 0)
	} else {
		o.presses(k, "Mia", mia, "Send", 0)
		o.presses(k, "Otto", "a:Ben", "Approve", 1)
		if strings.Contains(fmt.Sprint(f.presses), "Carla") {
			o.card(k, "a:Carla", "Approve") // which comes later
		}
		var all sync.WaitGroup
		all.Go(func() { o.presses(k, "Mia", "a:Ben", "Approve", 2) })
		for i, p := range f.presses {
			where := "a:" + p.who
			if p.who == "Mia" {
				where = mia
			}
			all.Go(func() { o.presses(k, p.who, where, p.title, i) })
		}
		all.Wait()
	}
	if !o.until(func() bool { return o.isOver(k) }) {
		o.t.Errorf("%s, %s, %s: it does not end, of %d cards", k, as, f.name, len(o.cards(k)))
	}
	o.mu.Lock()
	o.ended[k] = o.now()
	o.mu.Unlock()
}

// until waits for something to be so.
func (o *office) until(is func() bool) bool {
	for late := time.Now().Add(decidedWithin); !is(); o.pass(100 * time.Millisecond) {
		if time.Now().After(late) {
			return false
		}
	}
	return true
}

// cards are those about a bill as they look now, in the order in which they came.
func (o *office) cards(k key) (all []bottest.Sent) {
	for _, s := range o.screens.rules.Sent() {
		at := slices.IndexFunc(all, func(card bottest.Sent) bool { return card.ID == s.ID })
		switch {
		case s.Status >= http.StatusBadRequest:
		case s.Message() && strings.Contains(s.Card(), k.String()):
			all = append(all, s)
		case !s.Message() && at >= 0: // what closes it need not name the bill
			all[at].Activity = s.Activity
		}
	}
	return all
}

// card waits for a card with that button in the conversation, and returns the click on it. "/stop" is no button.
func (o *office) card(k key, where, title string) (click object) {
	found := func() bool {
		for _, s := range o.screens.rules.Sent() {
			if s.To != where || !strings.Contains(s.Card(), k.String()) {
				continue
			}
			for _, b := range s.Buttons() {
				if b["title"] == title {
					click, _ = s.Click(b) // of a button that sends something
				}
			}
		}
		return click != nil
	}
	if title != "/stop" && !o.until(found) {
		o.t.Errorf("%s: no card with %q in %s", k, title, where)
	}
	return click
}

// closesOrphans presses a button of each card that is left: their ids died with a process. Whatever they ask, it is
// decided: the click only closes them.
func (o *office) closesOrphans() (n int) {
	for _, m := range o.story().messages {
		for _, card := range o.cards(m.key) {
			buttons := card.Buttons()
			if len(buttons) == 0 {
				continue
			}
			n++
			who, isPersonal := strings.CutPrefix(card.To, "a:")
			if !isPersonal {
				who = "Mia"
			}
			click, _ := card.Click(buttons[0]) // of a button that sends something
			o.sends(m.key, who, fmt.Sprint("orphan-", card.ID), 0, click, func(string) {})
			closed := func() bool {
				return slices.ContainsFunc(o.cards(m.key), func(c bottest.Sent) bool { return c.ID == card.ID && len(c.Buttons()) == 0 })
			}
			if !o.until(closed) {
				o.t.Errorf("%s: a click does not close a card in %s: %s", m.key, card.To, card.Card())
			}
		}
	}
	return n
}

// presses has a person press the button of a card until the bot says what became of that.
func (o *office) presses(k key, who, where, title string, at int) {
	o.sends(k, who, title, at, o.card(k, where, title), func(answer string) {
		if strings.Contains(answer, "no longer waiting") {
			o.t.Errorf("%s presses %s of %s, and reads that nobody waits for that", who, title, k)
		}
	})
}

// sends delivers a click until it is answered. nil: it is words.
func (o *office) sends(k key, who, title string, at int, click object, look func(answer string)) {
	id, in := "29:"+who, "a:"+who
	if who == "Mia" {
		id, in = person(k.talk)["id"].(string), conversation(k.talk)
	}
	if click == nil {
		click = object{"type": "message", "text": title}
	}
	maps.Copy(click, object{
		"channelId": "msteams", "serviceUrl": o.channel.url(), "recipient": object{"id": "28:bot", "name": "Planbot"},
		"from":         object{"id": id, "name": who, "aadObjectId": "aad-" + strings.TrimPrefix(id, "29:")},
		"conversation": object{"id": in, "conversationType": "personal", "tenantId": tenant},
	})
	tries := 0
	said := o.until(func() bool {
		tries++
		click["id"] = fmt.Sprintf("click-%s-%s-%s-%d-%d", k, who, title, at, tries)
		if title == "/stop" {
			click["id"] = "stop-" + k.String() // the channel sends it again
		}
		to := o.replicas[(k.n+at+tries)%replicas]
		status, answer, err := o.post(to, []byte(written(click)))
		var inner struct{ StatusCode int }
		_ = json.Unmarshal(answer, &inner) // a message has none
		look(string(answer))
		return err == nil && status == http.StatusOK && inner.StatusCode < http.StatusInternalServerError
	})
	if !said {
		o.t.Errorf("%s presses %s of %s, and never hears what became of it", who, title, k)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clicks++
}

// isOver reports whether the person who asked reads how it ended, and one of their cards is closed: of two that came
// because of a kill the bot may know one.
func (o *office) isOver(k key) bool {
	closed, told := false, false
	for _, s := range o.cards(k) {
		closed = closed || s.To == conversation(k.talk) && len(s.Buttons()) == 0
		told = told || strings.Contains(s.Card(), undecided) // which is only on the cards
	}
	for _, text := range o.told(k) {
		steps := strings.Contains(text, "also asked") || strings.Contains(text, "It needs 2")
		told = told || !steps
	}
	return closed && told
}

// told is what the person who asked reads in reply, besides cards. A message that grew too long ago to be ended has been
// replaced.
func (o *office) told(k key) (all []string) {
	o.screens.mu.Lock()
	defer o.screens.mu.Unlock()
	for _, text := range texts(o.screens.finished(k.id())) {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// judge holds what was seen against what was promised.
func (o *office) judge(runs []string, orphans int) {
	seen := o.story()
	outcomes, again := map[string]int{}, 0
	for _, m := range seen.messages {
		f, verdicts, faults := o.fates[m.key], []string{}, 0
		for _, one := range seen.faults {
			if one.overlaps(m.sent, o.ended[m.key]) {
				faults++
			}
		}
		for _, card := range o.cards(m.key) {
			if len(card.Buttons()) > 0 {
				o.t.Errorf("%s, %s: a card in %s still asks: %s", m.key, f.name, card.To, card.Card())
			}
			for _, verdict := range []string{approved, rejected, takenBack, undecided} {
				if strings.Contains(card.Card(), verdict) && !slices.Contains(verdicts, verdict) {
					verdicts = append(verdicts, verdict)
				}
			}
			for _, stranger := range []string{"Approved by Mia", "Otto", ", Mia", "Ben, Ben"} {
				if strings.Contains(card.Card(), stranger) {
					o.t.Errorf("%s, %s: %q decided: %s", m.key, f.name, stranger, card.Card())
				}
			}
		}
		paid := 0
		for _, bill := range runs {
			if bill == m.String() {
				paid++
			}
		}
		again += max(0, paid-1)
		outcome := strings.Join(verdicts, " and ")
		outcomes[outcome]++
		ends := f.both
		if m.kind == next {
			ends = f.oneOnly
		}
		if !slices.Contains(ends, outcome) {
			o.t.Errorf("%s, %s, %s: it was %q, not one of %q", m.key, m.kind, f.name, outcome, ends)
		}
		told := o.told(m.key)
		isSorry := func(text string) bool { return strings.HasPrefix(text, "Sorry, ") }
		without := f.name == "stopped" || faults > 0 && slices.ContainsFunc(told, isSorry) // between the decision and the call
		if paid > 0 && outcome != approved || paid == 0 && outcome == approved && !without || paid > 1+faults {
			o.t.Errorf("%s, %s, %s, %d faults: %s, and paid %d times; Mia read %q", m.key, m.kind, f.name, faults, outcome, paid, told)
		}
	}
	o.t.Logf("%d approvals with %d clicks, %d faults: %v; %d runs, of which %d again; %d cards whose ids died, which a click closed",
		len(seen.messages), o.clicks, len(seen.faults), outcomes, len(runs), again, orphans)
	if len(outcomes) < 4 || len(seen.faults) == 0 {
		o.t.Error("not all ends were seen, or nothing was broken: this test showed too little")
	}
}
