// Package smallmodel_test holds the planner and the decoder against a real server and a real, very
// small model: llama-cpp-python with SmolLM2-135M-Instruct. run.sh installs and starts both, and
// then runs TestSmallModel. It judges neither wit nor speed: a model of this size is wrong most of
// the time. The other tests try the judge itself, without a model.
package smallmodel_test

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	maxTokens = 300  // enough for any plan of these actions: what is longer runs in circles
	greedy    = 1e-6 // as good as zero: the likeliest token each time
)

var (
	url     = flag.String("url", "", "base URL of the server, such as http://127.0.0.1:8000/v1")
	key     = flag.String("key", "", "its API key")
	model   = flag.String("model", "smollm2", "its name for the model")
	answers = flag.String("answers", os.DevNull, "file for every answer of the model, one JSON object a line")
	only    = flag.String("cells", "", "regular expression: only the cells whose whole name it matches")
)

// TestSmallModel asks every utterance in every cell, and prints a table of the plans that the model
// wrote. It fails when a plan that a schema was given for may not run.
func TestSmallModel(t *testing.T) {
	if *url == "" {
		t.Skip("run.sh starts the server and runs this")
	}
	said, err := utterances()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(*answers)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	server := models.OpenAIConfig{
		BaseURL: *url, Key: *key, Model: *model, MaxTokensField: "max_tokens", Transport: besideObject{http.DefaultTransport},
		Timeout: 10 * time.Minute, // a busy machine writes a few tokens a second
	}
	chosen, err := regexp.Compile("^(?:" + *only + ")$")
	if err != nil {
		t.Fatal(err)
	}
	var tallies []*tally
	for _, c := range cells {
		if *only != "" && !chosen.MatchString(c.name) {
			continue
		}
		began := time.Now()
		one, err := judgeCell(t.Context(), server, c, said, json.NewEncoder(out))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		t.Logf("%s: %d turns in %s", c.name, one.asked, time.Since(began).Round(time.Second))
		tallies = append(tallies, one)
	}
	printTable(t, tallies)
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
	ear := &listener{model: model, clock: c.clock, alone: c.teams && !c.history}
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
	alone   bool     // without the exchanges that our planner shows
	answers []answer // since the last turn began
}

// theClock is what the planner says of the date.
var theClock = regexp.MustCompile(`(\n+)Today: \d{4}-\d\d-\d\d, [A-Z][a-z]+day`)

// Complete stops the clock of the prompt, so that a run can be repeated, or takes it out.
func (l *listener) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	own, temperature := *req, greedy
	own.Temperature = &temperature
	own.Messages = slices.Clone(req.Messages)
	stopped := ""
	if l.clock {
		stopped = "${1}Today: 2026-11-21, Saturday"
	}
	if l.alone {
		own.Messages = slices.Delete(own.Messages, 1, 5) // two exchanges
	}
	for i, m := range own.Messages {
		if m.Role == "system" {
			own.Messages[i].Text = theClock.ReplaceAllString(m.Text, stopped)
			own.Messages[i].WithSchema = theClock.ReplaceAllString(m.WithSchema, stopped)
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

//go:embed utterances.json
var utterancesFile []byte

// utterance is what a person says, and the DOs that answer it; none for small talk.
type utterance struct {
	Text string `json:"text"`
	Do   []call `json:"do"`
}

type call struct {
	Action   string         `json:"action"`
	Entities map[string]any `json:"entities"`
}

func utterances() ([]utterance, error) {
	var all []utterance
	if err := json.Unmarshal(utterancesFile, &all); err != nil {
		return nil, fmt.Errorf("utterances.json: %w", err)
	}
	return all, nil
}

// judge compares the plan with what was asked for: is it the same actions in the
// same order, and with the same entities? SAYs do not count.
func (u utterance) judge(p plan.Plan) (sameActions, sameEntities bool) {
	var done []plan.Command
	for _, c := range p.Commands {
		if c.Kind == plan.Do {
			done = append(done, c)
		}
	}
	if len(done) != len(u.Do) {
		return false, false
	}
	sameEntities = true
	for i, want := range u.Do {
		if done[i].Action != want.Action {
			return false, false
		}
		sameEntities = sameEntities && plainly(done[i].Entities) == plainly(want.Entities)
	}
	return true, sameEntities
}

// plainly writes entities so that two that mean the same are the same text: without regard
// to case and to the spaces around texts, and without what counts as absent, null and a list
// of nothing.
func plainly(entities map[string]any) string {
	trim := func(v any) any {
		if text, ok := v.(string); ok {
			return strings.ToLower(strings.TrimSpace(text))
		}
		return v
	}
	out := map[string]any{}
	for name, value := range entities {
		list, isList := value.([]any)
		for i := range list {
			list[i] = trim(list[i])
		}
		if value != nil && (!isList || len(list) > 0) {
			out[name] = trim(value)
		}
	}
	raw, _ := json.Marshal(out) // came from JSON
	return string(raw)
}

// tally counts what came of the utterances in one cell. All but usable and calls is of first
// answers.
type tally struct {
	cell   cell
	asked  int
	clean  int // plans as asked for, without repairs
	prose  int // without a plan, to be said as they are
	cut    int // cut off at the limit, whatever they are
	prompt int // tokens

	refused int
	invalid []string // those of them that were not cut off

	withDo   int // utterances that ask for an action
	actions  int // the same actions as these ask for
	entities int // and the same entities

	usable int // turns that end with a plan, after rounds of repair
	calls  int
}

// count takes the end of one turn, and every answer on the way to it.
func (t *tally) count(u utterance, usable bool, answers []answer, reg *actions.Registry) {
	first := answers[0]
	t.asked++
	t.calls += len(answers)
	t.prompt += first.Usage.Prompt
	if usable {
		t.usable++
	}
	if len(u.Do) > 0 {
		t.withDo++
	}
	cut := first.Finish == "length"
	if cut {
		t.cut++
	}
	p, err := plan.Decode(first.Text)
	if err == nil {
		p, err = p.Validate(reg)
	}
	switch {
	case first.Err != "" || err != nil:
		t.refused++
		if !cut {
			t.invalid = append(t.invalid, fmt.Sprintf("%v: %.300q", cmp.Or(err, errors.New("no answer")), first.Text+first.Err))
		}
		return
	case p.Prose:
		t.prose++
	case len(p.Repairs) == 0:
		t.clean++
	}
	sameActions, sameEntities := u.judge(p)
	if len(u.Do) > 0 && sameActions {
		t.actions++
		if sameEntities {
			t.entities++
		}
	}
}

// printTable prints a row for each cell. With a schema every first answer that was not cut off has
// to be a plan that may run.
func printTable(t *testing.T, all []*tally) {
	t.Helper()
	const head = "| prompt | plan as asked | prose | refused | cut off | usable in the end | model calls | prompt tokens | right actions | entities too |"
	fmt.Printf("%s\n|---|%s\n", head, strings.Repeat("--:|", strings.Count(head, "|")-2))
	for _, of := range all {
		fmt.Printf("| %s | %d | %d | %d | %d | %d of %d | %.2f | %d | %d of %d | %d |\n", of.cell.name, of.clean, of.prose, of.refused, of.cut,
			of.usable, of.asked, float64(of.calls)/float64(of.asked), of.prompt/of.asked, of.actions, of.withDo, of.entities)
		for _, answer := range of.invalid {
			if of.cell.format == "json_schema" {
				t.Errorf("%s: a first answer that was not cut off is no plan that may run: %s", of.cell.name, answer)
			}
		}
	}
}

func registry() *actions.Registry {
	reg := actions.New()
	lists.Register(reg)
	return reg
}

func TestUtterancesAskForWhatCanBeDone(t *testing.T) {
	t.Parallel()
	all, err := utterances()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 50 {
		t.Errorf("%d utterances", len(all))
	}
	said, used := map[string]bool{}, map[string]bool{}
	for _, u := range all {
		if said[u.Text] {
			t.Errorf("%q is there twice", u.Text)
		}
		said[u.Text] = true
		var p plan.Plan
		for _, d := range u.Do {
			p.Commands = append(p.Commands, plan.Command{Kind: plan.Do, Action: d.Action, Entities: d.Entities})
			used[d.Action] = true
		}
		if len(u.Do) > 0 {
			if _, err := p.Validate(registry()); err != nil {
				t.Errorf("%q: %v", u.Text, err)
			}
		}
		if actions, entities := u.judge(p); !actions || !entities {
			t.Errorf("%q: the right plan is judged wrong", u.Text)
		}
	}
	for _, a := range registry().All() {
		if !used[a.Name] {
			t.Errorf("no utterance asks for %s", a.Name)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	u := utterance{Do: []call{{Action: "addItem", Entities: map[string]any{"list": "groceries", "item": "milk"}}}}
	for _, tt := range []struct {
		plan              string
		actions, entities bool
	}{
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":" Groceries","item":"MILK"}},{"type":"SAY","response":"Done."}]}`, true, true},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk","note":null}}]}`, true, true},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"bread"}}]}`, true, false},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries"}}]}`, true, false},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk","note":"2"}}]}`, true, false},
		{`{"commands":[{"type":"DO","action":"removeItem","entities":{"list":"groceries","item":"milk"}}]}`, false, false},
		{`{"commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}},{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}}]}`, false, false},
		{`{"commands":[{"type":"SAY","response":"milk"}]}`, false, false},
	} {
		p, err := plan.Decode(tt.plan)
		if err != nil {
			t.Fatal(err)
		}
		if a, e := u.judge(p); a != tt.actions || e != tt.entities {
			t.Errorf("%s: %v, %v", tt.plan, a, e)
		}
	}
}

func TestTeamsPromptNamesEveryAction(t *testing.T) {
	t.Parallel()
	library, err := prompts.LoadFS(teams, "teams")
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := library.Prompt("sequence")
	if err != nil {
		t.Fatal(err)
	}
	text, err := prompt.Render(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range registry().All() {
		part := "  " + a.Name + ":\n    description: " + a.Description + "\n"
		if len(a.Schema.PropertyOrder) > 0 {
			part += "    parameters:\n"
		}
		_, rest, found := strings.Cut(text, part)
		for _, name := range a.Schema.PropertyOrder {
			var before string
			before, rest, _ = strings.Cut(rest, "      "+name+":\n        type: ")
			found = found && !strings.Contains(before, "\n    description: ")
		}
		if !found {
			t.Errorf("not there as it is: %s", part)
		}
	}
}

// A server that takes a schema beside json_object gets it there.
func TestSchemaBesideObject(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer server.Close()
	client := &http.Client{Transport: besideObject{server.Client().Transport}}
	for body, want := range map[string]string{
		`{"response_format":{"type":"json_schema","json_schema":{"schema":{"a":1}}}}`: `{"response_format":{"type":"json_object","schema":{"a":1}}}`,
		`{"response_format":{"type":"text"}}`:                                         `{"response_format":{"type":"text"}}`,
		`hello`:                                                                       `hello`,
	} {
		res, err := client.Post(server.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != want {
			t.Errorf("%s became %s, %v", body, got, err)
		}
		_ = res.Body.Close()
	}
}

type modelFunc func(*models.Request) *models.Response

func (f modelFunc) Complete(_ context.Context, r *models.Request) (*models.Response, error) {
	return f(r), nil
}

func TestTheClockStandsOrGoes(t *testing.T) {
	t.Parallel()
	for _, clock := range []bool{true, false} {
		var asked *models.Request
		l := &listener{model: modelFunc(func(r *models.Request) *models.Response { asked = r; return &models.Response{} }), clock: clock}
		const now = "Be brief.\n\nToday: 2031-01-02, Thursday"
		_, err := l.Complete(t.Context(), &models.Request{Messages: []models.Message{
			{Role: "system", Text: now, WithSchema: now}, {Role: "user", Text: now},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range asked.Messages {
			got = append(got, m.Text, m.WithSchema)
		}
		const stopped = "Be brief.\n\nToday: 2026-11-21, Saturday"
		want := []string{stopped, stopped, now, ""}
		if !clock {
			want = []string{"Be brief.", "Be brief.", now, ""}
		}
		if !slices.Equal(got, want) {
			t.Errorf("clock %v: %q", clock, got)
		}
	}
}
