package bottest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/internal/yamltext"
	"github.com/planbot-go/planbot/state"
)

// Persona is a simulated person who talks to a bot because they want something. What counts is what is there and what
// was called in the end, not what was said. As YAML:
//
//	personas:
//	  - name: Ada
//	    goal: The list groceries has milk and no bread.   # for a model that plays them
//	    lists: {groceries: [bread]}                       # what is there before
//	    says:                                             # where no model plays them
//	      - say: add milk to groceries
//	      - {if: "*bread*", say: remove bread from groceries} # only after such a reply
//	    rejects: true                                     # what the bot asks to approve; they approve it otherwise
//	    turns: 4                                          # at most; 8 if it is not said
//	    want:
//	      lists: {groceries: [milk]}                      # all lists, in any case of letters
//	      calls: [addItem]                                # each as often as it stands here, at least
//	      never: [deleteList]
type Persona struct {
	Name    string              `json:"name"`
	Goal    string              `json:"goal"`
	Lists   map[string][]string `json:"lists"`
	Says    []Line              `json:"says"`
	Rejects bool                `json:"rejects"`
	Turns   int                 `json:"turns"`
	Want    Wanted              `json:"want"`
}

// Line is something that a persona says.
type Line struct {
	If  string `json:"if"` // what the bot has just said, with * for anything; "": whatever it said
	Say string `json:"say"`
}

// Wanted is what has to be there in the end. Lists of nil are not looked at.
type Wanted struct {
	Lists map[string][]string `json:"lists"`
	Calls []string            `json:"calls"`
	Never []string            `json:"never"`
}

// Talk is what came of a conversation with a persona.
type Talk struct {
	Persona string   `json:"persona"`
	Turns   int      `json:"turns"`
	Faults  []string `json:"faults"` // what is not as wanted
	Said    []string `json:"said"`   // by both
}

// ReadPersonas reads a file of personas. The error lists all mistakes.
func ReadPersonas(name string, text []byte) ([]Persona, error) {
	raw, err := yamltext.JSON(text)
	if err != nil {
		return nil, fmt.Errorf("%s: no YAML: %w", name, err)
	}
	var file struct {
		Personas []Persona `json:"personas"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var faults []error
	names := map[string]bool{}
	for i, p := range file.Personas {
		fault := func(wrong bool, text string) {
			if wrong {
				faults = append(faults, fmt.Errorf("%s: persona %d %q: %s", name, i+1, p.Name, text))
			}
		}
		fault(p.Name == "", "it has no name")
		fault(names[p.Name], "there is another one of this name")
		fault(len(p.Says) == 0 && p.Goal == "", "it has neither a goal nor something to say")
		fault(p.Want.Lists == nil && len(p.Want.Calls)+len(p.Want.Never) == 0, "it wants nothing, so nothing can go wrong")
		for _, line := range p.Says {
			_, err := path.Match(line.If, "")
			fault(line.Say == "" || err != nil, "a line says nothing, or its if is no pattern")
		}
		names[p.Name] = true
	}
	if len(file.Personas) == 0 {
		faults = append(faults, fmt.Errorf("%s: there are no personas", name))
	}
	return file.Personas, errors.Join(faults...)
}

// Player says what a persona says next, given all that was said; over: nothing any more.
type Player func(ctx context.Context, said []string) (text string, over bool, err error)

// Simulate has a persona talk to the bot of cfg, which has its own model, in virtual time and with a Redis of its own.
// play plays the persona. nil: they say what Says has.
func Simulate(ctx context.Context, p Persona, cfg Config, play Player) (talk Talk, err error) {
	rec := &recorder{}
	defer func() {
		if stuck := recover(); stuck != nil { // from the bubble: something in it never ends
			err = fmt.Errorf("the bot did not come to rest: %v", stuck)
		}
	}()
	synctest.Test(new(testing.T), func(t *testing.T) {
		rec.T = t
		rec.do(func() {
			cfg.Bubble = true
			talk, err = p.talk(ctx, New(rec, cfg), play)
		})
	})
	if err == nil && len(rec.failures) > 0 {
		talk.Faults = append(talk.Faults, rec.failures...)
	}
	talk.Persona = p.Name
	return talk, err
}

const maxTalk = 8 // turns

func (p *Persona) talk(ctx context.Context, k *Kit, play Player) (talk Talk, err error) {
	chat := k.Personal(p.Name)
	if len(p.Lists) > 0 {
		chat.Keep(func(_, user *state.Scope) {
			for _, name := range sortedKeys(p.Lists) {
				list := lists.List{Name: name}
				for _, item := range p.Lists[name] {
					list.Items = append(list.Items, lists.Item{Name: item})
				}
				state.Of[lists.Lists](user).All = append(state.Of[lists.Lists](user).All, list)
			}
		})
	}
	left, heard, seen := slices.Clone(p.Says), "", 0
	for talk.Turns < cmp.Or(p.Turns, maxTalk) {
		text, over := next(&left, heard)
		if play != nil {
			text, over, err = play(ctx, talk.Said)
		}
		if over || err != nil {
			break
		}
		talk.Turns++
		talk.Said = append(talk.Said, p.Name+": "+text)
		chat.Say(text)
		heard = ""
		for more := true; more; {
			k.Settle()
			more = false
			all := chat.Messages()
			for _, sent := range all[seen:] {
				seen++
				said := cmp.Or(sent.Activity.Text, sent.Activity.Summary, "(a card)")
				talk.Said = append(talk.Said, k.cfg.Name+": "+said)
				heard += said + "\n"
				if strings.HasPrefix(sent.Activity.Summary, "Approval needed: ") {
					sent.Press(map[bool]string{false: "Approve", true: "Reject"}[p.Rejects])
					more = true
				}
			}
		}
	}
	talk.Faults = p.judge(k, chat)
	return talk, err
}

// next takes the first line that fits what was heard.
func next(left *[]Line, heard string) (text string, over bool) {
	for i, line := range *left {
		fits := line.If == ""
		if !fits {
			flat := strings.NewReplacer("\n", " ", "/", " ").Replace(strings.ToLower(strings.TrimSpace(heard)))
			fits, _ = path.Match(strings.ToLower(line.If), flat) // it was checked
		}
		if fits {
			*left = slices.Delete(*left, i, i+1)
			return line.Say, false
		}
	}
	return "", true
}

// judge says what is not as wanted.
func (p *Persona) judge(k *Kit, chat *Chat) (faults []string) {
	faults = []string{}
	made := map[string]int{}
	for _, c := range k.Calls() {
		if c.Ended && !c.Result.Failed() {
			made[c.Action]++
		}
	}
	for name, n := range counts(p.Want.Calls) {
		if made[name] < n {
			faults = append(faults, fmt.Sprintf("%s was called %d times, not %d", name, made[name], n))
		}
	}
	for _, name := range p.Want.Never {
		if made[name] > 0 {
			faults = append(faults, name+" was called")
		}
	}
	if p.Want.Lists != nil {
		want, is := map[string][]string{}, map[string][]string{}
		for name, items := range p.Want.Lists {
			want[strings.ToLower(name)] = lowered(items)
		}
		for _, list := range state.Of[lists.Lists](chat.User()).All {
			var items []string
			for _, item := range list.Items {
				items = append(items, item.Name)
			}
			is[strings.ToLower(list.Name)] = lowered(items)
		}
		if fmt.Sprint(want) != fmt.Sprint(is) {
			faults = append(faults, fmt.Sprintf("the lists are %v, not %v", is, want))
		}
	}
	slices.Sort(faults)
	return faults
}

// lowered are items in small letters, in the order of the alphabet.
func lowered(items []string) []string {
	all := []string{}
	for _, item := range items {
		all = append(all, strings.ToLower(item))
	}
	slices.Sort(all)
	return all
}
