package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/models"
)

// check is one thing that the client has to do right with this server. run says
// in a note how the server behaves.
type check struct {
	name string
	run  func(context.Context, *bench) (note string, err error)
}

var wireChecks = []check{
	{"text, usage and finish are read", checkAnswer},
	{"an answer at its limit counts as cut off", checkLimit},
	{"temperature 0 is the likeliest token each time", checkGreedy},
	{"the answer ends before a stop text", checkStop},
	{"a refused json_schema falls back once", checkSchema},
	{"json_object is asked for and answered", checkObject},
	{"messages of the system may stand anywhere", checkRoles},
	{"a prompt that is too long is told as such, and trimmed", checkTooLong},
	{"a wrong key is told as such, and not repeated", checkKey},
	{"a model that the server does not have", checkUnknownModel},
	{"a cancelled call ends, and the next one is answered", checkCancel},
}

// checkWire runs the checks, prints them and returns how many failed.
func (b *bench) checkWire(ctx context.Context) (failed int) {
	for _, c := range slices.Concat(wireChecks, streamChecks) {
		before := b.tap.count()
		note, err := c.run(ctx, b)
		if err == nil {
			fmt.Printf("- pass: %s (%s)\n", c.name, note)
			continue
		}
		failed++
		fmt.Fprintf(os.Stdout, "- FAIL: %s: %v\n", c.name, err)
		for _, e := range b.tap.since(before) {
			fmt.Printf("  - sent %s\n    got %s\n", clip(string(e.request), 1000), e)
		}
	}
	return failed
}

func hello() *models.Request {
	return &models.Request{
		Messages:    []models.Message{{Role: models.User, Text: "Say hello."}},
		MaxTokens:   40,
		Temperature: new(greedy),
	}
}

// ask asks with a client that has learned nothing.
func (b *bench) ask(ctx context.Context, req *models.Request, change ...func(*models.OpenAIConfig)) (*models.Response, error) {
	model, err := b.newModel(change...)
	if err != nil {
		return nil, err
	}
	defer model.Close() //nolint:errcheck // never fails
	return model.Complete(ctx, req)
}

// instead says that err, or an answer, came in place of what was wanted.
func instead(wanted string, err error) error {
	if err == nil {
		return fmt.Errorf("want %s, got an answer", wanted)
	}
	return fmt.Errorf("want %s, got: %w", wanted, err)
}

func checkAnswer(ctx context.Context, b *bench) (string, error) {
	res, err := b.ask(ctx, hello())
	switch {
	case err != nil:
		return "", err
	case res.Finish != models.FinishStop, res.Usage.Prompt == 0, res.Usage.Completion == 0, res.Model != b.model:
		return "", fmt.Errorf("got %+v", res)
	}
	return fmt.Sprintf("%d + %d tokens", res.Usage.Prompt, res.Usage.Completion), nil
}

func checkLimit(ctx context.Context, b *bench) (string, error) {
	req := hello()
	req.MaxTokens = 5
	res, err := b.ask(ctx, req)
	switch {
	case err != nil:
		return "", err
	case res.Finish != models.FinishLength, res.Usage.Completion != 5:
		return "", fmt.Errorf("got %+v", res)
	}
	return "max_tokens 5", nil
}

func checkGreedy(ctx context.Context, b *bench) (string, error) {
	want, err := b.ask(ctx, hello())
	if err != nil {
		return "", err
	}
	req := hello()
	req.Temperature = new(0.0)
	got, err := b.ask(ctx, req)
	if err != nil {
		return "", err
	}
	if got.Text != want.Text {
		return "", fmt.Errorf("with 0 %q, with %g %q", got.Text, greedy, want.Text)
	}
	return fmt.Sprintf("as with %g", greedy), nil
}

func checkStop(ctx context.Context, b *bench) (string, error) {
	req := hello()
	full, err := b.ask(ctx, req)
	if err != nil {
		return "", err
	}
	_, word, _ := strings.Cut(full.Text, " ")
	word, _, _ = strings.Cut(word, " ")
	req.Stop = []string{word}
	res, err := b.ask(ctx, req)
	switch {
	case err != nil:
		return "", err
	case word == "", strings.Contains(res.Text, word), res.Finish != models.FinishStop:
		return "", fmt.Errorf("stop at %q in %q: %+v", word, full.Text, res)
	}
	return fmt.Sprintf("%q", word), nil
}

const colourSchema = `{"type":"object","properties":{"kind":{"type":"string","enum":["colour"]},"name":{"type":"string","enum":["red","green","blue"]}},"required":["kind","name"],"additionalProperties":false}`

func checkSchema(ctx context.Context, b *bench) (string, error) { return b.askTwiceForColours(ctx) }

func (b *bench) askTwiceForColours(ctx context.Context, change ...func(*models.OpenAIConfig)) (string, error) {
	model, err := b.newModel(change...)
	if err != nil {
		return "", err
	}
	defer model.Close() //nolint:errcheck // never fails
	req := hello()
	req.Format = &models.Format{Name: "colour", Schema: json.RawMessage(colourSchema)}
	start := b.tap.count()
	for range 2 {
		if _, err := model.Complete(ctx, req); err != nil {
			return "", err
		}
	}
	seen := b.tap.since(start)
	if len(seen) > 4 || len(seen) > 2 && !bytes.Equal(seen[len(seen)-1].request, seen[len(seen)-2].request) {
		return "", errors.New("what was refused was sent again")
	}
	return fmt.Sprintf("statuses of two calls: %v, the last with %s", statuses(seen), formatOf(seen[len(seen)-1].request)), nil
}

// formatOf is the type of the response_format that was sent.
func formatOf(request []byte) string {
	var seen sent
	_ = json.Unmarshal(request, &seen)
	return cmp.Or(seen.Format.Type, "no format")
}

func checkObject(ctx context.Context, b *bench) (string, error) {
	req := hello()
	req.Messages[0].Text = `Answer with the JSON object {"hello": "world"}.`
	req.MaxTokens = 200
	req.Format = &models.Format{}
	res, err := b.ask(ctx, req)
	if err != nil {
		return "", err
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(res.Text), &out); err != nil && res.Finish != models.FinishLength {
		return "", fmt.Errorf("%w in %q", err, res.Text)
	}
	return clip(strings.Join(strings.Fields(res.Text), " "), 40), nil
}

func checkRoles(ctx context.Context, b *bench) (string, error) {
	req := hello()
	req.Messages = []models.Message{
		{Role: models.System, Text: "You are a bot."},
		{Role: models.User, Text: "Hello."},
		{Role: models.Assistant, Text: "Hello!"},
		{Role: models.System, Text: "It is Saturday."},
		{Role: models.User, Text: "Say hello."},
		{Role: models.System, Text: "Be brief."},
	}
	start := b.tap.count()
	if _, err := b.ask(ctx, req); err != nil {
		return "", err
	}
	return fmt.Sprintf("statuses %v", statuses(b.tap.since(start))), nil
}

// tooLong is a request with a history of twice the window.
func (b *bench) tooLong() *models.Request {
	req := hello()
	last := req.Messages[0]
	req.Messages = []models.Message{{Role: models.System, Text: "You are a bot."}}
	for i := range b.window / 20 {
		req.Messages = append(req.Messages,
			models.Message{Role: models.User, Text: fmt.Sprintf("Tell me about topic number %d and be as brief as you can.", i)},
			models.Message{Role: models.Assistant, Text: fmt.Sprintf("Topic number %d is about what is discussed in its chapter.", i)})
	}
	req.Messages = append(req.Messages, last)
	return req
}

func checkTooLong(ctx context.Context, b *bench) (string, error) {
	req := b.tooLong()
	model, err := b.newModel()
	if err != nil {
		return "", err
	}
	defer model.Close() //nolint:errcheck // never fails
	_, err = model.Complete(ctx, req)
	fault, ok := errors.AsType[*models.Error](err)
	if !ok || fault.Kind != models.TooLong {
		return "", instead("too_long", err)
	}
	chain, err := models.NewChain(models.ChainConfig{Models: []models.Model{model}, Retries: -1})
	if err != nil {
		return "", err
	}
	res, err := chain.Complete(ctx, req)
	if err != nil {
		return "", fmt.Errorf("trimmed: %w", err)
	}
	return fmt.Sprintf("status %d, code %s; trimmed to %d tokens", fault.Status, fault.Code, res.Usage.Prompt), nil
}

func checkKey(ctx context.Context, b *bench) (string, error) {
	const wrong = "a-key-that-is-wrong"
	_, err := b.ask(ctx, hello(), func(c *models.OpenAIConfig) { c.Key = wrong })
	fault, ok := errors.AsType[*models.Error](err)
	if !ok || fault.Kind != models.Auth || strings.Contains(err.Error(), wrong) {
		return "", instead("auth", err)
	}
	return err.Error(), nil
}

// checkUnknownModel takes an answer as well as a refusal: servers of one model
// often take any name.
func checkUnknownModel(ctx context.Context, b *bench) (string, error) {
	res, err := b.ask(ctx, hello(), func(c *models.OpenAIConfig) { c.Model = "nonesuch" })
	if err == nil {
		return "answered by " + res.Model, nil
	}
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.BadRequest {
		return "", instead("bad_request", err)
	}
	return err.Error(), nil
}

func checkCancel(ctx context.Context, b *bench) (string, error) {
	req := hello()
	req.Messages[0].Text = "Tell a long story."
	req.MaxTokens = 1000
	short, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(time.Second, cancel)
	defer timer.Stop()
	start := time.Now()
	_, err := b.ask(short, req)
	took := time.Since(start)
	if !errors.Is(err, context.Canceled) || took > 3*time.Second {
		return "", instead("the end of a cancelled call, at once", err)
	}
	start = time.Now()
	if _, err := b.ask(ctx, hello()); err != nil {
		return "", fmt.Errorf("the next call: %w", err)
	}
	return fmt.Sprintf("the next one took %s", time.Since(start).Round(time.Second/10)), nil
}
