package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/models"
)

// offered are actions of a bot that models knows nothing about, but for what they say of
// themselves.
func offered() []models.Tool {
	tool := func(name, required, properties string, examples ...string) models.Tool {
		return models.Tool{Name: name, Examples: examples, Schema: json.RawMessage(`{"type":"object","required":[` + required + `],"properties":{` + properties + `}}`)}
	}
	return []models.Tool{
		tool("createList", `"list"`, `"list":{"type":"string"},"items":{"type":["null","array"],"items":{"type":"string"}}`,
			"create a list {list}", "create a {list} list", "create a {list} list with {items}", "create a list {list} with {items}"),
		tool("deleteList", `"list"`, `"list":{"type":"string"}`, "delete the {list} list", "delete {list}"),
		tool("addItem", `"list","item"`, `"list":{"type":"string"},"item":{"type":"string"}`, "add {item...} to {list}", "buy {item...}"),
		tool("removeItem", `"list","item"`, `"list":{"type":"string"},"item":{"type":"string"}`, "remove {item...} from {list}", "away with: {item...}, from {list}"),
		tool("summarizeLists", "", "", "what is on my lists?", "show my lists"),
		tool("remindMe", `"what"`, `"what":{"type":"string"},"in_minutes":{"type":"number"}`,
			"remind me in {in_minutes} minutes to {what}", "remind me to {what} in {in_minutes} minutes"),
		tool("addPizza", `"size"`, `"size":{"enum":["S","Large"]},"toppings":{"type":"array","items":{"enum":["ham","egg"]}},"count":{"type":"integer"}`,
			"a {size} pizza with {toppings}", "{count} {size} pizzas"),
		tool("rollDice", "", `"sides":{"type":"integer"},"note":{"type":"string"}`),
		{
			Name: "setAlarm", Title: "Set an alarm", Examples: []string{"set an alarm, which is {how}"}, Schema: json.RawMessage(`{}`),
			Labelled: json.RawMessage(`{"type":"object","properties":{"at":{"type":"string","format":"date-time","title":"Time"},` +
				`"how":{"enum":["p2","p1"],"enumNames":["Not urgent","Urgent"],"title":"Urgency"},"loud":{"type":"boolean"}}}`),
		},
	}
}

// prompt is what a planner sends for the last text after earlier ones.
func prompt(texts ...string) *models.Request {
	req := &models.Request{Actions: offered(), Messages: []models.Message{{Role: "system", Text: "Plan."}}}
	for i, text := range texts {
		if i > 0 {
			req.Messages = append(req.Messages, models.Message{Role: "assistant", Text: "{}"})
		}
		req.Messages = append(req.Messages, user(text))
	}
	return req
}

func user(text string) models.Message { return models.Message{Role: "user", Text: text} }

type command struct {
	Type, Action string
	Entities     map[string]any
	SaveAs       string
	Response     string
}

// offline is the plan that the model writes, of DO commands and one SAY.
func offline(t testing.TB, req *models.Request) (calls []string, say string) {
	t.Helper()
	res, err := models.Offline{}.Complete(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Type     string
		Commands []command
	}
	dec := json.NewDecoder(strings.NewReader(res.Text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&plan); err != nil || plan.Type != "plan" || dec.More() {
		t.Fatalf("%q is no plan: %v", res.Text, err)
	}
	if res.Model != (models.Offline{}).Name() || res.Finish != "stop" || strings.Contains(res.Text, "\n") || !utf8.ValidString(res.Text) {
		t.Fatalf("response %+v", res)
	}
	for _, c := range plan.Commands {
		if c.Type == "SAY" {
			say += c.Response
			continue
		}
		values, err := json.Marshal(c.Entities)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, c.Action+string(values))
		if c.SaveAs == "" {
			t.Errorf("the result of %s is not said", c.Action)
		}
	}
	if strings.TrimSpace(say) == "" {
		t.Fatalf("%q says nothing", res.Text)
	}
	return calls, say
}

func TestOfflinePlans(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Create a grocery shopping list and add bananas to it.":         `createList{"list":"grocery shopping"}; addItem{"item":"bananas","list":"grocery shopping"}`,
		"create a list Party and add chips to it":                       `createList{"list":"Party"}; addItem{"item":"chips","list":"Party"}`,
		"create a list called Work; then add mail, phone & tea to it":   `createList{"list":"Work"}; addItem{"item":"mail","list":"Work"}; addItem{"item":"phone","list":"Work"}; addItem{"item":"tea","list":"Work"}`,
		"create a new work list with “pens and ink”, paper and a clock": `createList{"items":["pens and ink","paper","clock"],"list":"new work"}`,
		"create a list called groceries with milk":                      `createList{"items":["milk"],"list":"groceries"}`,
		"add milk and eggs to the grocery shopping list":                `addItem{"item":"milk","list":"grocery shopping"}; addItem{"item":"eggs","list":"grocery shopping"}`,
		"Please add some milk to my groceries list, please!":            `addItem{"item":"milk","list":"groceries"}`,
		"Away with milk from Hardware":                                  `removeItem{"item":"milk","list":"Hardware"}`,
		"add 3 hammers to Hardware":                                     `addItem{"item":"3 hammers","list":"Hardware"}`,
		"add laundry to the to do list":                                 `addItem{"item":"laundry","list":"to do"}`,
		`add "call mom, check oven" to "to and from"`:                   `addItem{"item":"call mom, check oven","list":"to and from"}`,
		"add $A to 5$$":                                                     `addItem{"item":"$$A","list":"5$$$$"}`,
		"add milk to groceries and dance":                                   `addItem{"item":"milk","list":"groceries and dance"}`,
		"add bread, show pads and milk to work":                             `addItem{"item":"bread","list":"work"}; addItem{"item":"show pads","list":"work"}; addItem{"item":"milk","list":"work"}`,
		"remove bananas from the grocery shopping list":                     `removeItem{"item":"bananas","list":"grocery shopping"}`,
		"remove milk from groceries. Then add tea to it, and show my lists": `removeItem{"item":"milk","list":"groceries"}; addItem{"item":"tea","list":"groceries"}; summarizeLists{}`,
		"delete the groceries list":                                         `deleteList{"list":"groceries"}`,
		"show my lists":                                                     `summarizeLists{}`,
		"show me our lists, please":                                         `summarizeLists{}`,
		"what is on our lists?":                                             `summarizeLists{}`,
		"What's on my lists?":                                               `summarizeLists{}`,
		"remind me in 10 minutes to drink water":                            `remindMe{"in_minutes":10,"what":"drink water"}`,
		"Remind us to look in the office and call Bob in 1.5 minutes.":      `remindMe{"in_minutes":1.5,"what":"look in the office and call Bob"}`,
		"remind me in 10 minutes to buy milk, eggs and tea":                 `remindMe{"in_minutes":10,"what":"buy milk, eggs and tea"}`,
		"a large pizza with Ham and egg":                                    `addPizza{"size":"Large","toppings":["ham","egg"]}`,
		"20 large pizzas":                                                   `addPizza{"count":20,"size":"Large"}`,
		`rollDice sides=6 note="a $ b"`:                                     `rollDice{"note":"a $$ b","sides":6}`,
		`rollDice sides=6`:                                                  `rollDice{"sides":6}`,
		`addPizza size=S toppings=ham`:                                      `addPizza{"size":"S","toppings":["ham"]}`,
		"rollDice":                                                          `rollDice{}`,
		"Roll dice!":                                                        `rollDice{}`,
		"set an alarm, which is urgent":                                     `setAlarm{"how":"p1"}`,
		"setAlarm at=2027-01-31T09:00:00Z loud=yes":                         `setAlarm{"at":"2027-01-31T09:00:00Z","loud":true}`,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			calls, say := offline(t, prompt(text))
			if diff := cmp.Diff(want, strings.Join(calls, "; ")); diff != "" {
				t.Errorf("%s\nsaid %q", diff, say)
			}
			for i := range calls { // what is said is what came of it
				if !strings.Contains(say, fmt.Sprintf("$R%d", i+1)) {
					t.Errorf("said %q", say)
				}
			}
		})
	}
}

// desk are actions with free text, of which one has a shorter example, too.
func desk() *models.Request {
	tool := func(name, properties string, examples ...string) models.Tool {
		return models.Tool{Name: name, Examples: examples, Schema: json.RawMessage(`{"type":"object","properties":{` + properties + `}}`)}
	}
	return &models.Request{Actions: []models.Tool{
		tool("openTicket", `"title":{"type":"string"},"priority":{"enum":["low","p1"],"enumNames":["Not urgent","Urgent"]}`,
			"open a ticket: {title}", "open a ticket with priority {priority}: {title}"),
		tool("assign", `"ticket":{"type":"integer"},"name":{"type":"string"}`, "assign ticket {ticket} to {name}", "assign ticket {ticket}"),
		tool("close", `"ticket":{"type":"integer"}`, "close ticket {ticket}"),
		tool("restart", `"device":{"type":"string"}`, "restart the {device}"),
	}}
}

// TestOfflineTakesTextAsWritten, and no wrong value for text.
func TestOfflineTakesTextAsWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"open a ticket: the VPN is down":                        `openTicket{"title":"the VPN is down"}`,
		"Open a ticket: it":                                     `openTicket{"title":"it"}`,
		"open a ticket: my title":                               `openTicket{"title":"my title"}`,
		"open a ticket: what's wrong with “my” \"big\" printer": `openTicket{"title":"what's wrong with “my” \"big\" printer"}`,
		"open a ticket: \"The end.\"":                           `openTicket{"title":"The end."}`,
		"open a ticket: the VPN\nis down":                       `openTicket{"title":"the VPN\nis down"}`,
		"open a ticket with priority urgent: the VPN is down":   `openTicket{"priority":"p1","title":"the VPN is down"}`,
		"open a ticket with priority high: the VPN is down":     "I understood “Open ticket”, but not “high” as its Priority. It takes Priority (Not urgent or Urgent, optional);",
		"assign ticket 7 to the boss":                           `assign{"name":"the boss","ticket":7}`,
		"assign ticket seven to the boss":                       "I understood “Assign”, but not “seven” as its Ticket. It takes Name (optional); Ticket (a whole number, optional).",
		"restart the HP-2231":                                   `restart{"device":"HP-2231"}`,
		"restart HP-2231":                                       `restart{"device":"HP-2231"}`,
	} {
		req := desk()
		req.Messages = []models.Message{user("open a ticket: old"), user(text)}
		calls, say := offline(t, req)
		if got := strings.Join(calls, "; "); got != want && (len(calls) > 0 || !strings.HasPrefix(say, want)) {
			t.Errorf("%q: %s, %q, want %s", text, got, say, want)
		}
	}
}

// TestOfflineSaysWhatItUnderstands where it does not understand all of a text.
func TestOfflineSaysWhatItUnderstands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "I have no language model",
		"hello":                             "I have no language model",
		"Help!":                             "- add {Item} to {List}\n",
		"help":                              "- Roll dice: `rollDice note=… sides=…`",
		"write a poem":                      "I did not understand that.",
		"create a poem about lists":         "I did not understand that.",
		"add milk to groceries and show me": "I did not understand that.", // half of it would be a guess
		"rollDices sides=6":                 "I did not understand that.",
		"Füge Milch zur Liste hinzu":        "I did not understand that.",
		"add milk to " + strings.Repeat("work ", 2000): "I did not understand that.",
	} {
		calls, say := offline(t, prompt(text))
		if len(calls) > 0 || !strings.Contains(say, want) {
			t.Errorf("%.60q: %s, %q", text, calls, say)
		}
		if !strings.Contains(say, "no language model") || !strings.Contains(say, "rollDice") || strings.Contains(say, "OPENAI") {
			t.Errorf("%.60q: %q does not help", text, say)
		}
	}
}

// TestOfflineSaysWhatIsMissingOrWrong in a call that it understood, and what the action takes.
func TestOfflineSaysWhatIsMissingOrWrong(t *testing.T) {
	t.Parallel()
	const pizza = " It takes Size (S or Large); Count (a whole number, optional); Toppings (several, ham or egg, optional). For example: a {Size} pizza with {Toppings}"
	for text, want := range map[string]string{
		"create a list Party and add chips": "I understood “Add item”, but not its List. It takes List; Item.",
		"add, please":                       "I understood “Add item”, but not its Item, List.",
		"buy milk":                          "I understood “Add item”, but not its List. It takes List; Item. For example: add {Item} to {List}",
		"addItem item=milk":                 "I understood “Add item”, but not its List. It takes List; Item.",
		"addItem":                           "I understood “Add item”, but not its List, Item.",
		"add milk to it":                    "I understood “Add item”, but not its List.",
		"Add item":                          "I understood “Add item”, but not its List, Item.",
		"remind me in ten minutes to sing":  "I understood “Remind me”, but not “ten” as its In minutes. It takes What; In minutes (a number, optional).",
		"create a list Party and remind me in ten minutes to sing": "but not “ten” as its In minutes.",
		"a huge pizza with ham":             "I understood “Add pizza”, but not “huge” as its Size." + pizza,
		"a large pizza with jam":            "but not “jam” as its Toppings." + pizza,
		"addPizza size=S toppings=jam":      "but not “jam” as its Toppings." + pizza,
		"addPizza size=S count=1.5":         "but not “1.5” as its Count." + pizza,
		"rollDice six":                      "I understood “Roll dice”, but not “six”. It takes Note (optional); Sides (a whole number, optional).",
		"rollDice sidez=6":                  "but not “sidez”.",
		"setAlarm at=noon":                  "I understood “Set an alarm”, but not “noon” as its Time. It takes Time (a time such as 2027-01-31T09:00:00Z, optional); Urgency (Not urgent or Urgent, optional); Loud (true or false, optional).",
		"set an alarm, which is rather hot": "but not “rather hot” as its Urgency.",
	} {
		if calls, say := offline(t, prompt(text)); len(calls) > 0 || !strings.Contains(say, want) || strings.Contains(say, "no language model") {
			t.Errorf("%q: %s, %q", text, calls, say)
		}
	}
}

// TestOfflineTellsWhyItsPlanWasRefused: it would only make the same plan again.
func TestOfflineTellsWhyItsPlanWasRefused(t *testing.T) {
	t.Parallel()
	for why, want := range map[string]string{
		"decode plan: invalid_entities: command 1, rollDice: entity sides: want minimum 2, got the number 1": "I understood “Roll dice”, but not its Sides (want minimum 2, got the number 1). It takes Note",
		"something else": "I could not do that: something else",
	} {
		req := prompt("rollDice sides=1")
		req.Messages = append(req.Messages, models.Message{Role: "assistant", Text: "{}"}, models.Message{
			Role: "system", Text: "Your answer could not be used and nothing of it was done: " + why + "\nAnswer again with JSON.",
		})
		if calls, say := offline(t, req); len(calls) > 0 || !strings.HasPrefix(say, want) {
			t.Errorf("%s: %s, %q", why, calls, say)
		}
	}
}

func TestOfflineKnowsWhatItIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		texts []string
		want  string
	}{
		{[]string{"create a Party list", "add chips to it"}, `addItem{"item":"chips","list":"Party"}`},
		{[]string{"create a Party list", "hello", "buy chips and tea"}, `addItem{"item":"chips","list":"Party"} addItem{"item":"tea","list":"Party"}`},
		{[]string{"create a Party list", "add tea to Work", "delete the list"}, `deleteList{"list":"Work"}`},
		{[]string{"create a Party list", "addItem item=tea"}, `addItem{"item":"tea","list":"Party"}`},
	} {
		if calls, say := offline(t, prompt(tt.texts...)); strings.Join(calls, " ") != tt.want {
			t.Errorf("%q: %s, %q", tt.texts, calls, say)
		}
	}
}

func TestOfflineTellsResultsOfAPlan(t *testing.T) {
	t.Parallel()
	req := prompt("rename a to b")
	req.Messages = append(req.Messages, models.Message{
		Role: "system",
		Text: "Results of the last plan:\n- addItem: **work**\n  - tea\n- addItem: done\n- renameList failed: there is another list named b",
	})
	if calls, say := offline(t, req); len(calls) > 0 || say != "- Add item: **work**\n  - tea\n- Add item: done\n- Rename list failed: there is another list named b" {
		t.Errorf("%s, %q", calls, say)
	}
	// The same words from a person are a message like any other.
	if _, say := offline(t, prompt("Results of the last plan:\n- addItem: x")); !strings.Contains(say, "no language model") {
		t.Errorf("%q", say)
	}
}

// toolRequest is what the planner of tools sends.
func toolRequest(messages ...models.Message) *models.Request {
	return &models.Request{Tools: offered(), Messages: append([]models.Message{{Role: "system", Text: "Call."}}, messages...)}
}

func called(names ...string) models.Message {
	m := models.Message{Role: "assistant"}
	for _, name := range names {
		m.Calls = append(m.Calls, models.Call{ID: name, Name: name})
	}
	return m
}

func answered(id, text string) models.Message {
	return models.Message{Role: "tool", CallID: id, Text: text}
}

func askOffline(t *testing.T, req *models.Request) *models.Response {
	t.Helper()
	got, err := models.Offline{}.Complete(t.Context(), req)
	if err != nil || got.Model != (models.Offline{}).Name() {
		t.Fatalf("got %+v, %v", got, err)
	}
	if calls := len(got.Calls) > 0; calls != (got.Finish == "tool_calls") || calls == (got.Text != "") {
		t.Errorf("response %+v", got)
	}
	return got
}

func TestOfflineCallsTools(t *testing.T) {
	t.Parallel()
	got := askOffline(t, toolRequest(user("create a groceries list and add milk & $5 to it")))
	want := []models.Call{
		{ID: "call_1", Name: "createList", Arguments: `{"list":"groceries"}`},
		{ID: "call_2", Name: "addItem", Arguments: `{"item":"milk","list":"groceries"}`},
		{ID: "call_3", Name: "addItem", Arguments: `{"item":"$5","list":"groceries"}`},
	}
	if diff := cmp.Diff(want, got.Calls); diff != "" {
		t.Error(diff)
	}
	for name, req := range map[string]*models.Request{
		"hello":      toolRequest(user("hello")),
		"not there":  {Tools: offered()[:1], Messages: []models.Message{user("show my lists")}},
		"no calling": {Tools: offered(), Choice: "none", Messages: []models.Message{user("show my lists")}},
		"no tools":   {Messages: []models.Message{user("Write a poem.")}},
	} {
		if got := askOffline(t, req); len(got.Calls) > 0 || !strings.Contains(got.Text, "no language model") || strings.HasPrefix(got.Text, "{\"") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOfflineSaysWhatToolsAnswered(t *testing.T) {
	t.Parallel()
	said := user("add milk and eggs to the groceries list")
	for want, messages := range map[string][]models.Message{
		"Added milk.\nAdded eggs.":                {said, called("a", "b"), answered("a", "Added milk."), answered("b", "Added eggs.\n")},
		"A: {\"n\":1}\nB: [1]":                    {said, called("a", "b"), answered("a", `{"n":1}`), answered("b", "[1]")},
		"done\nB: done":                           {said, called("a", "b"), answered("a", "done"), answered("b", "")},
		"Added milk.\nB failed: the list is full": {said, called("a", "b"), answered("a", "Added milk."), answered("b", "Error: the list is full")},
		"of two rounds\nand a last word":          {said, called("a"), answered("a", "of two rounds"), called("b"), answered("b", "and a last word"), {Role: "system", Text: "No more calls."}},
		"not those of another turn":               {user("x"), called("a"), answered("a", "old"), said, called("b"), answered("b", "not those of another turn")},
	} {
		req := toolRequest(messages...)
		if got := askOffline(t, req); got.Text != want {
			t.Errorf("said %q, want %q", got.Text, want)
		}
		req.Tools = nil // the final call
		if got := askOffline(t, req); got.Text != want {
			t.Errorf("without tools said %q, want %q", got.Text, want)
		}
	}
}

// TestOfflineCallsOneAfterTheOther where only one call at a time is wanted, up to the
// first that fails.
func TestOfflineCallsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	req := toolRequest(user("add milk and bread to the groceries list"))
	req.OneCallAtMost = true
	for _, item := range []string{"milk", "bread"} {
		got := askOffline(t, req)
		if len(got.Calls) != 1 || !strings.Contains(got.Calls[0].Arguments, item) {
			t.Fatalf("%s: %+v", item, got)
		}
		req.Messages = append(req.Messages, models.Message{Role: "assistant", Calls: got.Calls}, answered(got.Calls[0].ID, "Added "+item+"."))
	}
	if got := askOffline(t, req); got.Text != "Added milk.\nAdded bread." {
		t.Errorf("said %q", got.Text)
	}
	req.Messages = req.Messages[:4]
	req.Messages[3].Text = "Error: full"
	if got := askOffline(t, req); got.Text != "Add item failed: full" {
		t.Errorf("after a failure: %+v", got)
	}
}

func TestOfflineEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (models.Offline{}).Complete(ctx, prompt("hello")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := (models.Offline{}).Complete(ctx, prompt("hello"))
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Timeout {
		t.Errorf("got %v", err)
	}
}

func FuzzOffline(f *testing.F) {
	for _, text := range []string{
		"create a grocery shopping list and add bananas to it", `add "a $b" to "c" and show my lists`, "remind me to \xff in 5 minutes",
		"add \"\x00\" to \"\"", "delete list \u2028", "rollDice {\"sides\":[{\"a\":\"$\"}]}", "\ue000 to \ue001", "buy it, and it",
	} {
		f.Add(text, "add tea to work")
	}
	f.Fuzz(func(t *testing.T, text, earlier string) {
		calls, _ := offline(t, prompt(earlier, text))
		for _, c := range calls {
			if strings.HasPrefix(c, "addItem") && !strings.HasPrefix(text, "addItem") && (strings.Contains(c, `:""`) || strings.Contains(c, `:" `)) {
				t.Errorf("%q: blank value in %s", text, c)
			}
		}
	})
}

func BenchmarkOffline(b *testing.B) {
	req := prompt("Create a grocery shopping list and add bananas to it.")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := (models.Offline{}).Complete(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleOffline() {
	res, err := models.Offline{}.Complete(context.Background(), &models.Request{
		Messages: []models.Message{{Role: "user", Text: "put 3 crates in bay 7"}},
		Actions:  []models.Tool{{Name: "store", Examples: []string{"put {what} in {place}"}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Text)
	// Output: {"type":"plan","commands":[{"type":"DO","action":"store","entities":{"place":"bay 7","what":"3 crates"},"saveAs":"R1"},{"type":"SAY","response":"$R1"}]}
}

// TestOfflineTakesJSON: an object or a list is a value of a call, so that actions of services can be tried.
func TestOfflineTakesJSON(t *testing.T) {
	t.Parallel()
	req := &models.Request{Actions: []models.Tool{{Name: "placeOrder", Schema: []byte(`{"type":"object","properties":{"body":{"type":"object"},"tags":{"type":"array"},"note":{"type":"string"}}}`)}}}
	for text, want := range map[string]string{
		`placeOrder body={"item": "toner", "quantity": 1} note="soon"`: `placeOrder{"body":{"item":"toner","quantity":1},"note":"soon"}`,
		`placeOrder note=soon tags=["a b", "c"]`:                       `placeOrder{"note":"soon","tags":["a b","c"]}`,
		`placeOrder body={"item": `:                                    "I understood “Place order”, but not “body={\"item\":”.",
	} {
		req.Messages = []models.Message{user(text)}
		calls, say := offline(t, req)
		if got := strings.Join(calls, "; "); got != want && (len(calls) > 0 || !strings.HasPrefix(say, want)) {
			t.Errorf("%q: %s, %q, want %s", text, got, say, want)
		}
	}
}
