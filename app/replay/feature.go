// Package replay is a feature of a program: it adds the command replay, which plans recorded turns again with this
// build and says what it would do otherwise. It calls no action and sends nothing.
package replay

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/dryrun"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/junit"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Feature adds the command replay.
func Feature() app.Feature {
	return app.Feature{Name: "replay", Commands: &struct {
		Replay command `help:"Plan recorded turns again with this build, and say what it would do otherwise; run nothing."`
	}{}}
}

type command struct {
	Files       []string `arg:"" optional:"" name:"recording" help:"folders of serve --record, or files: *.turns.jsonl, *.kept.json, one turn as .json, scenarios"`
	Kept        bool     `help:"also the turns that BOT_TURNS_CONTENT keeps in Redis (REDIS_URL or BOT_DATA_DIR)"`
	FailOn      []string `name:"fail-on" default:"approval,fault,do,tokens" placeholder:"KINDS" help:"changes with which the exit code is 1; none: it never is"`
	Against     []string `sep:"none" placeholder:"NAME=VALUE" help:"another setting of models, prompts or planner; repeatable"`
	MaxGrowth   int      `name:"max-growth" placeholder:"PERCENT" help:"a turn whose questions have more tokens than recorded, by more than this, is a change; 0: never"`
	Follow      string   `oneof:"recorded,new" default:"recorded" help:"new: a turn finds what this build would have said before it"`
	Markdown    string   `type:"path" placeholder:"FILE" help:"also write a summary for a pull request"`
	JUnit       string   `name:"junit" type:"path" placeholder:"FILE" help:"also write the results as JUnit's XML"`
	JSON        bool     `name:"json" help:"print JSON"`
	Concurrency int      `default:"2" help:"how many turns are planned at once"`
	Resume      string   `type:"path" placeholder:"FILE" help:"keep results in this file, and take those that are in it"`
}

const (
	exitStopped = 3               // a model was away, or somebody stopped it
	planWithin  = 5 * time.Minute // limits one turn
)

func (command) Help() string {
	return "Each turn is planned on the state that it found, with the results of the actions as they were recorded: " +
		"nothing is called or sent. Where a plan needs a result that was never recorded, the turn ends there. " +
		"The bot is made as serve makes it, on state of its own: its Setup runs. " +
		"Changes, the worst first: approval (would not be asked any more), fault (no plan, or a call that cannot run), " +
		"do (other calls or entities), asked (an approval is new), tokens (more than --max-growth allows), words (something else is said). " +
		"Exit code 0: nothing of --fail-on; 1: there is something; 2: the settings are wrong, or nothing could be replayed; " +
		"3: it was stopped, such as by a model that is away. A report has what people said: look before you share it."
}

// result is what came of one turn.
type result struct {
	Turn    string        `json:"turn"`
	File    string        `json:"file"`
	Said    string        `json:"said"`
	Changes []change      `json:"changes"`
	Stops   string        `json:"stops,omitempty"` // why its replay ended early
	Was     numbers       `json:"was"`
	Is      numbers       `json:"is"`
	Took    time.Duration `json:"tookNs"`
}

// numbers are what a turn used.
type numbers struct {
	Calls int     `json:"modelCalls"`
	In    int     `json:"tokensIn"`
	Out   int     `json:"tokensOut"`
	Cost  float64 `json:"cost"`
}

func (n *numbers) add(other numbers) {
	n.Calls += other.Calls
	n.In += other.In
	n.Out += other.Out
	n.Cost += other.Cost
}

func (c *command) Run(ctx context.Context, p *app.Program) error {
	if err := c.check(); err != nil {
		return app.Usage(err)
	}
	if err := p.Check(); err != nil {
		return err
	}
	made, err := p.Trial(p.Log().WithContext(ctx), c.Against...)
	if err != nil {
		return err
	}
	all := recording{}
	if c.Kept {
		store, err := p.OpenStore(ctx)
		if err != nil {
			return err
		}
		if err := record.Kept(ctx, store, func(id, line string) { all.readTurn("turn "+id+" of Redis", []byte(line)) }); err != nil {
			return err
		}
	}
	all.read(c.Files)
	for _, fault := range all.faults[:min(len(all.faults), maxRows)] {
		fmt.Fprintln(p.Err(), "not replayed:", cli.OneLine(fault))
	}
	if more := len(all.faults) - maxRows; more > 0 {
		fmt.Fprintf(p.Err(), "and %d more\n", more)
	}
	if len(all.turns) == 0 {
		return app.Usage(errors.New("there is no turn to replay"))
	}
	if err := all.checkBot(made.Actions); err != nil {
		return app.Usage(err)
	}
	r := &replay{command: c, history: cmp.Or(made.HistoryTurns, maxHistory)}
	r.of = dryrun.Bot{Planner: made.Planner, Actions: made.Actions, Policy: made.Policy}
	if err := r.open(made.Planner); err != nil {
		return app.Usage(fmt.Errorf("--resume: %w", err))
	}
	stopped := r.all(ctx, all.turns)
	if r.kept != nil {
		stopped = errors.Join(stopped, r.kept.Close())
	}
	report := report{Model: made.Model, Turns: r.results, NotReplayed: all.faults, FailOn: c.FailOn}
	if stopped != nil {
		report.Stopped = fmt.Sprintf("It stopped after %d of %d turns: %v", len(r.results), len(all.turns), stopped)
	}
	if err := c.write(p, &report); err != nil {
		return err
	}
	switch {
	case stopped != nil:
		return cli.SilentError{Code: exitStopped}
	case report.failed() > 0:
		return cli.SilentError{Code: cli.ExitFailed}
	}
	return nil
}

// check finds what the command line cannot mean.
func (c *command) check() error {
	var faults []error
	for _, kind := range c.FailOn {
		if kind != "none" && !slices.Contains(kinds, kind) {
			faults = append(faults, fmt.Errorf("--fail-on: %q is none of %s and none", kind, strings.Join(kinds, ", ")))
		}
	}
	if len(c.Files) == 0 && !c.Kept {
		faults = append(faults, errors.New("no recording, and no --kept"))
	}
	if c.MaxGrowth < 0 {
		faults = append(faults, errors.New("--max-growth: must not be negative"))
	}
	if c.Concurrency < 1 {
		faults = append(faults, errors.New("--concurrency: has to be at least 1"))
	}
	return errors.Join(faults...)
}

func (c *command) write(p *app.Program, r *report) error {
	r.sort()
	var faults []error
	for _, one := range []struct {
		file  string
		write func(io.Writer) error
	}{{c.Markdown, r.markdown}, {c.JUnit, r.junit}} {
		if one.file == "" {
			continue
		}
		var text strings.Builder
		faults = append(faults, one.write(&text), os.WriteFile(one.file, []byte(text.String()), 0o600))
	}
	if c.JSON {
		return errors.Join(append(faults, cli.PrintJSON(p.Out(), r))...)
	}
	return errors.Join(append(faults, r.text(p.Out()))...)
}

// checkBot returns an error if none of the recorded calls is of an action that the bot has.
func (r *recording) checkBot(has *actions.Registry) error {
	var names []string
	for _, t := range r.turns {
		for _, c := range t.calls(len(t.Plans)) {
			if _, ok := has.Lookup(c.action); ok {
				return nil
			}
			if !slices.Contains(names, c.action) {
				names = append(names, c.action)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("the recording is of another bot: this one has none of its actions %s", cli.Printable(strings.Join(names, ", ")))
}

// replay is one run of the command.
type replay struct {
	*command
	of      dryrun.Bot
	history int // turns

	mu      sync.Mutex
	results []result
	known   map[string]result // from an earlier run
	kept    *os.File          // nil: results are not kept
	away    error             // why no more turns are planned
}

// open opens the file of earlier results. They are of the same bot, or the error says that they are not.
func (r *replay) open(planner turn.Planner) error {
	if r.Resume == "" {
		return nil
	}
	file, err := os.OpenFile(r.Resume, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	r.kept, r.known = file, map[string]result{}
	head := struct {
		Replay int    `json:"replay"`
		Of     string `json:"of"`
	}{1, r.fingerprint(planner)}
	first, at := plainjson.Text(head), int64(0)
	lines := bufio.NewReader(file)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil { // what is cut off is planned again
			break
		}
		var one result
		switch {
		case n == 0 && strings.TrimSpace(line) != first:
			return fmt.Errorf("%s is of another build, other settings or other flags: remove it to begin anew", r.Resume)
		case n > 0 && json.Unmarshal([]byte(line), &one) == nil:
			r.known[one.Turn] = one
		}
		at += int64(len(line))
	}
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if err := file.Truncate(at); err != nil || at > 0 {
		return err
	}
	_, err = file.WriteString(first + "\n")
	return err
}

// fingerprint changes with the program, with what it asks a model, and with what is asked for.
func (r *replay) fingerprint(planner turn.Planner) string {
	sum := sha256.New()
	fmt.Fprintln(sum, r.Against, r.Follow, r.MaxGrowth)
	if own, err := os.Executable(); err == nil {
		if raw, err := os.Open(own); err == nil { //nolint:gosec // itself
			_, _ = io.Copy(sum, raw) // a part differs as well
			_ = raw.Close()          // read only
		}
	}
	if maker, ok := planner.(interface {
		Messages(context.Context, *actions.Turn) ([]models.Message, error)
	}); ok {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		empty := turnlog.Record{Head: turnlog.Head{At: time.Unix(0, 0)}}
		asked, _ := maker.Messages(ctx, dryrun.TurnOf(empty, nil)) // a mistake is told later
		fmt.Fprintln(sum, plainjson.Text(asked))
	}
	return hex.EncodeToString(sum.Sum(nil)[:12])
}

// all replays the turns. Those of one conversation follow each other if they have to.
func (r *replay) all(ctx context.Context, turns []*recorded) error {
	var groups [][]*recorded
	at := map[string]int{}
	for _, t := range turns {
		i, known := at[t.Conversation]
		if r.Follow == "recorded" || !known {
			i = len(groups)
			at[t.Conversation] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	next := make(chan []*recorded)
	var workers sync.WaitGroup
	for range r.Concurrency {
		workers.Go(func() {
			for group := range next {
				r.conversation(ctx, group)
			}
		})
	}
	for _, group := range groups {
		next <- group
	}
	close(next)
	workers.Wait()
	return cmp.Or(r.away, ctx.Err())
}

// conversation replays turns one after another.
func (r *replay) conversation(ctx context.Context, turns []*recorded) {
	var said *prompts.History // by this build; nil: as recorded
	for _, t := range turns {
		r.mu.Lock()
		known, ok := r.known[t.ID]
		away := r.away != nil || ctx.Err() != nil
		r.mu.Unlock()
		if away {
			return
		}
		if !ok || r.Follow == "new" {
			var err error
			if known, err = r.turn(ctx, t, &said); err != nil {
				r.mu.Lock()
				r.away = cmp.Or(r.away, err)
				r.mu.Unlock()
				return
			}
		}
		r.mu.Lock()
		r.results = append(r.results, known)
		if r.kept != nil && !ok {
			if _, err := r.kept.WriteString(plainjson.Text(known) + "\n"); err != nil {
				r.away = cmp.Or(r.away, fmt.Errorf("--resume: %w", err))
			}
		}
		r.mu.Unlock()
	}
}

// turn plans a turn again. The error says that no turn can be planned now.
func (r *replay) turn(ctx context.Context, t *recorded, said **prompts.History) (result, error) {
	found := t.Before
	scope := "conversation"
	if found["thread"] != nil {
		scope = "thread"
	}
	had := state.Peek[prompts.History](state.ScopeOf(found[scope]))
	if *said != nil && had != nil && len(had.Turns) > 0 {
		found = map[string]map[string]jsontext.Value{}
		maps.Copy(found, t.Before)
		own := map[string]jsontext.Value{}
		maps.Copy(own, t.Before[scope])
		own[historyName] = jsontext.Value(plainjson.Text(*said))
		found[scope] = own
	}
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	began := time.Now()
	again := dryrun.TurnOf(t.Record, found)
	run, err := dryrun.Play(ctx, r.of, again, t.Commands, nil)
	if isAway(err) || errors.Is(err, context.Canceled) {
		return result{}, err
	}
	failure := ""
	if err != nil {
		failure = cli.OneLine(err.Error())
	}
	u := again.Usage
	res := result{
		Turn: t.ID, File: t.file, Said: t.Received.Text,
		Changes: compare(t, run, failure), Stops: run.Stops, Took: time.Since(began),
		Was: numbers{t.ModelCalls, t.TokensIn, t.TokensOut, t.Cost},
		Is:  numbers{u.ModelCalls, u.PromptTokens, u.CompletionTokens, u.Cost},
	}
	limit := res.Was.In * (100 + r.MaxGrowth) / 100
	if r.MaxGrowth > 0 && limit > 0 && res.Is.In > limit {
		grown := fmt.Sprintf("its questions have %d tokens, and had %d", res.Is.In, res.Was.In)
		res.Changes = append(res.Changes, change{tokens, grown})
		slices.SortStableFunc(res.Changes, byKind)
	}
	if r.Follow == "new" {
		if *said == nil || had == nil || len(had.Turns) == 0 {
			*said = &prompts.History{}
			if had != nil {
				(*said).Turns = slices.Clone(had.Turns)
			}
		}
		(*said).Append(spoken(t, run), r.history)
	}
	return res, nil
}

// spoken is what the history would have of the turn.
func spoken(t *recorded, run *dryrun.Run) prompts.Turn {
	var p plan.Plan
	for _, c := range run.Calls {
		switch {
		case c.Kind == plan.Do:
			var entities map[string]any
			_ = json.Unmarshal([]byte(c.Entities), &entities) // they are an object
			p.Commands = append(p.Commands, plan.Command{Kind: plan.Do, Action: c.Action, Entities: entities})
		case c.Verdict == dryrun.Said:
			p.Commands = append(p.Commands, plan.Command{Kind: plan.Say, Response: c.Text})
		}
	}
	return said(t, p)
}

// isAway reports whether the next turn would fail as well.
func isAway(err error) bool {
	fault, ok := errors.AsType[*models.Error](err)
	return ok && slices.Contains([]string{models.Unavailable, models.Timeout, models.Throttled, models.Quota, models.Auth}, fault.Kind)
}

// report is what came of all turns.
type report struct {
	Model       string   `json:"model"`
	Stopped     string   `json:"stopped,omitempty"`
	NotReplayed []string `json:"notReplayed,omitempty"`
	FailOn      []string `json:"failOn"`
	Turns       []result `json:"turns"` // the worst first
}

// sort puts the worst turns first.
func (r *report) sort() {
	worst := func(t result) int {
		if len(t.Changes) == 0 {
			return len(kinds)
		}
		return rank(t.Changes[0].Kind)
	}
	slices.SortStableFunc(r.Turns, func(a, b result) int {
		return cmp.Or(worst(a)-worst(b), len(b.Changes)-len(a.Changes), cmp.Compare(a.File, b.File), cmp.Compare(a.Turn, b.Turn))
	})
}

func (r *report) fails(c change) bool { return slices.Contains(r.FailOn, c.Kind) }

func (r *report) failed() (n int) {
	for _, t := range r.Turns {
		if slices.ContainsFunc(t.Changes, r.fails) {
			n++
		}
	}
	return n
}

func (r *report) changed() []result {
	n := slices.IndexFunc(r.Turns, func(t result) bool { return len(t.Changes) == 0 })
	if n < 0 {
		return r.Turns
	}
	return r.Turns[:n]
}

func (r *report) summary() string {
	count := map[string]int{}
	for _, t := range r.Turns {
		for _, c := range t.Changes {
			count[c.Kind]++
		}
	}
	text := fmt.Sprintf("%s replayed, %d changed", turnview.Count(len(r.Turns), "turn"), len(r.changed()))
	for _, kind := range kinds {
		if count[kind] > 0 {
			text += fmt.Sprintf(", %s %d", kind, count[kind])
		}
	}
	if len(r.NotReplayed) > 0 {
		text += fmt.Sprintf(", %d not replayed", len(r.NotReplayed))
	}
	return text
}

// figures are what the turns used: name, recorded, now.
func (r *report) figures() (rows [][3]string) {
	var was, is numbers
	for _, t := range r.Turns {
		was.add(t.Was)
		is.add(t.Is)
	}
	add := func(name, format string, was, is any) {
		rows = append(rows, [3]string{name, fmt.Sprintf(format, was), fmt.Sprintf(format, is)})
	}
	if was.Calls > 0 { // scenarios do not know
		add("model calls", "%d", was.Calls, is.Calls)
	}
	if was.In > 0 { // the offline model counts none
		add("tokens in", "%d", was.In, is.In)
		add("tokens out", "%d", was.Out, is.Out)
	}
	if was.Cost+is.Cost > 0 {
		add("cost", "%.4f", was.Cost, is.Cost)
	}
	return rows
}

func (r *report) text(w io.Writer) error {
	var out strings.Builder
	for _, t := range r.changed() {
		fmt.Fprintf(&out, "%s  %q\n", cli.Printable(t.Turn), spelling.OneLine(t.Said, maxShown))
		for _, c := range t.Changes {
			fmt.Fprintf(&out, "    %-9s %s\n", c.Kind, cli.OneLine(c.Text))
		}
	}
	for _, row := range r.figures() {
		fmt.Fprintf(&out, "%s: %s became %s\n", row[0], row[1], row[2])
	}
	fmt.Fprintf(&out, "model: %s\n", cli.Printable(r.Model))
	if r.Stopped != "" {
		fmt.Fprintln(&out, cli.OneLine(r.Stopped))
	}
	fmt.Fprintln(&out, r.summary())
	_, err := io.WriteString(w, out.String())
	return err
}

const maxRows = 50 // limits the table of a pull request, and the list of what is not replayed

func cell(text string) string {
	marks := strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "@", "@\u200b", "*", `\*`, "_", `\_`, "[", `\[`)
	return marks.Replace(cli.OneLine(text))
}

// markdown writes the summary for a pull request.
func (r *report) markdown(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "## Replay\n\n%s. Model: %s.\n", r.summary(), cell(r.Model))
	if r.Stopped != "" {
		fmt.Fprintf(&out, "\n**%s**\n", cell(r.Stopped))
	}
	changed := r.changed()
	if len(changed) > 0 {
		out.WriteString("\n| said | what changed |\n|---|---|\n")
	}
	for _, t := range changed[:min(len(changed), maxRows)] {
		var all []string
		for _, c := range t.Changes {
			all = append(all, "**"+c.Kind+"** "+cell(c.Text))
		}
		fmt.Fprintf(&out, "| %s | %s |\n", cell(spelling.OneLine(t.Said, maxShown)), strings.Join(all, "<br>"))
	}
	if more := len(changed) - maxRows; more > 0 {
		fmt.Fprintf(&out, "\nAnd %d more.\n", more)
	}
	if rows := r.figures(); len(rows) > 0 {
		out.WriteString("\n| | recorded | this build |\n|---|---|---|\n")
		for _, row := range rows {
			fmt.Fprintf(&out, "| %s | %s | %s |\n", row[0], row[1], row[2])
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// junit writes a test for each turn.
func (r *report) junit(w io.Writer) error {
	var cases []junit.Case
	for _, t := range r.Turns {
		one := junit.Case{Suite: t.File, Name: t.Turn + " " + spelling.OneLine(t.Said, maxShown), Took: t.Took}
		if i := slices.IndexFunc(t.Changes, r.fails); i >= 0 {
			one.Failure = t.Changes[i].Kind + ": " + t.Changes[i].Text
			for _, c := range t.Changes {
				one.Details += c.Kind + ": " + c.Text + "\n"
			}
		}
		cases = append(cases, one)
	}
	slices.SortStableFunc(cases, func(a, b junit.Case) int { return cmp.Compare(a.Suite, b.Suite) })
	return junit.Write(w, cases)
}
