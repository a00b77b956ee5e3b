// Package dryrun plans again what a recorded turn planned, and follows the plans as the bot would, with the
// recorded results: it calls no action and sends nothing.
package dryrun

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

const maxPlans = 10 // limits how often a plan may ask for the next one

// Bot is what plans, and what may run. It is safe for concurrent use.
type Bot struct {
	Planner turn.Planner
	Actions *actions.Registry
	Policy  actions.Policy
}

// Said is the verdict about a SAY that people would read.
const Said = "would be said"

// Call is a command of a new plan.
type Call struct {
	Plan     int    `json:"plan"` // from 1
	Kind     string `json:"type"`
	Action   string `json:"action,omitempty"`
	Entities string `json:"entities,omitempty"`
	Text     string `json:"text,omitempty"` // what is said
	Verdict  string `json:"verdict"`
	Result   string `json:"result,omitempty"` // that was recorded
	Asks     bool   `json:"asks,omitempty"`   // a person would have to approve it
	Fault    string `json:"fault,omitempty"`  // why it could not run
}

// Run is a dry run of a turn.
type Run struct {
	Calls []Call
	Plans []plan.Plan
	Stops string // why it does not go on: "" where the turn would be over

	bot     Bot
	turn    *actions.Turn
	left    []turnlog.Command // recorded calls whose results were not used yet
	see     func(turn.Event)
	waits   map[string]string // the actions whose results are not known, by the variables that get them
	pending string            // one of these actions
}

// Play follows the plans of a turn. recorded are the calls whose results are known. see gets the plans; nil: nobody.
// The error says why there is no next plan; what came before is in the run.
func Play(ctx context.Context, b Bot, t *actions.Turn, recorded []turnlog.Command, see func(turn.Event)) (*Run, error) {
	d := &Run{Calls: []Call{}, bot: b, turn: t, left: slices.Clone(recorded), see: see}
	d.left = slices.DeleteFunc(d.left, func(c turnlog.Command) bool { return c.Result == turnlog.Lost })
	return d, d.run(ctx)
}

func (d *Run) run(ctx context.Context) error {
	for n := 1; n <= maxPlans; n++ {
		p, err := d.bot.Planner.Plan(ctx, d.turn)
		if err != nil {
			return err
		}
		if d.see != nil {
			d.see(turn.Event{Planned: &p})
		}
		d.Plans = append(d.Plans, p)
		again, err := d.follow(ctx, n, p)
		if err != nil || !again {
			return err
		}
	}
	d.Stops = fmt.Sprintf("It stops here, after %d plans.", maxPlans)
	return nil
}

// follow goes through one plan. again says that the bot would ask for the next one now.
func (d *Run) follow(ctx context.Context, n int, p plan.Plan) (again bool, err error) {
	run := p.Start(nil)
	d.turn.Rounds = append(d.turn.Rounds, actions.Round{Preface: p.Preface})
	round := &d.turn.Rounds[len(d.turn.Rounds)-1]
	d.waits, d.pending = map[string]string{}, ""
	for end := 0; !run.Done(); {
		if run.Next >= end {
			if again {
				break
			}
			end = run.Next + run.Together(d.parallel)
		}
		c := p.Commands[run.Next]
		if of := d.waitsFor(c); of != "" {
			d.Stops = "It stops here: what comes next needs the result of " + of + ", which did not run."
			return false, nil
		}
		withheld := run.Withheld(run.Next)
		resolved, err := run.Command(run.Next)
		call := Call{Plan: n, Kind: c.Kind, Action: c.Action}
		if c.Kind == plan.Say {
			call.Text, call.Verdict = resolved.Response, Said
			if withheld {
				call.Verdict = "would be held back, since an earlier command found nothing to act on"
			} else {
				round.Outcomes = append(round.Outcomes, actions.Outcome{Action: plan.Say, Text: resolved.Response})
			}
			d.Calls = append(d.Calls, call)
			if err := run.Advance(actions.Done); err != nil {
				return false, err
			}
			continue
		}
		res, shown, known := actions.Result{}, "", err != nil
		if err != nil {
			res, call.Fault, call.Entities = actions.Fail("%s", err), err.Error(), encoded(c.Entities)
			call.Verdict = "would fail: " + call.Fault
		} else if res, shown, known, err = d.call(ctx, p, resolved, &call); err != nil {
			return false, err
		}
		d.Calls = append(d.Calls, call)
		if !known {
			if d.pending = c.Action; c.SaveAs != "" {
				d.waits[strings.ToLower(c.SaveAs)] = c.Action
			}
			run.Next++
			continue
		}
		round.Outcomes = append(round.Outcomes, actions.Outcome{
			Action: c.Action, Entities: resolved.Entities, CallID: c.CallID, Shown: shown,
			Text: res.Text(), Failed: res.Failed(), Unchanged: res.Unchanged(),
		})
		if res.Failed() {
			again = true
			run.Next++
			continue
		}
		if err := run.Advance(res); err != nil {
			return false, err
		}
		again = again || res.Stops(c.Named()) && !p.Observe
	}
	if again {
		return true, nil
	}
	tells := false // the last result has something that nobody has said
	if n := len(round.Outcomes); n > 0 {
		last := round.Outcomes[n-1]
		tells = last.Action != plan.Say && last.Text != "" && last.Shown == ""
	}
	switch owes := run.Owes() && !p.Observe; {
	case d.pending != "" && (p.Observe || p.Commands[len(p.Commands)-1].Kind == plan.Do):
		d.Stops = "It stops here: the model would see the result of " + d.pending + ", which did not run."
		return false, nil
	case owes:
		again, round.Withheld = !slices.ContainsFunc(d.turn.Rounds, func(r actions.Round) bool { return r.Withheld }), true
		return again, nil
	}
	return d.pending == "" && (p.Observe || tells), nil
}

// parallel reports whether a call may run beside others.
func (d *Run) parallel(c plan.Command) bool {
	action, ok := d.bot.Actions.Lookup(c.Action)
	return ok && action.Parallel
}

// reference matches what may be the name of a variable.
var reference = regexp.MustCompile(`\$[A-Za-z_]\w*`)

// waitsFor returns the action whose unknown result a command needs; "": none.
func (d *Run) waitsFor(c plan.Command) string {
	for _, name := range reference.FindAllString(encoded(c.Entities)+" "+c.Response, -1) {
		if of := d.waits[strings.ToLower(name[1:])]; of != "" {
			return of
		}
	}
	return ""
}

// call says what the bot would do about a call, and returns the recorded result of an equal one. known says
// that there is a result, which may be that it fails, and shown what cards have shown of it.
func (d *Run) call(
	ctx context.Context, p plan.Plan, c plan.Command, about *Call,
) (res actions.Result, shown string, known bool, err error) {
	about.Entities = encoded(c.Entities)
	refused := func(why string) (actions.Result, string, bool, error) {
		about.Fault = why
		about.Verdict = cmp.Or(about.Verdict, "would fail: "+why)
		return actions.Fail("%s", why), "", true, nil
	}
	action, ok := d.bot.Actions.Lookup(c.Action)
	if !ok {
		return refused("there is no such action")
	}
	entities, err := action.Check(c.Entities)
	if err != nil {
		return refused("it does not fit the schema: " + err.Error())
	}
	about.Entities = encoded(entities)
	salvaged := p.Salvaged || d.turn.Distrusted() || action.Doubtful(entities)
	verdict, err := d.bot.Policy(ctx, d.turn, actions.Call{Action: action, Entities: entities, Salvaged: salvaged})
	about.Asks = verdict.Required
	if err == nil && verdict.Denied != "" {
		about.Verdict = "would not run; fits the schema; the policy denies it: " + verdict.Denied
		return refused("the policy denies it: " + verdict.Denied)
	}
	for i, had := range d.left {
		if had.Action == action.Name && SameJSON(had.Resolved, about.Entities) {
			d.left = slices.Delete(d.left, i, i+1)
			about.Verdict, about.Result = "gets the recorded result", cmp.Or(had.Text, had.Result)
			return recordedResult(had), had.Shown, true, nil
		}
	}
	about.Verdict = "would run; fits the schema; "
	switch {
	case err != nil:
		about.Fault = "the policy cannot decide: " + err.Error()
		about.Verdict += about.Fault
	case verdict.Required:
		about.Verdict += strings.TrimSuffix("needs approval: "+verdict.Reason, ": ")
	default:
		about.Verdict += "needs no approval"
	}
	if action.Connection != "" {
		about.Verdict += "; needs the person to be signed in to " + action.Connection
	}
	return actions.Result{}, "", false, nil
}

func recordedResult(c turnlog.Command) actions.Result {
	var value any
	if c.Data == "" || json.Unmarshal([]byte(c.Data), &value) != nil {
		value = c.Text
	}
	text, isText := value.(string)
	observed, observes := turnlog.Observed(c.Observe, value)
	switch {
	case c.Result == "failed":
		return actions.Fail("%s", c.Text)
	case c.Result == "unchanged":
		return actions.Unchanged("%s", c.Text)
	case observes:
		return observed
	case isText:
		return actions.Text("%s", text)
	}
	return actions.JSON(value)
}

// encoded writes entities as the log does.
func encoded(entities map[string]any) string {
	if entities == nil {
		return ""
	}
	return plainjson.Text(entities)
}

// SameJSON reports whether two JSON texts mean the same.
func SameJSON(a, b string) bool {
	if a == b {
		return true
	}
	var one, other any
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &other) == nil && reflect.DeepEqual(one, other)
}

// TurnOf is the turn of a record, which finds that state.
func TurnOf(rec turnlog.Record, found turn.State) *actions.Turn {
	a, err := activity.Decode(rec.Received.Activity)
	if err != nil || len(rec.Received.Activity) == 0 { // the record has none
		a = &activity.Activity{Type: activity.Message, ChannelID: cmp.Or(rec.Channel, activity.Teams)}
	}
	t := &actions.Turn{
		ID: cmp.Or(rec.ID, "preview"), Activity: a, Text: rec.Received.Text, Conversation: state.ScopeOf(found["conversation"]),
		User: state.ScopeOf(found["user"]), Temp: state.ScopeOf(found["temp"]), Now: rec.At,
	}
	for _, f := range new(files.Files).Of(a) {
		t.Files = append(t.Files, actions.File{Name: f.Name, Fetch: func(context.Context) ([]byte, error) { return nil, actions.ErrFileGone }})
	}
	for _, f := range rec.Received.Attached {
		t.Attached = append(t.Attached, actions.Attached{Name: f.Name, Text: f.Text, Gone: f.Gone})
	}
	if rec.Received.Drafts {
		t.Draft = func(string) {}
	}
	if a.Strangers() || rec.Received.Quotes {
		t.Distrust()
	}
	if t.Thread = t.Conversation; found["thread"] != nil {
		t.Thread = state.ScopeOf(found["thread"])
	}
	of := state.ScopeOf(found["bot"])
	t.Bot = func(context.Context) (*state.Scope, error) { return of, nil }
	return t
}
