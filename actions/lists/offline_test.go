package lists_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/models"
)

// TestWithoutAKey: what people are told to try works with the offline model, by the
// examples of the actions alone.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	lists.Register(registry)
	reminders.Register(registry)
	req := &models.Request{}
	for _, a := range registry.All() {
		schema, err := json.Marshal(a.Schema)
		if err != nil {
			t.Fatal(err)
		}
		req.Actions = append(req.Actions, models.Tool{Name: a.Name, Schema: schema, Examples: a.Examples})
	}
	for text, want := range map[string]string{
		"Create a grocery shopping list and add bananas to it.": "createList map[list:grocery shopping] addItem map[item:bananas list:grocery shopping]",
		"create a list Party and add chips to it":               "createList map[list:Party] addItem map[item:chips list:Party]",
		"create a list called groceries with milk":              "createList map[items:[milk] list:groceries]",
		"Create a grocery list and add milk and eggs to it":     "createList map[list:grocery] addItem map[item:milk list:grocery] addItem map[item:eggs list:grocery]",
		"add milk and eggs to the grocery shopping list":        "addItem map[item:milk list:grocery shopping] addItem map[item:eggs list:grocery shopping]",
		"add milk to my shopping list":                          "addItem map[item:milk list:shopping]",
		"add milk to groceries":                                 "addItem map[item:milk list:groceries]",
		"add 3 hammers to Hardware":                             "addItem map[item:3 hammers list:Hardware]",
		"remove bananas from the grocery shopping list":         "removeItem map[item:bananas list:grocery shopping]",
		"delete the groceries list":                             "deleteList map[list:groceries]",
		"delete the list groceries":                             "deleteList map[list:groceries]",
		"check off milk and eggs on the grocery list":           "checkItem map[item:milk list:grocery] checkItem map[item:eggs list:grocery]",
		"mark milk on groceries as done":                        "checkItem map[item:milk list:groceries]",
		"rename the to do list to errands":                      "renameList map[list:to do name:errands]",
		"where is the milk?":                                    "findItem map[item:milk]",
		"which list has milk?":                                  "findItem map[item:milk]",
		"show my lists":                                         "summarizeLists map[]",
		"what is on our lists?":                                 "summarizeLists map[]",
		"What is on my lists?":                                  "summarizeLists map[]",
		"What lists do I have?":                                 "summarizeLists map[]",
		"summarize my lists":                                    "summarizeLists map[]",
		"show me the groceries list":                            "showLists map[list:groceries]",
		"Show the list to do":                                   "showLists map[list:to do]",
		"what's on the grocery list?":                           "showLists map[list:grocery]",
		"remind me in 10 minutes to drink water":                "remindMe map[in_minutes:10 what:drink water]",
		"Remind me in 10 minutes to drink water.":               "remindMe map[in_minutes:10 what:drink water]",
		"remind me to check the oven and call Bob in 5 minutes": "remindMe map[in_minutes:5 what:check the oven and call Bob]",
		"What are my reminders?":                                "listReminders map[]",
		"Cancel the reminder about water.":                      "cancelReminder map[reminder:water]",
		"cancel the water reminder":                             "cancelReminder map[reminder:water]",
		"create a poem about lists":                             "",
		"remind me to drink water":                              "",
		"delete all my lists":                                   "",
		"add milk to groceries and show me the money":           "",
	} {
		req.Messages = []models.Message{{Role: "user", Text: text}}
		answer, err := models.Offline{}.Complete(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		var plan struct {
			Commands []struct {
				Type, Action, Response string
				Entities               map[string]any
			}
		}
		if err := json.Unmarshal([]byte(answer.Text), &plan); err != nil {
			t.Fatal(err)
		}
		var did []string
		say := ""
		for _, c := range plan.Commands {
			if c.Type == "SAY" {
				say = c.Response
				continue
			}
			did = append(did, fmt.Sprint(c.Action, " ", c.Entities))
			if a, _ := registry.Lookup(c.Action); a.CheckBefore(c.Entities, nil) != nil {
				t.Errorf("%q: %s does not take %v", text, c.Action, c.Entities)
			}
		}
		if got := strings.Join(did, " "); got != want || want == "" && !strings.Contains(say, "- add {Item} to {List}\n") {
			t.Errorf("%q: %s, want %s\nsaid %q", text, got, want, say)
		}
	}
}
