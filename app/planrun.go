package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/console"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/planner/plan"
)

type planRunCmd struct {
	File string `arg:"" placeholder:"FILE" help:"the plan, JSON or XML"`
	Goal string `help:"what the person said, for the $INPUT of xml"`
	Live bool   `help:"work on the state of the bot (REDIS_URL, BOT_DATA_DIR), not on an empty one"`
	Yes  bool   `help:"approve whatever you may decide"`
	own  *Bot
}

// Run has the bot's engine run the plan as the turn of somebody at this terminal: with its policy, limits and audit, but
// nobody's tokens. It fails if the plan does.
func (c planRunCmd) Run(ctx context.Context, s *settings.Settings, std *cli.Streams) error {
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
	b := *c.own
	setup := b.Setup
	b.Setup = func(cfg *bot.Config) error {
		if setup != nil {
			if err := setup(cfg); err != nil {
				return err
			}
		}
		return run.setUp(ctx, cfg)
	}
	logs := &console.Logs{Out: std.Err}
	p := &program{Settings: &own, own: b, log: cli.Logger(logs, &own, zerolog.WarnLevel), ackTimeout: own.TurnTimeout + time.Minute}
	defer p.close()
	address, end, err := p.background(ctx)
	if err != nil {
		return err
	}
	run.line("run " + oneLine(c.File))
	talking := ctx
	if run.typed {
		go run.forward(std.In) // ends with the process: a read of a terminal cannot be ended
	} else { // nobody can answer what it may wait for
		var stop context.CancelFunc
		talking, stop = context.WithTimeoutCause(ctx, p.ackTimeout, errors.New("the plan waits for somebody, and nobody can answer here"))
		defer stop()
	}
	err = console.Run(talking, console.Config{
		BotURL: address, In: lines, Out: run.approving(std.Out), BotName: s.Bot.Name,
		Timeout: p.ackTimeout, Logs: logs, NoColor: true, Unannounced: true,
	})
	logs.Mute()
	if cause := context.Cause(talking); cause != nil {
		run.fail(cause)
	}
	return errors.Join(run.failure(), err, end())
}

// readPlan reads a plan's file.
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
	typed    bool // somebody can answer at a terminal
	plan     plan.Plan
	prompts  []string // names of actions that only ask the model

	approvers []string // who approves where the policy does not say; nil: who asked

	mu     sync.Mutex
	turn   string   // the activity of the turn that runs the plan
	say    *os.File // nil: the run is over
	failed error
}

// setUp has the bot plan what the file says, and ask before what has effects.
func (r *planRun) setUp(ctx context.Context, cfg *bot.Config) (err error) {
	list(ctx, r.settings.Connected) // so that the actions of services are known
	if r.plan, err = plan.DecodeXML(r.text, r.cmd.Goal, cfg.Actions); err != nil {
		return fmt.Errorf("%s: %w", r.cmd.File, err)
	}
	if r.plan.Prose {
		return fmt.Errorf("%s: is no plan, JSON or XML", r.cmd.File)
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
	cfg.Features = append(cfg.Features, bot.Feature{Ended: func(_ context.Context, t *bot.Turn, e turn.Ended) {
		if e.Over() && t.Activity.Type == activity.Message && strings.HasPrefix(t.Text, "run ") {
			r.end(e.Failure)
		}
	}})
	return nil
}

// next is the plan, in the turn that runs it; what is left of it, if a command such as load_skill has the bot plan
// again; and after it or a failure nothing more.
func (r *planRun) next(_ context.Context, turn *actions.Turn) (plan.Plan, error) {
	if !r.runs(turn) {
		return saying("The plan waits for /approve or /reject, with the id that is shown above."), nil
	}
	outcomes := turn.Outcomes()
	if len(turn.Rounds) == 0 {
		return r.plan, nil
	}
	for _, o := range outcomes {
		if o.Failed {
			r.fail(fmt.Errorf("%s: %s failed: %s", r.cmd.File, o.Action, o.Text))
			return saying("Stopped: " + o.Action + " failed: " + o.Text), nil
		}
	}
	if left := behind(r.plan.Commands, len(outcomes)); slices.ContainsFunc(left, func(c plan.Command) bool { return c.Kind == plan.Do }) {
		rest := r.plan
		rest.Commands = left
		return rest, nil
	}
	last := outcomes[len(outcomes)-1]
	return saying(last.Action + ": " + last.Text), nil
}

// saying is a plan that only says that.
func saying(text string) plan.Plan {
	return plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: text}}}
}

// runs gives the plan to the first turn that asks for one. It returns whether that is this turn.
func (r *planRun) runs(turn *actions.Turn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == "" {
		r.turn = turn.Activity.ID
	}
	return r.turn == turn.Activity.ID
}

// behind are the commands behind that many DO commands.
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
		decided.Approvers = []string{console.User}
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
		if err != nil {
			return
		}
		r.line(strings.TrimRight(string(buffer[:n]), "\r\n"))
	}
}

// approving is out, on which --yes sees what has to be approved. Where nobody can type, the answer is no.
func (r *planRun) approving(out io.Writer) io.Writer {
	return writerFunc(func(text []byte) (int, error) {
		n, err := out.Write(text)
		for _, found := range approveForm.FindAllSubmatch(text, -1) {
			switch {
			case r.cmd.Yes:
				r.line("/approve " + string(found[1]))
			case !r.typed:
				r.fail(errors.New("the plan needs an approval, and nobody can give it here: use --yes or a terminal"))
				r.line("/reject " + string(found[1]))
			}
		}
		return n, err
	})
}

var approveForm = regexp.MustCompile(`/approve ([a-z0-9]+)`)

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (r *planRun) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = err
	}
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
