package bot_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

// oddActions are those of lists, and one that fails, one with nothing to tell and one with
// an input.
func oddActions() *actions.Registry {
	acts := actions.New()
	lists.Register(acts)
	addOddActions(acts)
	return acts
}

// script writes what a model says in the form that a planner asks for.
type script struct {
	*bottest.Model
	planner string
}

// calls scripts one call of a tool with entities, each a name and its JSON.
func (s script) calls(tool string, entities ...string) {
	var inJSON, inXML []string
	for i := 0; i < len(entities); i += 2 {
		inJSON = append(inJSON, fmt.Sprintf("%q:%s", entities[i], entities[i+1]))
		inXML = append(inXML, entities[i]+`="`+strings.NewReplacer(`"`, "&quot;", "&", "&amp;", "<", "&lt;").Replace(strings.Trim(entities[i+1], `"`))+`"`)
	}
	switch object := "{" + strings.Join(inJSON, ",") + "}"; s.planner {
	case "sequential":
		s.Says("<plan><function." + tool + " " + strings.Join(inXML, " ") + "/></plan>")
	case "tools":
		s.CallsTools(models.Call{ID: fmt.Sprint("call", len(s.Calls())), Name: tool, Arguments: object})
	default:
		s.Says(plan(do(tool, object)))
	}
}

// answers scripts an answer in words.
func (s script) answers(text string) {
	if s.planner == "sequence" {
		text = plan(say(text))
	}
	s.Says(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keptOf is all that the bot keeps about the conversation and the person, for searching.
func keptOf(c *bottest.Chat) string {
	var all strings.Builder
	c.Keep(func(conversation, user *state.Scope) {
		for _, scope := range []*state.Scope{conversation, user} {
			for _, name := range scope.Names() {
				value, err := scope.JSON(name)
				fmt.Fprintln(&all, name, string(value), err)
			}
		}
	})
	return all.String()
}
