package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	maxTries      = 3
	maxRetryAfter = 10 * time.Second
	tryPause      = 250 * time.Millisecond // doubles
)

// calling is a call that is under way.
type calling struct {
	*Connection

	principal  *principal
	definition definition
	arguments  json.RawMessage
	tool       string // for people
	lost       *fate  // of a try that may have been done; nil: there was none
}

// fate is what became of a try.
type fate struct {
	result actions.Result
	err    error
	again  bool          // it may be made again
	after  time.Duration // but not before
	with   []byte        // and with this state of the server; nil: as it was
	unsent bool          // the server has done nothing

	declines []byte // the state of a question that the server is to be told is declined, and why
	why      error
}

// try makes the call if the tool is still the one that was accepted. The error says that the server cannot be
// reached, and that nothing was sent.
func (k *calling) try(ctx context.Context) (fate, error) {
	l, s, err := k.ensure(ctx, k.principal)
	if err != nil {
		return fate{}, err
	}
	now, listed := l.sound[k.definition.remote]
	switch {
	case !listed:
		return fate{result: actions.Fail("%s is no longer there. It was not called.", k.tool), unsent: true}, nil
	case now.digest != k.definition.digest, !k.accepts(k.definition):
		return fate{result: actions.Fail("%s has changed, and nobody has accepted the change yet. It was not called.", k.tool), unsent: true}, nil
	}
	x, err := s.send(ctx, k.definition.remote, k.arguments)
	return k.judge(ctx, s, x, err), nil
}

// Codes of JSON-RPC with which a server refuses a call, and what they ask for.
const (
	codeBadParams  = -32602
	codeNoSession  = -32000 // with 400, before 2026-07-28
	codeNeedsInput = -32021 // a capability that we do not have
	codeNeedsURL   = -32042 // that somebody opens a link
)

// judge says what became of a try. err is the library's.
func (k *calling) judge(ctx context.Context, s *session, x *exchange, err error) fate {
	refused := x.status >= 400 && x.status < 500 && x.status != http.StatusRequestTimeout && x.status != http.StatusConflict
	busy := x.status == http.StatusTooManyRequests
	forgotten := s.forgotten(x)
	if refused && !busy && (x.answer == nil || x.status == http.StatusUnauthorized || forgotten) {
		k.kill(s) // the server has forgotten it, or does not want us
	}
	a := x.answer
	if x.status == http.StatusBadGateway || x.status == http.StatusGatewayTimeout {
		a = nil // somebody else answers for the server, which may be at work
	}
	switch {
	case a != nil && a.Error == nil:
		return k.read(a)
	case forgotten:
		return fate{result: actions.Fail("%s has lost the connection. This was not done.", k.cfg.Key), unsent: true}
	case busy, a != nil && x.status == http.StatusServiceUnavailable:
		return fate{result: actions.Fail("%s is busy. This was not done.", k.cfg.Key), again: a != nil, after: x.retryAfter, unsent: true}
	case x.status == http.StatusUnauthorized && k.cfg.SignIn != "":
		return fate{err: fmt.Errorf("%s: %w: %w", k.tool, connector.ErrNoUserToken, errUnauthorized), unsent: true}
	case x.status == http.StatusForbidden && x.needs != nil && k.cfg.SignIn != "":
		return fate{err: fmt.Errorf("%s: %w", k.tool, x.needs), unsent: true}
	case x.status == http.StatusUnauthorized, x.status == http.StatusForbidden:
		k.log.Error().Int("status", x.status).Str("tool", k.tool).Msg("an MCP server does not allow a call")
		return fate{result: actions.Fail("%s does not allow this. It was not done.", k.cfg.Key), unsent: true}
	case a != nil && (a.Error.Code == codeNeedsInput || a.Error.Code == codeNeedsURL):
		return k.asked(a)
	case a != nil && a.Error.Code == codeBadParams:
		return fate{result: actions.Fail("%s", spelling.OneLine(a.Error.Message, maxDescription))}
	case a != nil:
		return fate{err: fmt.Errorf("%s: %w", k.tool, a.Error)}
	case x.redirect != "":
		return fate{err: fmt.Errorf("%s: %w", k.tool, x.fault), unsent: true}
	case !x.sent:
		if errors.Is(err, sdk.ErrConnectionClosed) || s.http == nil {
			k.kill(s)
		}
		s.stale.Store(true) // the next one finds out whether it is away
		return fate{result: actions.Fail("%s", k.unreachable()), again: true, unsent: true}
	case x.tooLarge:
		return fate{result: unreadable}
	case x.status == http.StatusNotFound:
		return fate{result: actions.Fail("%s has lost the connection. This was not done.", k.cfg.Key), unsent: true}
	case refused:
		return fate{err: fmt.Errorf("%s: %w", k.tool, x.fault), unsent: true}
	}
	if errors.Is(err, sdk.ErrConnectionClosed) || s.http == nil && ctx.Err() == nil {
		k.kill(s)
	}
	s.stale.Store(true)
	f := fate{err: uncertain(k.tool, s.reason(ctx, x, err)), again: k.repeatable(k.definition)}
	if k.cfg.Rules.Trust && k.definition.hints.reads() {
		f = fate{result: actions.Fail("%s did not answer.", k.cfg.Key), again: true} // there is nothing that it may have done
	}
	k.lost = &f
	return f
}

// uncertain is the error of a call of which nobody knows whether it was done.
func uncertain(tool string, why error) error {
	return fmt.Errorf("%s: %w: %w", tool, actions.ErrUncertain, why)
}

func (k *calling) read(a *answer) fate {
	raw := a.Result
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		r = toolResult{}
		err = json.Unmarshal(regular(raw), &r)
		switch {
		case err != nil && r.IsError:
			return fate{result: actions.Fail("%s failed, and its answer could not be read.", k.tool)}
		case err != nil:
			return fate{result: unreadable}
		}
	}
	switch {
	case r.ResultType == "input_required":
		return k.asked(a)
	case r.ResultType != "" && r.ResultType != "complete", len(r.Task) > 0:
		return fate{err: uncertain(k.tool, errors.New("the server has put it off, which we have not asked for"))}
	}
	var texts, alone []string
	for _, b := range r.Content {
		text, known := b.say()
		switch {
		case !known:
			if r.IsError {
				return fate{result: actions.Fail("%s failed, and its answer could not be read.", k.tool)}
			}
			return fate{result: unreadable}
		case b.forPersonOnly() && !r.IsError:
			alone = append(alone, text)
		default:
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "\n")
	if r.IsError {
		if text == "" && len(r.Structured) > 0 {
			text = spelling.OneLine(string(r.Structured), maxDescription)
		}
		if text == "" {
			text = fmt.Sprintf("%s failed, and did not say why.", k.tool)
		}
		return fate{result: actions.Fail("%s", text)}
	}
	result := actions.Text("%s", text)
	switch structured := len(r.Structured) > 0 && string(r.Structured) != "null"; {
	case structured:
		value, err := usable(r, k.definition.output)
		if err != nil {
			k.log.Error().Str("tool", k.tool).Str("error", err.Error()).Msg("the answer of an MCP server is not usable")
			return fate{result: actions.Fail("%s was done, but its answer is not usable.", k.tool)}
		}
		result = actions.JSON(value)
	case k.definition.output != nil && text == "":
		return fate{err: uncertain(k.tool, errors.New("the answer has nothing of what its outputSchema promises"))}
	case k.definition.output != nil:
		k.log.Warn().Str("tool", k.tool).Msg("the answer of an MCP server is a text, and its outputSchema promises data")
	case text == "" && alone == nil:
		result = actions.Text("%s answered without any content.", k.tool)
	}
	if shown := strings.TrimSpace(strings.Join(alone, "\n")); shown != "" {
		result = result.WithCard(forPerson(spelling.Cut(shown, maxAlone)))
	}
	return fate{result: result}
}

// forPerson is a card with a text that the model does not get.
func forPerson(text string) activity.Card {
	return activity.Card{Fallback: text, Body: []any{activity.RichText{{Text: text}}}}
}

// asked is what becomes of a call for which the server wants something of the person: input, which it asks for
// in a result, or something that we do not have, in an error. What people can be asked for, the call asks them.
// For anything else the server is told that they decline.
func (k *calling) asked(a *answer) fate {
	if a.Result != nil {
		form, state, err := elicit(a.Result, string(a.ID))
		if err == nil {
			return fate{result: actions.Ask(form, state)}
		}
		if errors.Is(err, errNothing) {
			return fate{result: actions.Fail("%s is busy. This was not done.", k.cfg.Key), again: true, with: state, unsent: true}
		}
		k.log.Warn().Err(err).Str("tool", k.tool).Msg("a question of an MCP server was declined")
		if state != nil {
			return fate{declines: state, why: err}
		}
	}
	return fate{result: actions.Fail("%s asks the person for something that cannot be asked for here. It was not done.", k.tool), unsent: true}
}

// decline makes the call again, with a declined answer to the question that it asked.
func (k *calling) decline(ctx context.Context, asked fate) (actions.Result, error) {
	attempt := actions.AttemptOf(ctx)
	attempt.Answer = &actions.Answer{Declined: true, State: asked.declines}
	f, err := k.try(attempt.Context(ctx))
	note := fmt.Sprintf("%s asked the person for something that cannot be asked for here. It was declined.", k.cfg.Key)
	if errors.Is(asked.why, errSecret) {
		note = fmt.Sprintf("%s asked the person for a secret. Nothing secret is asked for with cards, so it was declined.", k.cfg.Key)
	}
	form, _ := f.result.Asks()
	switch {
	case f.err != nil:
		return f.result, f.err
	case err != nil, f.declines != nil, form != nil:
		return actions.Fail("%s It was not done.", note), nil
	case f.result.Failed():
		return actions.Fail("%s %s", note, f.result.Text()), nil
	}
	if value, err := f.result.Value(); err == nil {
		if _, words := value.(string); words {
			return actions.Text("%s\n%s", f.result.Text(), note), nil
		}
	}
	return f.result.WithCard(forPerson(note)), nil
}

// unreadable is the result of a call whose answer came and cannot be read.
var unreadable = actions.Text("This was done, but its answer could not be read.")

type toolResult struct {
	Content    []block         `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	ResultType string          `json:"resultType"`
	Task       json.RawMessage `json:"task"`
}

// block is a part of a result.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	URI      string `json:"uri"`
	Name     string `json:"name"`
	Resource *struct {
		URI      string `json:"uri"`
		MIMEType string `json:"mimeType"`
		Text     string `json:"text"`
		Blob     string `json:"blob"`
	} `json:"resource"`
	Annotations struct {
		Audience []string `json:"audience"`
	} `json:"annotations"`
}

// regular is a result with members of other types than the protocol's written as it has them. What is neither false nor
// empty is an error.
func regular(raw []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	isError := !slices.Contains([]string{"", "null", "false", "0", `""`, `"false"`}, string(members["isError"]))
	members["isError"] = json.RawMessage(strconv.FormatBool(isError))
	var content any
	_ = json.Unmarshal(members["content"], &content) // came from JSON
	blocks, isList := content.([]any)
	if !isList && content != nil {
		blocks = []any{content}
	}
	for i, one := range blocks {
		b, isObject := one.(map[string]any)
		if !isObject {
			b = map[string]any{"type": "text", "text": one}
		}
		if _, isText := b["text"].(string); !isText && b["text"] != nil {
			text, _ := json.Marshal(b["text"]) // came from JSON
			b["text"] = string(text)
		}
		about, _ := b["annotations"].(map[string]any)
		b["annotations"] = map[string]any{"audience": about["audience"]}
		if audience, isText := about["audience"].(string); isText {
			b["annotations"] = map[string]any{"audience": []string{audience}}
		}
		blocks[i] = b
	}
	members["content"], _ = json.Marshal(blocks) // came from JSON
	out, _ := json.Marshal(members)
	return out
}

// say is the block in words; known is false if there is no such type.
func (b block) say() (text string, known bool) {
	switch b.Type {
	case "text":
		return b.Text, true
	case "image", "audio":
		return media(b.MIMEType, b.Data), true
	case "resource_link":
		return fmt.Sprintf("%s (%s)", spelling.OneLine(b.Name, maxDescription), spelling.OneLine(b.URI, maxDescription)), true
	case "resource":
		switch r := b.Resource; {
		case r == nil:
			return "", false
		case r.Blob != "":
			return media(r.MIMEType, r.Blob), true
		default:
			return r.Text, true
		}
	}
	return "", false
}

// media stands for what models do not read, such as [image/png, 146 KB].
func media(kind, base64 string) string {
	size := len(base64) * 3 / 4 //nolint:mnd // four characters are three bytes
	return fmt.Sprintf("[%s, %d KB]", cmp.Or(spelling.OneLine(kind, maxTitle), "file"), (size+1<<9)>>10)
}

// forPersonOnly reports whether the model does not get the block.
func (b block) forPersonOnly() bool { return slices.Equal(b.Annotations.Audience, []string{"user"}) }

const maxAlone = 4000 // how long a text is that only the person sees

// usable returns the data of a result with its numbers to the digit. A text that is the same JSON is read
// instead, and then is not told as well. The error has no value of the result in it.
func usable(r toolResult, promised *validator.Schema) (jsontext.Value, error) {
	value, twin := jsontext.Value(r.Structured), false
	wanted := value.Clone()
	if err := wanted.Canonicalize(); err != nil {
		return nil, errors.New("it is no JSON that everybody reads in the same way")
	}
	for _, b := range r.Content {
		same := jsontext.Value(b.Text)
		if b.Type == "text" && same.Canonicalize() == nil && bytes.Equal(same, wanted) {
			value, twin = jsontext.Value(b.Text), true
			break
		}
	}
	if !twin && !exact(value) {
		return nil, errors.New("it has an integer beyond 2^53, which other readers change, and no text with the same")
	}
	if promised == nil {
		return value, nil
	}
	tree, err := validator.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, errors.New("it is no JSON")
	}
	if wrong, ok := errors.AsType[*validator.ValidationError](promised.Validate(tree)); ok {
		return nil, fmt.Errorf("it does not fit the outputSchema: %s", faultIn(wrong))
	}
	return value, nil
}

// faultIn names the keyword of a schema that a value does not fit, and its place in the schema.
func faultIn(wrong *validator.ValidationError) string {
	for len(wrong.Causes) > 0 {
		wrong = wrong.Causes[0]
	}
	_, place, _ := strings.Cut(wrong.SchemaURL, "#")
	return spelling.OneLine(place+" "+strings.Join(wrong.ErrorKind.KeywordPath(), "/"), maxReason)
}

// exact reports whether no integer is so large that a double may not hold it.
func exact(value jsontext.Value) bool {
	limit := big.NewInt(1 << 53)
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if token.Kind() != '0' {
			continue
		}
		if n, ok := new(big.Int).SetString(token.String(), 10); ok && n.CmpAbs(limit) > 0 {
			return false
		}
	}
}
