// Command small-model holds the planner and the decoder against a real server and a real,
// very small model: llama-cpp-python with SmolLM2-135M-Instruct. run.sh beside it installs
// and starts both, and then runs it. It judges neither wit nor speed: a model of this size
// is wrong most of the time, and that makes it a good stranger.
//
// It prints a table of the plans that the model wrote for each variant of the prompt, as
// markdown, and ends with status 1 when a plan that a schema was given for may not run.
package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

const (
	timeout   = 2 * time.Hour // of the run; a machine with one free core takes minutes
	maxTokens = 300           // enough for any plan of these actions: what is longer runs in circles
	greedy    = 1e-6          // as good as zero: the likeliest token each time
)

func main() {
	os.Exit(run())
}

func run() int {
	url := flag.String("url", "", "base URL of the server, such as http://127.0.0.1:8000/v1")
	key := flag.String("key", "", "its API key")
	model := flag.String("model", "smollm2", "its name for the model")
	answers := flag.String("answers", os.DevNull, "file for every answer of the model, one JSON object a line")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	server := models.OpenAIConfig{
		BaseURL: *url, Key: *key, Model: *model, MaxTokensField: "max_tokens", Transport: besideObject{http.DefaultTransport},
		Timeout: 10 * time.Minute, // a busy machine writes a few tokens a second
	}
	tallies, err := judge(ctx, server, *answers)
	if err != nil {
		fmt.Fprintln(os.Stderr, "small-model:", err)
		return 2
	}
	return printTable(os.Stdout, tallies)
}

// judge asks every utterance in every cell.
func judge(ctx context.Context, server models.OpenAIConfig, answers string) (tallies []*tally, err error) {
	said, err := utterances()
	if err != nil {
		return nil, err
	}
	out, err := os.Create(answers)
	if err != nil {
		return nil, err
	}
	defer out.Close() //nolint:errcheck // a log for people; the figures are printed
	for _, c := range cells {
		began := time.Now()
		t, err := judgeCell(ctx, server, c, said, json.NewEncoder(out))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %d turns in %s\n", c.name, t.asked, time.Since(began).Round(time.Second))
		tallies = append(tallies, t)
	}
	return tallies, nil
}

// besideObject writes a response format json_schema as json_object and a schema beside it,
// which is how llama-cpp-python takes one.
type besideObject struct{ http.RoundTripper }

func (t besideObject) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var request struct {
		Format struct {
			Type string `json:"type"`
			JSON struct {
				Schema json.RawMessage `json:"schema"`
			} `json:"json_schema"`
		} `json:"response_format"`
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &request) == nil && request.Format.Type == "json_schema" && json.Unmarshal(body, &fields) == nil {
		fields["response_format"] = slices.Concat([]byte(`{"type":"json_object","schema":`), request.Format.JSON.Schema, []byte("}"))
		body, _ = json.Marshal(fields) // that were JSON
	}
	own := r.Clone(r.Context())
	own.Body, own.ContentLength, own.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return t.RoundTripper.RoundTrip(own)
}

// cell is one way to ask all the utterances.
type cell struct {
	name    string
	teams   bool // the prompt of Teams AI in place of ours
	format  string
	history bool // behind earlier turns
	clock   bool // with the line of our planner that says what time it is
}

var cells = []cell{
	{name: "ours, schema", format: "json_schema", clock: true},
	{name: "ours", format: "text", clock: true},
	{name: "Teams AI's", format: "text", teams: true},
	{name: "ours, schema, earlier turns", format: "json_schema", history: true, clock: true},
	{name: "ours, earlier turns", format: "text", history: true, clock: true},
	{name: "ours without the clock, earlier turns", format: "text", history: true},
	{name: "Teams AI's, earlier turns", format: "text", history: true, teams: true},
	{name: "Teams AI's with our clock, earlier turns", format: "text", history: true, teams: true, clock: true},
}

// teams holds the prompt of Teams AI's sequence augmentation: what the app says of itself, the
// actions in YAML with their parameters' schemas, and the form of the answer, in one system
// message. It is a reconstruction of its layout in words of our own, not its text.
//
//go:embed teams
var teams embed.FS

// judgeCell asks every utterance.
func judgeCell(ctx context.Context, server models.OpenAIConfig, c cell, said []utterance, out *json.Encoder) (*tally, error) {
	model, err := models.NewOpenAI(server) // one that has learned nothing yet
	if err != nil {
		return nil, err
	}
	ear := &listener{model: model, clock: c.clock}
	cfg := planner.Config{Model: ear, Actions: actions.New(), MaxTokens: maxTokens, ResponseFormat: c.format}
	lists.Register(cfg.Actions)
	if c.teams {
		if cfg.Prompts, err = prompts.LoadFS(teams, "teams"); err != nil {
			return nil, err
		}
	}
	sequence, err := planner.NewSequence(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t := &tally{cell: c}
	for _, u := range said {
		ear.answers = nil
		p, err := sequence.Plan(ctx, turnOf(u.Text, c))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.count(u, err == nil, ear.answers, cfg.Actions)
		line := map[string]any{"cell": c.name, "said": u.Text, "answers": ear.answers, "plan": p}
		if err != nil {
			line["fault"] = err.Error()
		}
		if err := out.Encode(line); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// answer is one answer of the model, or why there was none.
type answer struct {
	Text   string       `json:"text,omitempty"`
	Finish string       `json:"finish,omitempty"`
	Usage  models.Usage `json:"usage"`
	Err    string       `json:"error,omitempty"`
}

// listener is a model between the planner and the real one. It sets what belongs
// to the cell, and keeps the answers.
type listener struct {
	model   models.Model
	clock   bool
	answers []answer // since the last turn began
}

// theClock is what the planner says of the date, at the end of its prompt.
var theClock = regexp.MustCompile(`\n\nToday: \d{4}-\d\d-\d\d, [A-Z][a-z]+day`)

// Complete stops the clock of the prompt, so that a run can be repeated, or takes it out.
func (l *listener) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	own, temperature := *req, greedy
	own.Temperature = &temperature
	own.Messages = slices.Clone(req.Messages)
	stopped := ""
	if l.clock {
		stopped = "\n\nToday: 2026-11-21, Saturday"
	}
	for i, m := range own.Messages {
		if m.Role == "system" {
			own.Messages[i].Text = theClock.ReplaceAllLiteralString(m.Text, stopped)
			own.Messages[i].WithSchema = theClock.ReplaceAllLiteralString(m.WithSchema, stopped)
		}
	}
	res, err := l.model.Complete(ctx, &own)
	if err != nil {
		l.answers = append(l.answers, answer{Err: err.Error()})
	} else {
		l.answers = append(l.answers, answer{Text: res.Text, Finish: res.Finish, Usage: res.Usage})
	}
	return res, err
}

// earlier is what was said before, in the cells with a history, and the plans of
// it as a bot keeps them. A small model learns the format from it.
var earlier = []struct{ said, plan string }{
	{"good morning", `{"type":"plan","commands":[{"type":"SAY","response":"Good morning! What shall I write down?"}]}`},
	{"put soap on the bathroom list", `{"type":"plan","commands":[` +
		`{"type":"DO","action":"addItem","entities":{"item":"soap","list":"bathroom"}},{"type":"SAY","response":"Soap is on the bathroom list."}]}`},
	{"make a list called garden", `{"type":"plan","commands":[` +
		`{"type":"DO","action":"createList","entities":{"list":"garden"}},{"type":"SAY","response":"There is a list garden now."}]}`},
	{"the soap is bought, take it off again", `{"type":"plan","commands":[` +
		`{"type":"DO","action":"removeItem","entities":{"item":"soap","list":"bathroom"}},{"type":"SAY","response":"Soap is off the bathroom list."}]}`},
}

// turnOf is the turn in which a person says this, with an empty state or, in a
// cell with a history, behind the earlier turns.
func turnOf(said string, c cell) *actions.Turn {
	scope := state.NewScope()
	t := &actions.Turn{
		Activity: &activity.Activity{Text: said}, Text: said,
		Conversation: scope, Thread: scope, User: state.NewScope(), Temp: state.NewScope(),
	}
	t.Activity.Conversation.ConversationType = "personal"
	if !c.history {
		return t
	}
	for _, e := range earlier {
		p := e.plan
		if c.teams {
			p = strings.ReplaceAll(p, `"entities":`, `"parameters":`)
		}
		state.Of[prompts.History](scope).Append(prompts.Turn{From: "mia", Messages: []prompts.Message{
			{Role: "user", Text: e.said}, {Role: "assistant", Text: p},
		}}, 0)
	}
	return t
}
