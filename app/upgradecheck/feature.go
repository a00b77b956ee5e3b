// Package upgradecheck is a feature of a program: it adds the command upgrade-check, which says before a release which
// turns that wait in Redis this build cannot finish. It only reads.
package upgradecheck

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/approvals"
	"github.com/planbot-go/planbot/bot/requests"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// Feature adds the command upgrade-check.
func Feature() app.Feature {
	return app.Feature{Name: "upgradecheck", Commands: &struct {
		Check command `name:"upgrade-check" help:"Say which turns that wait in Redis this build cannot finish; read only."`
	}{}}
}

type command struct {
	Allow  int           `default:"0" placeholder:"N" help:"exit with code 1 only if more people than this wait in vain"`
	MaxAge time.Duration `name:"max-age" placeholder:"DURATION" help:"what has waited for longer does not count, such as 72h"`
	JSON   bool          `name:"json" help:"print JSON"`
}

const (
	most   = 100_000          // how many records are looked at
	within = 10 * time.Second // limits how long a policy may think about a call
)

func (command) Help() string {
	return "Looks at approvals, sign-ins, questions, reminders, recurring notices and dead letters of the running bots " +
		"(REDIS_URL or BOT_DATA_DIR), and changes nothing. For each it asks whether the actions are there, whether the entities " +
		"still fit, whether the policy still allows the call, whether an approval is of the call that would be made, and whether " +
		"this build knows the format. The bot is made as serve makes it, on state of its own: its Setup runs. " +
		"Exit code 0: this build finishes what counts; 1: more people than --allow wait in vain; 2: the settings are wrong."
}

// stuck is a record that cannot be finished.
type stuck struct {
	Turn   string    `json:"turn"`
	For    string    `json:"for"` // what it waits for
	Why    string    `json:"why"`
	Since  time.Time `json:"since"`
	Counts bool      `json:"counts"` // it is not too old
	person string
}

// report is what came of it.
type report struct {
	Checked int     `json:"checked"`
	People  int     `json:"people"` // who wait in vain, and count
	Stuck   []stuck `json:"stuck"`
}

func (c *command) Run(ctx context.Context, p *app.Program) error {
	if c.Allow < 0 || c.MaxAge < 0 {
		return app.Usage(errors.New("--allow and --max-age: must not be negative"))
	}
	store, err := p.OpenStore(ctx)
	if err != nil {
		return err
	}
	in, err := p.OpenInbox(ctx)
	if err != nil {
		return err
	}
	made, err := p.Trial(p.Log().WithContext(ctx))
	if err != nil {
		return err
	}
	records, err := waiting(ctx, in)
	if err != nil {
		return err
	}
	j := &judge{bot: made, store: store}
	r := report{Checked: len(records), Stuck: []stuck{}}
	people := map[string]bool{}
	for _, w := range records {
		if err := ctx.Err(); err != nil {
			return err
		}
		one, ok := j.judge(ctx, w)
		if ok {
			continue
		}
		if one.Counts = c.MaxAge == 0 || time.Since(one.Since) <= c.MaxAge; one.Counts {
			people[one.person] = true
		}
		r.Stuck = append(r.Stuck, one)
	}
	r.People = len(people)
	if c.JSON {
		err = cli.PrintJSON(p.Out(), r)
	} else {
		err = r.print(p.Out())
	}
	if err == nil && r.People > c.Allow {
		err = cli.SilentError{Code: cli.ExitFailed}
	}
	return err
}

// waiting are the records that wait, each once. One that goes on in the meantime may be missing.
func waiting(ctx context.Context, in *inbox.Inbox) (all []inbox.Waiting, err error) {
	dead, err := in.Dead(ctx)
	if err != nil {
		return nil, err
	}
	timed, err := in.Timed(ctx, most)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, w := range append(dead, timed...) {
		if name := w.Queue.String() + "\n" + w.ID; !seen[name] {
			seen[name] = true
			all = append(all, w)
		}
	}
	return all, nil
}

// print prints the reasons with their people, the most people first.
func (r *report) print(w io.Writer) error {
	type reason struct{ what, why string }
	people, records := map[reason]map[string]bool{}, map[reason][]stuck{}
	var all []reason
	for _, s := range r.Stuck {
		of := reason{s.For, s.Why}
		if people[of] == nil {
			people[of] = map[string]bool{}
			all = append(all, of)
		}
		people[of][s.person] = true
		records[of] = append(records[of], s)
	}
	slices.SortStableFunc(all, func(a, b reason) int { return cmp.Compare(len(people[b]), len(people[a])) })
	var out strings.Builder
	for _, of := range all {
		turns := turnview.Count(len(records[of]), "turn")
		fmt.Fprintf(&out, "%s, %s of %s: %s\n", of.what, turns, persons(len(people[of])), cli.OneLine(of.why))
		for i, s := range records[of] {
			const shown = 10
			if i == shown {
				fmt.Fprintf(&out, "    and %d more\n", len(records[of])-shown)
				break
			}
			old := ""
			if !s.Counts {
				old = ", too old to count"
			}
			fmt.Fprintf(&out, "    %s since %s%s\n", cli.Printable(s.Turn), turnview.Moment(s.Since), old)
		}
	}
	fmt.Fprintf(&out, "%s checked, %d cannot be finished, %s waiting in vain\n",
		turnview.Count(r.Checked, "waiting turn"), len(r.Stuck), persons(r.People))
	_, err := io.WriteString(w, out.String())
	return err
}

func persons(n int) string {
	if n == 1 {
		return "1 person"
	}
	return fmt.Sprint(n, " people")
}

// judge says what a bot could finish.
type judge struct {
	bot   app.Trial
	store *state.Store
}

// judge looks at a record. ok: the bot can finish it.
func (j *judge) judge(ctx context.Context, w inbox.Waiting) (found stuck, ok bool) {
	found = stuck{Turn: w.ID, Since: w.Since, For: "dead letter"}
	rec, err := turn.Decode(w.Record)
	a, fault := rec.Read()
	if a != nil {
		found.person = a.From.ID
	}
	found.person = cmp.Or(found.person, w.Queue.String())
	if !w.Operator && rec.Wait != nil {
		found.For = kindOf(&rec)
	}
	if err = cmp.Or(err, fault); err != nil {
		found.Why = err.Error()
		return found, false
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	found.Why = j.why(ctx, &rec, a)
	return found, found.Why == ""
}

func kindOf(rec *turn.Record) string {
	switch kind := string(rec.Wait.For); {
	case kind == "time" && rec.Wait.Every != "":
		return "recurring notice"
	case kind == "time":
		return "reminder or notice"
	case kind == "sign_in":
		return "sign-in"
	case kind == "answer":
		return "question"
	default:
		return kind
	}
}

// why says why the bot cannot finish a record; "": it can.
func (j *judge) why(ctx context.Context, rec *turn.Record, a *activity.Activity) string {
	if p, ok := requests.Of(rec); ok {
		entities := map[string]any{}
		if err := json.Unmarshal(p.Entities, &entities); err != nil {
			return "its entities cannot be read"
		}
		_, why := j.check(p.Action, entities)
		return why
	}
	if n := rec.Notice; n != nil && n.Run != "" && !j.bot.Bot.HandlesNotice(n.Run) {
		return "there is no handler for its notice " + n.Run
	}
	if !j.bot.Bot.Resumes(rec) {
		return "no feature of this build can read what it waits for"
	}
	if rec.Run == nil || rec.Run.Progress == nil {
		return ""
	}
	p := rec.Run.Progress
	for i := p.Next; i < len(p.Plan.Commands); i++ {
		c := p.Plan.Commands[i]
		switch {
		case c.Kind != plan.Do:
		case i == p.Next:
			if why := j.next(ctx, rec, a); why != "" {
				return why
			}
		case strings.Contains(plainjson.Text(c.Entities), "$"): // its values are not known yet
			if _, ok := j.bot.Actions.Lookup(c.Action); !ok {
				return gone(c.Action)
			}
		default:
			if _, why := j.check(c.Action, c.Entities); why != "" {
				return why
			}
		}
	}
	return ""
}

func gone(action string) string { return "the action " + action + " is gone" }

func (j *judge) check(name string, entities map[string]any) (call actions.Call, why string) {
	action, ok := j.bot.Actions.Lookup(name)
	if !ok {
		return call, gone(name)
	}
	checked, err := action.Check(entities)
	if err != nil { // which says what somebody wrote
		return call, "the entities of " + name + " do not fit any more"
	}
	return actions.Call{Action: action, Entities: checked}, ""
}

// next says why the call cannot be made for which the record waits.
func (j *judge) next(ctx context.Context, rec *turn.Record, a *activity.Activity) string {
	p := rec.Run.Progress
	c, err := p.Command(p.Next)
	if err != nil {
		return err.Error()
	}
	call, why := j.check(c.Action, c.Entities)
	if why != "" {
		return why
	}
	t, err := j.turn(ctx, rec, a)
	if err != nil {
		return "its state cannot be read: " + err.Error()
	}
	call.Salvaged = p.Plan.Salvaged || t.Distrusted() || call.Action.Doubtful(call.Entities)
	verdict, err := j.bot.Policy(ctx, t, call)
	switch {
	case err != nil:
		return "the policy cannot decide about " + c.Action + ": " + err.Error()
	case verdict.Denied != "":
		return "the policy denies " + c.Action + ": " + verdict.Denied
	}
	if approved := approvals.HashOf(rec); approved != "" {
		hash, err := turn.CallHash(ctx, t, call, verdict.Bind)
		if err == nil && hash != approved {
			return c.Action + " would do something else than the person is asked to approve"
		}
	}
	return ""
}

// turn is the turn of a record, on the state as it is now. Nothing of it is saved.
func (j *judge) turn(ctx context.Context, rec *turn.Record, a *activity.Activity) (*actions.Turn, error) {
	conversation := state.ConversationKey(a.ChannelID, a.Recipient.ID, a.Conversation.BaseID())
	scopes, err := j.store.Load(ctx, conversation, turn.PersonKey(a), state.BotKey())
	if err != nil {
		return nil, err
	}
	t := &actions.Turn{ID: rec.ID, Activity: a, Text: cmp.Or(rec.Text, a.Said()), Rounds: rec.Run.Rounds}
	if rec.Run.Distrust || a.Strangers() {
		t.Distrust()
	}
	t.Conversation, t.User, t.Temp = scopes[0], scopes[1], state.NewScope()
	t.Thread = t.Conversation
	t.Bot = func(context.Context) (*state.Scope, error) { return scopes[2], nil }
	return t, nil
}
