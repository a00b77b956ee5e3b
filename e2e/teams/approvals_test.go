package teams_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
)

// What this file is about: who may decide about a call, and when. Cases say in given.approval what the policy wants, and
// press buttons of cards that the bot sent.

// approval is what the policy of a case wants of each call.
type approval struct {
	Approvers []string `json:"approvers"`
	Self      bool     `json:"self"`
	Quorum    int      `json:"quorum"`
	WithinS   int      `json:"within_s"`
	Escalate  []struct {
		AfterS int      `json:"after_s"`
		To     []string `json:"to"`
	} `json:"escalate"`
	Delegation bool     `json:"delegation"`
	Change     []string `json:"change"`
	Find       []string `json:"find"` // what the policy's function finds
	FindMany   int      `json:"find_many"`
	Finds      string   `json:"finds"`  // fails, panics or hangs
	Policy     string   `json:"policy"` // fails: it returns an error
	// Then is the policy that counts after so long, and Above the one for a call whose amount is at least that.
	Then   *approval `json:"then"`
	AfterS int       `json:"after_s"`
	Above  *approval `json:"above"`
	Amount float64   `json:"amount"`
}

// policy is the policy of a case.
func (p *played) policy(of approval) actions.Policy {
	began := time.Now()
	return func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
		a := of
		if a.Then != nil && time.Since(began) >= time.Duration(a.AfterS)*time.Second {
			a = *a.Then
		}
		amount, _ := strconv.ParseFloat(fmt.Sprint(call.Entities["amount"]), 64) // without one it is not above
		if a.Above != nil && amount >= a.Above.Amount {
			a = *a.Above
		}
		if a.Policy == "fails" {
			return actions.Approval{}, errors.New("the policy of the case fails")
		}
		made := actions.Approval{
			Required: true, Approvers: a.Approvers, Self: a.Self, Quorum: a.Quorum, Within: time.Duration(a.WithinS) * time.Second,
			Delegation: a.Delegation, Change: a.Change,
		}
		for _, e := range a.Escalate {
			made.Escalate = append(made.Escalate, actions.Escalation{After: time.Duration(e.AfterS) * time.Second, To: e.To})
		}
		if len(a.Find) > 0 || a.FindMany > 0 || a.Finds != "" {
			made.Find = a.find
		}
		return made, nil
	}
}

func (a approval) find(ctx context.Context, _ *actions.Turn, _ actions.Call) (people []string, err error) {
	switch a.Finds {
	case "fails":
		return nil, errors.New("the directory of the case fails")
	case "panics":
		panic("the directory of the case panics")
	case "hangs":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	people = slices.Clone(a.Find)
	for i := range a.FindMany {
		people = append(people, fmt.Sprint("aad-", i))
	}
	return people, nil
}

// press is a click on a button of a card that the bot has sent.
type press struct {
	By     string         `json:"by"`     // a person
	In     string         `json:"in"`     // the conversation of the card; "": their own chat
	Button string         `json:"button"` // its title
	Card   int            `json:"card"`   // which of those of the conversation, from 1; 0: the newest
	Inputs map[string]any `json:"inputs"`
	ID     string         `json:"id"` // of the activity; "": its own
}

// shown is a card as a client has it now.
type shown struct {
	conversation, message string
	buttons               map[string]map[string]any // the actions, by title
}

// cards are those that people see, in the order in which they were sent. With ever, those that have lost their buttons still
// have them: a client may not know yet.
func (p *played) cards(ever bool) (all []*shown) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		rest, ok := strings.CutPrefix(c.path, "/v3/conversations/")
		conversation, message, _ := strings.Cut(rest, "/activities")
		var body struct {
			Attachments []struct {
				Content struct {
					Actions []map[string]any `json:"actions"`
				} `json:"content"`
			} `json:"attachments"`
		}
		if !ok || c.status >= 300 || json.Unmarshal([]byte(c.raw), &body) != nil || len(body.Attachments) == 0 {
			continue
		}
		s := &shown{conversation, strings.TrimPrefix(message, "/"), map[string]map[string]any{}}
		for _, a := range body.Attachments[0].Content.Actions {
			title, _ := a["title"].(string)
			s.buttons[title] = a
		}
		if c.method == "POST" {
			s.message, _ = c.answer["id"].(string)
			all = append(all, s)
			continue
		}
		for i, one := range all {
			if one.message == s.message && (!ever || len(s.buttons) > 0) {
				all[i] = s
			}
		}
	}
	return all
}

// pressed is what a client sends for the click, n of the case.
func (p *played) pressed(b press, n int) map[string]any {
	in, kind := b.In, "groupChat"
	if in == "" {
		in, kind = "a:"+b.By, "personal"
	}
	var there []*shown
	for _, s := range p.cards(true) {
		if s.conversation == in && s.buttons[b.Button] != nil {
			there = append(there, s)
		}
	}
	if len(there) == 0 || b.Card > len(there) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = append(p.faults, fmt.Sprintf("%s has no card %d with a button %q", in, b.Card, b.Button))
		return nil
	}
	card := there[len(there)-1]
	if b.Card > 0 {
		card = there[b.Card-1]
	}
	action := card.buttons[b.Button]
	data := map[string]any{}
	given, _ := action["data"].(map[string]any)
	for name, value := range given {
		data[name] = value
	}
	for name, value := range b.Inputs {
		data[name] = value
	}
	id := b.ID
	if id == "" {
		id = fmt.Sprint("f:press-", n)
	}
	return map[string]any{
		"type": "invoke", "name": "adaptiveCard/action", "id": id, "channelId": "msteams", "serviceUrl": "https://smba.trafficmanager.net/emea/",
		"from":         map[string]any{"id": "29:" + strings.ToLower(b.By), "aadObjectId": "aad-" + b.By, "name": b.By},
		"recipient":    map[string]any{"id": "28:bot", "name": "Planbot"},
		"conversation": map[string]any{"id": in, "conversationType": kind, "tenantId": "t-1"}, "channelData": map[string]any{"tenant": map[string]any{"id": "t-1"}},
		"replyToId": card.message,
		"value":     map[string]any{"action": map[string]any{"type": "Action.Execute", "verb": action["verb"], "data": data}, "trigger": "manual"},
	}
}

// decides are the verbs of buttons that decide.
var decides = []string{"planbot/approve", "planbot/approve-always", "planbot/reject", "planbot/send"}

// countLive counts the cards that still have buttons with which somebody decides.
func countLive(p *played, _ expect) {
	for _, s := range p.cards(false) {
		for _, a := range s.buttons {
			if verb, _ := a["verb"].(string); slices.Contains(decides, verb) {
				p.live++
				break
			}
		}
	}
}

func init() { looks = append(looks, countLive) }
