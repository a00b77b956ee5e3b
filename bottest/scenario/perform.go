package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/bottest"
)

func placeOf(i int) string { return fmt.Sprintf("parallel %d: ", i+1) }

// idOf is the id of an activity: if the file has none a fresh one or, of a redelivery, that
// of the activity before it.
func (r *run) idOf(e *Event) string {
	if e.ID != "" {
		return e.ID
	}
	if first := r.s.original(e); e.Redelivery && first != nil {
		return r.idOf(first)
	}
	if r.ids[e] == "" {
		r.ids[e] = fmt.Sprintf("activity-%d-of-%s", len(r.ids)+1, e.Conversation)
	}
	return r.ids[e]
}

// perform plays a step: delivers its events, waits until the bot has nothing left to do,
// and looks at what it did.
func (r *run) perform(step *Step) {
	s := r.prepare(step)
	r.stage.Store(s)
	if s.crash > 0 && !r.cfg.Scripted { // else the book knows which call is made again only
		r.kit.CrashAfter(s.crash)
	}
	var deliveries []func()
	for i, e := range s.events {
		after := time.Duration(e.Event.AtMS)*time.Millisecond + time.Duration(i) // what is listed first is first
		deliveries = append(deliveries, func() {
			time.Sleep(after)
			r.deliver(e)
		})
	}
	r.kit.Together(deliveries...)
	if s.crash > 0 {
		r.settleCrash()
	} else {
		r.kit.Settle()
	}
	r.judge(step, s)
}

func crashOf(step *Step) int {
	for _, d := range step.deliveries() {
		if d.Expect.CrashAfterAction != nil {
			return *d.Expect.CrashAfterAction
		}
	}
	if step.Expect.CrashAfterAction != nil {
		return *step.Expect.CrashAfterAction
	}
	return 0
}

// afterCrash is how long others may end what they have begun: not as long as the lease of
// the dead, whose turns are for the steps to come.
const afterCrash = 2 * time.Second

func (r *run) settleCrash() {
	crashed := func() bool {
		for replica := range r.replicas() {
			if !r.kit.Alive(replica + 1) {
				return true
			}
		}
		return false
	}
	if !r.kit.Await(crashed) {
		r.Errorf("expect.crash_after_action: there were not so many calls")
		return
	}
	time.Sleep(afterCrash)
}

// deliver delivers the event.
func (r *run) deliver(e *scene) {
	if e.Event.Redis == "down" {
		r.kit.StopRedis()
		defer r.kit.StartRedis()
	}
	a, card := r.activity(e)
	d := e.chat.Deliver(a)
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	e.delivered = d
	if card != "" && taken(d) && shown(d) == "" {
		r.decided[card] = true
	}
}

// taken reports whether the bot has the activity.
func taken(d *bottest.Delivery) bool { return d.Status >= 200 && d.Status < 300 }

// activity is the event as Teams would send it, and the card that it is a click on; "": it
// is none.
func (r *run) activity(e *scene) (a bottest.Activity, card string) {
	ev := e.Event
	a = bottest.Activity{"type": ev.Type, "id": e.id}
	if ev.Text != nil {
		a["text"] = *ev.Text
		if mention := botMention.FindString(*ev.Text); mention != "" && ev.Entities == nil {
			a["entities"] = []any{e.chat.MentionOf(mention)}
		}
	}
	for name, list := range map[string][]map[string]any{"entities": ev.Entities, "membersAdded": ev.MembersAdded, "attachments": ev.Attachments} {
		if list != nil {
			a[name] = list
		}
	}
	if ev.Name != "" {
		a["name"] = ev.Name
	}
	if ev.Value != nil {
		a["value"] = ev.Value
	}
	if ev.ChannelData != nil {
		a["channelData"] = channelData(ev.ChannelData)
	}
	if approve, ok := decisionOf(ev); ok {
		return r.click(e, a, approve)
	}
	return a, ""
}

// channelData is that of the event, with a tenant where it can have one.
func channelData(of any) any {
	object, ok := of.(map[string]any)
	if !ok {
		return of // channels have sent such, too
	}
	data := map[string]any{"tenant": map[string]any{"id": "tenant-1"}}
	maps.Copy(data, object)
	return data
}

// decisionOf reads a value that says only whether something is approved.
func decisionOf(e *Event) (approve, ok bool) {
	value, _ := e.Value.(map[string]any)
	approve, ok = value["approve"].(bool)
	return approve, ok && (e.Type == "invoke" || e.Type == "message")
}

// click makes of the event the click on a button of the last card that asks for an
// approval, if there is one that was not decided, on that. Where there is no card it is one on
// a card that the bot does not know.
func (r *run) click(e *scene, a bottest.Activity, approve bool) (click bottest.Activity, id string) {
	verb := map[bool]string{true: "planbot/approve", false: "planbot/reject"}[approve]
	card, button := r.asking(e, verb)
	if card == nil { // somebody clicks all the same
		card, button = &bottest.Card{}, map[string]any{"type": "Action.Execute", "verb": verb, "data": map[string]any{"verb": verb, "approval": "none"}}
	}
	button = maps.Clone(button)
	data, _ := button["data"].(map[string]any)
	all := beside(e.Event)
	maps.Copy(all, data)
	button["data"] = all
	click, err := card.Click(button)
	if err != nil {
		r.Errorf("%sevent.value: %v", e.place, err)
		return a, ""
	}
	if e.Event.Type == "message" {
		click = bottest.Activity{"type": "message", "replyToId": card.ID(), "value": button["data"]}
	}
	click["id"] = e.id
	return click, card.ID()
}

// asking is the card to click on, with its button of that verb; nil: there is none. It is one
// that was not decided, of which all is true that the click says, that who clicks has asked
// for, and the newest: as far as there is such a one, in this order.
func (r *run) asking(e *scene, verb string) (card *bottest.Card, button map[string]any) {
	s := r.stage.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	best := -1
	for _, m := range slices.Backward(e.chat.Messages()) {
		one := e.chat.Card(m)
		if one == nil {
			continue
		}
		buttons := one.Buttons()
		i := slices.IndexFunc(buttons, func(b map[string]any) bool { return b["verb"] == verb })
		if i < 0 {
			continue
		}
		fit := 0
		for _, is := range []bool{!r.decided[m.ID], saidOf(e.Event, one), r.asker(m.Of.Activity) == e.Event.person()} {
			if fit *= 2; is {
				fit++
			}
		}
		if fit > best {
			best, card, button = fit, one, buttons[i]
		}
	}
	return card, button
}

// saidOf reports whether what a click says beside its decision is what the card shows.
func saidOf(e *Event, card *bottest.Card) bool {
	q := questionOf(card.JSON)
	for name, value := range beside(e) {
		raw, err := json.Marshal(value)
		if shown, there := q.valueOf(name); err != nil || !there || !sameValue(string(raw), shown) {
			return false
		}
	}
	return true
}

// beside is what the value of a click says beside its decision.
func beside(e *Event) map[string]any {
	value, _ := e.Value.(map[string]any)
	value = maps.Clone(value)
	delete(value, "approve")
	return value
}

// asker is who said what the activity of that id says, "" where nobody did.
func (r *run) asker(id string) string {
	for i := range r.s.Steps {
		for _, d := range r.s.Steps[i].deliveries() {
			if d.Event.ID == id || r.ids[d.Event] == id {
				return d.Event.person()
			}
		}
	}
	return ""
}

// shown is the message that a click was answered with, "" when that is that it takes longer.
func shown(d *bottest.Delivery) string {
	var answer struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(d.Body, &answer) != nil || strings.HasPrefix(answer.Value, "I am still at work.") {
		return ""
	}
	return answer.Value
}
