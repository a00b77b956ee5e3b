// Package plans is a feature of a program: a command that shows what the model is asked and what it plans, and runs
// plans from files.
package plans

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/console"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/planner/plan"
)

const maxOutputBytes = 16 << 20 // limits the text read as one model output, and the lines of --jsonl

// Feature adds the command plan.
func Feature() app.Feature {
	return app.Feature{Name: "plans", Commands: &struct {
		Plan planCmd `help:"Show what the model is asked and what it plans, or decode what a model wrote."`
	}{}}
}

type planCmd struct {
	Show   planShowCmd   `default:"true" help:"Show the prompt for a text and the model's plan; run nothing."`
	Decode planDecodeCmd `help:"Decode what a model wrote, from standard input, to one JSON line."`
	Print  planPrintCmd  `help:"Print a plan from a file, JSON or XML, that may run; run nothing."`
	Run    planRunCmd    `help:"Run a plan from a file, JSON or XML, on state of its own; ask before what has effects."`
}

type planShowCmd struct {
	Text string `arg:"" help:"what the person says"`
}

func (c planShowCmd) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	if err := cli.Check(s); err != nil {
		return err
	}
	ctx = cli.Logger(std.Err, s, zerolog.WarnLevel).WithContext(ctx)
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	maker, err := s.NewPlanner(ctx, s.Actions(), settings.Watch{})
	if err != nil {
		return err
	}
	turn := settings.Turn(c.Text)
	messages, err := maker.Messages(ctx, turn)
	if err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	for _, m := range messages {
		fmt.Fprintf(std.Out, "--- %s\n%s\n", m.Role, m.Text)
	}
	plan, err := maker.Plan(ctx, turn)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	fmt.Fprintln(std.Out, "--- plan")
	return cli.PrintJSON(std.Out, decodedOf(plan))
}

// registryFlag selects the actions to check plans against.
type registryFlag struct {
	Actions string `type:"path" placeholder:"FILE" help:"registry as in Teams AI's actions.json; without it this bot's actions"`
}

// registry returns the actions, and what to close after their use.
func (f registryFlag) registry(ctx context.Context, s *settings.Settings, std *cli.Streams) (*actions.Registry, func(), error) {
	if f.Actions != "" {
		registry, err := s.ReadActions(f.Actions)
		return registry, func() {}, err
	}
	ctx = cli.Logger(std.Err, s, zerolog.ErrorLevel).WithContext(ctx)
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	settings.List(ctx, s.Connected) // so that the actions of services are known
	registry, err := s.Registry(ctx)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return registry, closeAll, nil
}

type planDecodeCmd struct {
	registryFlag
	JSONL  bool   `name:"jsonl" help:"read lines of {\"name\",\"output\"}, write lines of {\"name\",…}"`
	Format string `oneof:"json,xml" default:"json" help:"json as from the planner sequence, or xml as from sequential"`
	Goal   string `help:"what the person said, for the $INPUT of xml"`
}

// decoded is what decode prints for one output.
type decoded struct {
	Name     string         `json:"name,omitempty"`
	Commands []command      `json:"commands,omitempty"`
	Repairs  []string       `json:"repairs,omitzero"`
	Salvaged bool           `json:"salvaged,omitempty"`
	Say      string         `json:"say,omitempty"`
	Error    plan.FaultKind `json:"error,omitempty"`
	Detail   string         `json:"detail,omitempty"`
}

// command is a [plan.Command] that always shows the entities of a DO.
type command struct {
	Type     string         `json:"type"`
	Action   string         `json:"action,omitempty"`
	Entities map[string]any `json:"entities,omitzero"`
	SaveAs   string         `json:"saveAs,omitempty"`
	Response string         `json:"response,omitempty"`
}

// Run decodes standard input. Faults of the plans are results; it fails only if it cannot read its
// input.
func (c planDecodeCmd) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	registry, done, err := c.registry(ctx, s, std)
	if err != nil {
		return err
	}
	defer done()
	out := json.NewEncoder(std.Out)
	out.SetEscapeHTML(false)
	if c.JSONL {
		return c.decodeLines(std.In, out, registry)
	}
	text, err := io.ReadAll(io.LimitReader(std.In, maxOutputBytes))
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return out.Encode(c.decode(string(text), registry))
}

func (c planDecodeCmd) decodeLines(in io.Reader, out *json.Encoder, registry *actions.Registry) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxOutputBytes)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line struct {
			Name   string  `json:"name"`
			Output *string `json:"output"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return cli.Usage(fmt.Errorf("line %d: %w", n, err))
		}
		if line.Output == nil {
			return cli.Usage(fmt.Errorf("line %d has no output", n))
		}
		result := c.decode(*line.Output, registry)
		result.Name = line.Name
		if err := out.Encode(result); err != nil {
			return fmt.Errorf("write line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return cli.Usage(fmt.Errorf("standard input: %w", err))
	}
	return nil
}

func (c planDecodeCmd) decode(text string, registry *actions.Registry) decoded {
	var p plan.Plan
	var err error
	if c.Format == "xml" {
		p, err = plan.DecodeXML(text, c.Goal, registry)
	} else if p, err = plan.Decode(text); err == nil {
		p, err = p.Validate(registry)
	}
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return decoded{Error: fault.Kind, Detail: fault.Detail}
	}
	return decodedOf(p)
}

func decodedOf(p plan.Plan) decoded {
	if p.Prose {
		return decoded{Say: p.Commands[0].Response, Repairs: p.Repairs}
	}
	d := decoded{Repairs: append([]string{}, p.Repairs...), Salvaged: p.Salvaged}
	for _, c := range p.Commands {
		d.Commands = append(d.Commands, command{c.Kind, c.Action, c.Entities, c.SaveAs, c.Response})
	}
	return d
}

type planPrintCmd struct {
	registryFlag
	File    string `arg:"" placeholder:"FILE" help:"the plan; - for standard input"`
	Outline bool   `help:"leave out all values, as for logs"`
	As      string `oneof:"text,json" default:"text" help:"text to be read, or json to be kept"`
}

// Run prints the plan, or says why it could not run.
func (c planPrintCmd) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	registry, done, err := c.registry(ctx, s, std)
	if err != nil {
		return err
	}
	defer done()
	in := std.In
	if c.File != "-" {
		if in, err = os.Open(c.File); err != nil {
			return cli.Usage(err)
		}
		defer func() { _ = in.Close() }() // read only
	}
	data, err := io.ReadAll(io.LimitReader(in, maxOutputBytes))
	if err != nil {
		return cli.Usage(err)
	}
	plan, err := plan.Load(data, registry)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	switch {
	case c.Outline:
		fmt.Fprintln(std.Out, plan.Outline())
	case c.As == "json":
		return cli.PrintJSON(std.Out, plan)
	default:
		fmt.Fprintln(std.Out, plan)
	}
	return nil
}

type planRunCmd struct {
	File string `arg:"" placeholder:"FILE" help:"the plan, JSON or XML"`
	Goal string `help:"what the person said, for the $INPUT of xml"`
	Live bool   `help:"work on the state of the bot (REDIS_URL, BOT_DATA_DIR), not on an empty one"`
	Yes  bool   `help:"approve whatever you may decide"`
}

// Run has the bot's engine run the plan as the turn of somebody at this terminal: with its policy, limits and audit, but
// nobody's tokens. It fails if the plan does.
func (c planRunCmd) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	text, err := readPlan(c.File)
	if err != nil {
		return cli.Usage(err)
	}
	own := *s
	own.Addr = "127.0.0.1:0"
	if own.AppID != "" {
		return cli.Usage(errors.New("plan run is for the bot without an app id: unset MICROSOFT_APP_ID"))
	}
	if !c.Live {
		own.RedisURL, own.DataDir = "", ""
	}
	if err := cli.Check(&own); err != nil {
		return err
	}
	own.DrainTimeout = time.Second
	lines, say, err := os.Pipe() // what the person says: their lines, and with --yes their approvals
	if err != nil {
		return err
	}
	defer func() { _ = lines.Close() }() // read only
	run := &planRun{cmd: c, text: text, settings: &own, say: say, typed: cli.IsTerminal(std.In)}
	defer run.end(nil)
	logs := &console.Logs{Out: std.Err}
	beside := app.Beside{
		Settings: &own, Log: cli.Logger(logs, &own, zerolog.WarnLevel), AckTimeout: own.TurnTimeout + time.Minute,
		Setup: func(cfg *bot.Config) error { return run.setUp(ctx, cfg) },
	}
	address, end, err := p.Background(ctx, beside)
	if err != nil {
		return err
	}
	run.line("run " + oneLine(c.File))
	if run.typed {
		go run.forward(std.In) // ends with the process: a read of a terminal cannot be ended
	}
	err = console.Run(ctx, console.Config{
		BotURL: address, In: lines, Out: std.Out, BotName: s.Bot.Name,
		Timeout: beside.AckTimeout, Logs: logs, NoColor: true, Unannounced: true,
	})
	logs.Mute()
	if cause := context.Cause(ctx); cause != nil {
		run.fail(cause)
	}
	return errors.Join(run.failure(), err, end())
}

func readPlan(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxOutputBytes))
	return string(text), err
}

func oneLine(file string) string { return cli.OneLine(filepath.Base(file)) }

// planRun is one run of a plan. It plans what the file says, once.
type planRun struct {
	cmd      planRunCmd
	text     string
	settings *settings.Settings
	plan     plan.Plan
	prompts  []string // names of actions that only ask the model

	approvers []string // who approves where the policy does not say; nil: who asked

	mu     sync.Mutex
	typed  bool     // somebody can answer at a terminal
	turn   string   // the activity of the turn that runs the plan
	waits  string   // what that turn waits for the person for; "": it does not
	asked  string   // the id of the approval that it asked for last
	say    *os.File // nil: the run is over
	failed error
}

// setUp has the bot plan what the file says, and ask before what has effects.
func (r *planRun) setUp(ctx context.Context, cfg *bot.Config) (err error) {
	settings.List(ctx, r.settings.Connected) // so that the actions of services are known
	if r.plan, err = plan.DecodeXML(r.text, r.cmd.Goal, cfg.Actions); err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", r.cmd.File, err))
	}
	if r.plan.Prose {
		return cli.Usage(fmt.Errorf("%s: is no plan, JSON or XML", r.cmd.File))
	}
	if r.prompts, err = r.settings.PromptNames(); err != nil {
		return err
	}
	cfg.Planner = bot.PlannerFunc(r.next)
	r.approvers = cfg.Approvers
	policy := settings.Policy(r.settings.ApprovalActions, cfg.Policy)
	cfg.Policy = func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		decided, err := policy(ctx, turn, call)
		return r.asks(decided, call), err
	}
	cfg.Features = append(cfg.Features, bot.Feature{Noted: r.noted, Ended: r.ended})
	return nil
}

// noted sees that an approval is asked for, or decided.
func (r *planRun) noted(_ *bot.Turn, n *turn.Note) {
	if n.What == "approval" {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waits, r.asked = "", n.ID
	}
}

// ended sees that the plan is over, or waits.
func (r *planRun) ended(_ context.Context, t *bot.Turn, e turn.Ended) {
	if t.Activity.Type != activity.Message {
		return
	}
	mine := r.claim(t.Turn)
	switch {
	case !mine:
	case e.Over():
		r.end(e.Failure)
	case e.Outcome == "waiting" && slices.Contains([]string{"approval", "sign_in", "answer", "file"}, e.Reason):
		r.mu.Lock()
		r.waits = e.Reason
		r.mu.Unlock()
		r.decide()
	}
}

// decide answers what the plan waits for, unless somebody at a terminal can: --yes approves, and else the answer is no.
func (r *planRun) decide() {
	r.mu.Lock()
	waits, asked, typed := r.waits, r.asked, r.typed
	r.mu.Unlock()
	switch {
	case waits == "":
	case waits == "approval" && r.cmd.Yes:
		r.line("/approve " + asked)
	case typed:
	case waits == "approval":
		r.fail(errors.New("the plan needs an approval, and nobody can give it here: use --yes or a terminal"))
		r.line("/reject " + asked)
	default:
		r.end(errors.New("the plan waits for somebody, and nobody can answer here"))
	}
}

// next is the plan, in the turn that runs it; what is left of it, if a command such as load_skill has the bot plan
// again; and after it or a failure nothing more.
func (r *planRun) next(_ context.Context, turn *actions.Turn) (plan.Plan, error) {
	mine := r.claim(turn)
	if !mine {
		return saying("The plan waits for /approve or /reject, with the id that is shown above."), nil
	}
	outcomes := turn.Outcomes()
	if len(turn.Rounds) == 0 {
		return r.plan, nil
	}
	var told []string // what nobody has read yet: the result of the plan, and what found nothing to act on
	for i, o := range outcomes {
		if o.Failed {
			r.fail(fmt.Errorf("%s: %s failed: %s", r.cmd.File, o.Action, o.Text))
			return saying(strings.Join(append(told, "Stopped: "+o.Action+" failed: "+o.Text), "\n")), nil
		}
		if o.Shown == "" && (o.Unchanged || i == len(outcomes)-1) {
			told = append(told, o.Action+": "+o.Text)
		}
	}
	if left := behind(r.plan.Commands, len(outcomes)); slices.ContainsFunc(left, func(c plan.Command) bool { return c.Kind == plan.Do }) {
		rest := r.plan
		rest.Commands = left
		return rest, nil
	}
	if told == nil {
		return plan.Plan{}, nil // cards have shown all of it
	}
	return saying(strings.Join(told, "\n")), nil
}

func saying(text string) plan.Plan {
	return plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: text}}}
}

// claim gives the plan to the first turn that asks, and reports whether that is this one.
func (r *planRun) claim(turn *actions.Turn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn = cmp.Or(r.turn, turn.Activity.ID)
	return r.turn == turn.Activity.ID
}

func behind(commands []plan.Command, done int) []plan.Command {
	for i, c := range commands {
		if done == 0 {
			return commands[i:]
		}
		if c.Kind == plan.Do {
			done--
		}
	}
	return nil
}

// asks adds to a decision of the policy that a person approves what has effects. Nobody but the person at the terminal
// can approve here.
func (r *planRun) asks(decided actions.Approval, call actions.Call) actions.Approval {
	approvers := decided.Approvers
	if len(approvers) == 0 {
		approvers = r.approvers
	}
	effects := !call.Action.StateOnly && !slices.Contains(r.prompts, call.Action.Name) || r.cmd.Live
	switch {
	case decided.Denied != "":
	case decided.Required && len(approvers) > 0 && !slices.Contains(approvers, console.User):
		decided.Denied = "somebody else has to approve this, and only you are here"
	case effects && !decided.Required:
		decided.Required = true
		decided.Approvers, decided.Self = []string{console.User}, true
	}
	return decided
}

// line has the person say something.
func (r *planRun) line(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.say != nil {
		_, _ = fmt.Fprintln(r.say, text) // a bot that is gone needs no answer
	}
}

// forward passes on what somebody types.
func (r *planRun) forward(in *os.File) {
	buffer := make([]byte, 4<<10)
	for {
		n, err := in.Read(buffer)
		if err != nil { // they have left
			r.mu.Lock()
			r.typed = false
			r.mu.Unlock()
			r.decide()
			return
		}
		r.line(strings.TrimRight(string(buffer[:n]), "\r\n"))
	}
}

func (r *planRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = cmp.Or(r.failed, err)
}

// end lets the console end, as soon as all is answered.
func (r *planRun) end(failure error) {
	if failure != nil {
		r.fail(failure)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.say != nil {
		_ = r.say.Close()
		r.say = nil
	}
}

func (r *planRun) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
