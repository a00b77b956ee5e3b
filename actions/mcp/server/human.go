package server

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/actions"
)

// The tools that reach people are actions as well, which no plan may use: their calls ask the person and
// wait.
const (
	askAction = "mcp_ask_person"
	// RequestApproval is the name of the action behind the tool request_approval. Its entities are what, details and
	// minutes. The person of the token is asked, unless the bot's policy says that it needs an approval, and whose.
	RequestApproval = "mcp_request_approval"
)

func isHuman(action string) bool { return action == askAction || action == RequestApproval }

// asked is a question to a person.
type asked struct {
	Question string   `json:"question"`
	Choices  []string `json:"choices,omitempty"`
	Minutes  int      `json:"minutes,omitempty"`
}

// wanted is what a person is to approve.
type wanted struct {
	What    string `json:"what"`
	Details string `json:"details,omitempty"`
	Minutes int    `json:"minutes,omitempty"`
}

// defaultMinutes is how long a person has.
const defaultMinutes = 60

// humans are the actions behind the tools.
func humans() *actions.Registry {
	r := actions.New()
	actions.Add(r, askAction, "Asks the person something", func(ctx context.Context, _ *actions.Turn, in asked) (actions.Result, error) {
		answer := actions.AttemptOf(ctx).Answer
		if answer == nil {
			field := actions.Field{Name: "answer", Title: "Answer", Required: true, Long: len(in.Choices) == 0}
			for _, choice := range in.Choices {
				field.Choices = append(field.Choices, actions.Choice{Value: choice})
			}
			return ask(in.Question, in.Minutes, field), nil
		}
		text, _ := answer.Values["answer"].(string)
		return cameOf(answer, "answered", "declined", text), nil
	}, actions.Title("Ask me something"))
	approve := func(ctx context.Context, _ *actions.Turn, in wanted) (actions.Result, error) {
		attempt := actions.AttemptOf(ctx)
		answer := attempt.Answer
		switch {
		case attempt.Approved:
			return actions.JSON(decision{Decision: "approved"}), nil
		case answer == nil:
			return ask(strings.TrimSpace(in.What+"\n"+in.Details), in.Minutes), nil
		}
		return cameOf(answer, "approved", "rejected", ""), nil
	}
	actions.Add(r, RequestApproval, "Asks people to approve something", approve, actions.Title("Give an approval"))
	return r
}

func ask(text string, minutes int, fields ...actions.Field) actions.Result {
	if minutes == 0 {
		minutes = defaultMinutes
	}
	return actions.Ask(actions.Form{Text: text, Fields: fields, Within: time.Duration(minutes) * time.Minute}, nil)
}

// decision is the result of such an action.
type decision struct {
	Decision string `json:"decision"`
	Answer   string `json:"answer,omitempty"`
}

// cameOf is what came of a question.
func cameOf(a *actions.Answer, yes, no, text string) actions.Result {
	came := decision{yes, text}
	switch {
	case a.Unanswered:
		came.Decision = "unanswered"
	case a.Declined:
		came.Decision = no
	}
	return actions.JSON(came)
}

// offerHumans offers the tools that reach people.
func (s *Server) offerHumans(server *sdk.Server) {
	registry := humans()
	s.cfg.Actions.AddSource(func() *actions.Registry { return registry })
	text := func(description string) *jsonschema.Schema {
		most := maxText / 2
		return &jsonschema.Schema{Type: "string", Description: description, MaxLength: &most}
	}
	least, most, choices := 1.0, 1440.0, 20
	minutes := &jsonschema.Schema{
		Type:        "integer",
		Description: "How long the person has, in minutes; 60 if not given",
		Minimum:     &least,
		Maximum:     &most,
	}
	id := &jsonschema.Schema{Type: "string", Description: "The id of the question or request"}
	seconds := &jsonschema.Schema{Type: "integer", Description: "How many seconds to wait for the answer, at most 30"}
	closed := new(bool)
	add := func(name, description string, schema *jsonschema.Schema, readOnly bool, run sdk.ToolHandler) {
		server.AddTool(&sdk.Tool{
			Name:        name,
			Description: description,
			InputSchema: schema,
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: readOnly, DestructiveHint: closed},
		}, run)
	}
	add("ask_person", "Asks the person of your token something in Microsoft Teams. "+
		"Returns an id at once; get_answer has the answer. Never ask for secrets.",
		schemaOf([]string{"question"}, map[string]*jsonschema.Schema{
			"question": text("What to ask, as plain text"), "minutes": minutes,
			"choices": {
				Type:        "array",
				Items:       text("A possible answer"),
				MaxItems:    &choices,
				UniqueItems: true,
				Description: "Possible answers; none: any text",
			},
		}), false, s.human(askAction, func(raw json.RawMessage) (map[string]any, string) {
			var in asked
			err := json.Unmarshal(raw, &in)
			empty := strings.TrimSpace(in.Question) == ""
			switch {
			case err != nil || empty || len(in.Question) > maxText || len(in.Choices) > choices || !inTime(in.Minutes):
				return nil, "want a question of at most 4000 bytes, at most 20 choices, and 1 to 1440 minutes"
			case !distinct(in.Choices):
				return nil, "a choice is empty, too long or repeated"
			}
			return map[string]any{"question": in.Question, "choices": anys(in.Choices), "minutes": in.Minutes}, ""
		}))
	add("request_approval", "Has a person approve or reject something in Microsoft Teams: "+
		"the one of your token, or whom the bot's policy names. "+
		"Returns an id at once; get_approval has the decision.",
		schemaOf([]string{"what"}, map[string]*jsonschema.Schema{
			"what":    text("What is to be approved, in one line"),
			"details": text("What the person should know"),
			"minutes": minutes,
		}),
		false, s.human(RequestApproval, func(raw json.RawMessage) (map[string]any, string) {
			var in wanted
			err := json.Unmarshal(raw, &in)
			empty := strings.TrimSpace(in.What) == ""
			if err != nil || empty || len(in.What)+len(in.Details) >= maxText || !inTime(in.Minutes) {
				return nil, "want what is to be approved, in at most 4000 bytes with the details, and 1 to 1440 minutes"
			}
			entities := map[string]any{"what": in.What} // people may read them on a card
			if in.Details != "" {
				entities["details"] = in.Details
			}
			if in.Minutes > 0 {
				entities["minutes"] = in.Minutes
			}
			return entities, ""
		}))
	get := func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct {
			ID      string `json:"id"`
			Seconds int    `json:"seconds"`
		}
		c, ok := s.from(r)
		if !ok || json.Unmarshal(r.Params.Arguments, &in) != nil || in.ID == "" || len(in.ID) > maxID {
			return failed("want the id of one of your requests"), nil
		}
		return s.result(ctx, c, in.ID, min(max(time.Duration(in.Seconds)*time.Second, 0), maxWait), r.Params.Name == getApproval)
	}
	of := schemaOf([]string{"id"}, map[string]*jsonschema.Schema{"id": id, "seconds": seconds})
	add("get_answer", "Returns the answer to a question, or the result of a call that waited for a person.", of, true, get)
	add(getApproval, "Returns the decision about what request_approval asked.", of, true, get)
}

const getApproval = "get_approval"

// decided has the same words for an approval of others as for one of the token's person.
func decided(came actions.Requested) actions.Requested {
	said := map[actions.RequestStatus]string{actions.RequestRejected: "rejected", actions.RequestExpired: "unanswered"}[came.Status]
	if said != "" {
		raw, _ := json.Marshal(decision{Decision: said}) // it always encodes
		came.Status, came.Text = actions.RequestDone, string(raw)
	}
	return came
}

// human is the handler of a tool that asks a person. entities reads its arguments, or says what is wrong.
func (s *Server) human(action string, entities func(json.RawMessage) (map[string]any, string)) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		in, wrong := entities(r.Params.Arguments)
		if wrong != "" {
			return failed(wrong), nil
		}
		return s.run(ctx, r, action, in, 0)
	}
}

// inTime reports whether a person may have so many minutes; 0 is the default.
func inTime(minutes int) bool { return minutes >= 0 && minutes <= 1440 }

func distinct(choices []string) bool {
	seen := map[string]bool{}
	for _, c := range choices {
		if strings.TrimSpace(c) == "" || len(c) > maxText/2 || seen[c] {
			return false
		}
		seen[c] = true
	}
	return true
}

func anys(texts []string) []any {
	all := make([]any, len(texts))
	for i, t := range texts {
		all[i] = t
	}
	return all
}
