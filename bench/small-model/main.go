// Command small-model holds the planner and the decoder against a real server and a real,
// very small model: llama-cpp-python with SmolLM2-135M-Instruct. run.sh beside it installs
// and starts both, and then runs it. It judges neither wit nor speed: a model of this size
// is wrong most of the time, and that makes it a good stranger.
//
// It prints tables of the plans that the model wrote for each variant of the prompt, as
// markdown, and ends with status 1 when a check of them failed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
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
	failed, err := judgePlans(ctx, server, *answers)
	if err != nil {
		fmt.Fprintln(os.Stderr, "small-model:", err)
		return 2
	}
	if failed > 0 {
		fmt.Printf("\n%d checks failed.\n", failed)
		return 1
	}
	return 0
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

// judgePlans asks every utterance in every cell, prints the tables and returns how many
// checks failed.
func judgePlans(ctx context.Context, server models.OpenAIConfig, answers string) (failed int, err error) {
	said, err := utterances()
	if err != nil {
		return 0, err
	}
	out, err := os.Create(answers)
	if err != nil {
		return 0, err
	}
	defer out.Close() //nolint:errcheck // a log for people; the figures are printed
	var tallies []*tally
	for i := range cells {
		t, err := judgeCell(ctx, server, &cells[i], said, json.NewEncoder(out))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", cells[i].name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %d turns in %s\n", t.cell.name, t.asked, t.took.Round(time.Second))
		tallies = append(tallies, t)
	}
	printPlans(os.Stdout, tallies)
	return checkPlans(os.Stdout, tallies), nil
}

func judgeCell(ctx context.Context, server models.OpenAIConfig, c *cell, said []utterance, out *json.Encoder) (*tally, error) {
	reg := actions.New()
	lists.Register(reg)
	model, err := models.NewOpenAI(server) // one that has learned nothing yet
	if err != nil {
		return nil, err
	}
	ear := &listener{model: model, cell: c}
	library, err := prompts.Load("")
	if c.teams {
		library, err = teamsPrompts(reg)
	}
	if err != nil {
		return nil, err
	}
	sequence, err := planner.NewSequence(ctx, planner.Config{
		Model: ear, Prompts: library, Actions: reg, MaxTokens: maxTokens, ResponseFormat: c.format,
	})
	if err != nil {
		return nil, err
	}
	t := &tally{cell: c}
	start := time.Now()
	for _, u := range said {
		ear.answers = nil
		p, err := sequence.Plan(ctx, turnOf(u.Text, c))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.count(u, p, err, ear.answers, reg)
		line := map[string]any{"cell": c.name, "said": u.Text, "answers": ear.answers, "plan": p}
		if err != nil {
			line["fault"] = err.Error()
		}
		if err := out.Encode(line); err != nil {
			return nil, err
		}
	}
	t.took = time.Since(start)
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
	cell    *cell
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
	if l.cell.clock {
		stopped = "\n\nToday: 2026-11-21, Saturday"
	}
	for i, m := range own.Messages {
		if m.Role == "system" {
			own.Messages[i].Text = theClock.ReplaceAllLiteralString(m.Text, stopped)
			own.Messages[i].WithSchema = theClock.ReplaceAllLiteralString(m.WithSchema, stopped)
		}
	}
	res, err := l.model.Complete(ctx, &own)
	a := answer{}
	if err != nil {
		a.Err = err.Error()
	} else {
		a.Text, a.Finish, a.Usage = res.Text, res.Finish, res.Usage
	}
	l.answers = append(l.answers, a)
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
func turnOf(said string, c *cell) *actions.Turn {
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
			{Role: prompts.User, Text: e.said}, {Role: prompts.Assistant, Text: p},
		}}, 0)
	}
	return t
}

// teamsText is the prompt of Teams AI's sequence augmentation: what the app says
// of itself, the actions in YAML with their parameters' schemas, and the form of
// the answer, in one system message. It is a reconstruction of its layout in words
// of our own, not its text.
const teamsText = `The following is a conversation with an AI assistant that keeps lists for a person.

%s
Use the actions above to write a plan in this JSON format:

{"type":"plan","commands":[{"type":"DO","action":"<name>","parameters":{"<name>":"<value>"}},{"type":"SAY","response":"<response>"}]}
`

// teamsPrompts is a library in which that prompt stands in the place of ours.
func teamsPrompts(reg *actions.Registry) (*prompts.Library, error) {
	dir, err := os.MkdirTemp("", "small-model")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder of the system's for such things
	folder := filepath.Join(dir, "sequence")
	err = os.Mkdir(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "prompt.txt"), fmt.Appendf(nil, teamsText, teamsActions(reg)), 0o600)
	}
	if err != nil {
		return nil, err
	}
	return prompts.Load(dir)
}

func teamsActions(reg *actions.Registry) string {
	var b strings.Builder
	b.WriteString("actions:\n")
	for _, a := range reg.All() {
		fmt.Fprintf(&b, "  %s:\n    description: %s\n", a.Name, a.Description)
		if len(a.Schema.Properties) > 0 {
			b.WriteString("    parameters:\n")
		}
		for _, name := range a.Schema.PropertyOrder {
			p := a.Schema.Properties[name]
			fmt.Fprintf(&b, "      %s:\n%s        description: %s\n", name, teamsType(plan.TypeText(p)), p.Description)
		}
	}
	return b.String()
}

func teamsType(name string) string {
	if item, ok := strings.CutSuffix(name, "[]"); ok {
		return fmt.Sprintf("        type: array\n        items:\n          type: %s\n", item)
	}
	return fmt.Sprintf("        type: %s\n", name)
}
