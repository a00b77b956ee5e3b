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

type command struct {
	Type, Action string
	Entities     map[string]any
	SaveAs       string
	Response     string
}

// prompt is what the planner would send for a text after earlier ones.
func prompt(texts ...string) *models.Request {
	req := &models.Request{Messages: []models.Message{{Role: models.System, Text: "Actions:\n" +
		"createList(list: string, items?: string[]) - Creates a list\ndeleteList(list: string)\naddItem(list: string, item: string)\n" +
		"removeItem(list: string, item: string)\ncheckItem(list: string, item: string)\nrenameList(list: string, name: string)\n" +
		"findItem(item: string)\nsummarizeLists() - Returns all lists\nrollDice(sides?: integer) - Rolls"}}}
	for i, text := range texts {
		if i > 0 {
			req.Messages = append(req.Messages, models.Message{Role: models.Assistant, Text: "{}"})
		}
		req.Messages = append(req.Messages, models.Message{Role: models.User, Text: text})
	}
	return req
}

func offline(t testing.TB, req *models.Request) []command {
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
	last := len(plan.Commands) - 1
	if last < 0 || plan.Commands[last].Type != "SAY" || strings.TrimSpace(plan.Commands[last].Response) == "" {
		t.Fatalf("%q does not end in a SAY", res.Text)
	}
	if res.Model != models.OfflineName || res.Finish != models.FinishStop || strings.Contains(res.Text, "\n") || !utf8.ValidString(res.Text) {
		t.Fatalf("response %+v", res)
	}
	return plan.Commands
}

// brief writes commands on one line: action(value, value) > VARIABLE; … "say".
func brief(commands []command) string {
	var b strings.Builder
	for _, c := range commands {
		if c.Type == "SAY" {
			fmt.Fprintf(&b, "%q", c.Response)
			continue
		}
		var values []string
		for _, key := range []string{"list", "item", "name", "items", "sides", "note"} {
			if v, ok := c.Entities[key]; ok {
				values = append(values, fmt.Sprintf("%s=%v", key, v))
			}
		}
		fmt.Fprintf(&b, "%s(%s)", c.Action, strings.Join(values, ", "))
		if c.SaveAs != "" {
			b.WriteString(" > " + c.SaveAs)
		}
		b.WriteString("; ")
	}
	return b.String()
}

func TestOfflinePlans(t *testing.T) {
	t.Parallel()
	const summary = `summarizeLists() > LISTS; "Here are your lists:\n\n$LISTS"`
	const which = `"Which list do you mean? Please say it with the list's name."`
	tests := []struct{ text, want string }{
		{"Create a grocery shopping list and add bananas to it.", `createList(list=grocery shopping); addItem(list=grocery shopping, item=bananas); "The grocery shopping list is ready. It now has bananas."`},
		{"create a list Groceries and add bananas to it", `createList(list=Groceries); addItem(list=Groceries, item=bananas); "The Groceries list is ready. It now has bananas."`},
		{"create a list called Work; then add mail, phone & tea to it please", `createList(list=Work); addItem(list=Work, item=mail); addItem(list=Work, item=phone); addItem(list=Work, item=tea); "The Work list is ready. It now has mail, phone and tea."`},
		{"Could you please make me a new packing list with socks, shirts and a hat?", `createList(list=packing, items=[socks shirts hat]); "The packing list is ready. It has socks, shirts and hat."`},
		{"make a list Letters with a, b and the c", `createList(list=Letters, items=[a b c]); "The Letters list is ready. It has a, b and c."`},
		{"start a list for the party", `createList(list=party); "The party list is ready."`},
		{`create a list "with and from"`, `createList(list=with and from); "The with and from list is ready."`},
		{"make a list", `"What shall I call the list?"`},
		{"add milk to Groceries", `addItem(list=Groceries, item=milk); "The Groceries list now has milk."`},
		{"add milk to Groceries #t12", `addItem(list=Groceries #t12, item=milk); "The Groceries #t12 list now has milk."`},
		{"add milk and eggs to the grocery shopping list", `addItem(list=grocery shopping, item=milk); addItem(list=grocery shopping, item=eggs); "The grocery shopping list now has milk and eggs."`},
		{`put "bread and butter" and some jam on the breakfast list!`, `addItem(list=breakfast, item=bread and butter); addItem(list=breakfast, item=jam); "The breakfast list now has bread and butter and jam."`},
		{`add "call mom, check oven" to chores`, `addItem(list=chores, item=call mom, check oven); "The chores list now has call mom, check oven."`},
		{"put plates on the table to chores", `addItem(list=chores, item=plates on the table); "The chores list now has plates on the table."`},
		{"add laundry to the to do list", `addItem(list=to do, item=laundry); "The to do list now has laundry."`},
		{"add milk", which},
		{"buy milk and bread", `addItem(list=shopping, item=milk); addItem(list=shopping, item=bread); "The shopping list now has milk and bread."`},
		{"I need to buy milk", `addItem(list=shopping, item=milk); "The shopping list now has milk."`},
		{"we're out of coffee", `addItem(list=shopping, item=coffee); "The shopping list now has coffee."`},
		{"remove bananas from Groceries", `removeItem(list=Groceries, item=bananas) > RESULT; "$RESULT"`},
		{"take milk off the groceries list", `removeItem(list=groceries, item=milk) > RESULT; "$RESULT"`},
		{"remove milk and eggs from groceries", `removeItem(list=groceries, item=milk) > RESULT; removeItem(list=groceries, item=eggs) > RESULT2; "$RESULT\n\n$RESULT2"`},
		{"remove milk from groceries and add tea to it", `removeItem(list=groceries, item=milk) > RESULT; addItem(list=groceries, item=tea); "$RESULT\n\nThe groceries list now has tea."`},
		{"delete the groceries list", `deleteList(list=groceries) > RESULT; "$RESULT"`},
		{"remove the work list", `deleteList(list=work) > RESULT; "$RESULT"`},
		{"delete list Groceries", `deleteList(list=Groceries) > RESULT; "$RESULT"`},
		{"delete all my lists", `say`},
		{"delete the list", which},
		{"check off milk on the groceries list", `checkItem(list=groceries, item=milk) > RESULT; "$RESULT"`},
		{"cross milk off the groceries list", `checkItem(list=groceries, item=milk) > RESULT; "$RESULT"`},
		{"tick milk and eggs on groceries", `checkItem(list=groceries, item=milk) > RESULT; checkItem(list=groceries, item=eggs) > RESULT2; "$RESULT\n\n$RESULT2"`},
		{"mark milk on groceries as done", `checkItem(list=groceries, item=milk) > RESULT; "$RESULT"`},
		{"mark milk as bought on groceries", `checkItem(list=groceries, item=milk) > RESULT; "$RESULT"`},
		{"rename groceries to food", `renameList(list=groceries, name=food) > RESULT; "$RESULT"`},
		{"rename the to do list to errands", `renameList(list=to do, name=errands) > RESULT; "$RESULT"`},
		{"rename $A to 5$$", `renameList(list=$$A, name=5$$$$) > RESULT; "$RESULT"`},
		{"add $A to 5$$", `addItem(list=5$$, item=$A); "The 5$$ list now has $A."`},
		{"find milk", `findItem(item=milk) > RESULT; "$RESULT"`},
		{"Where is the milk?", `findItem(item=milk) > RESULT; "$RESULT"`},
		{"which list has milk?", `findItem(item=milk) > RESULT; "$RESULT"`},
		{"is milk on any of my lists?", `findItem(item=milk) > RESULT; "$RESULT"`},
		{"what is on my lists?", summary},
		{"what is on our lists?", summary},
		{"What's in the groceries list?", summary},
		{"show my lists", summary},
		{"show me all lists, please", summary},
		{"summarize my lists", summary},
		{"what lists do I have?", summary},
		{"my lists", summary},
		{"add $5 tea to work and show my lists", `addItem(list=work, item=$$5 tea); summarizeLists() > LISTS2; "The work list now has $$5 tea.\n\nHere are your lists:\n\n$LISTS2"`},
		{"rollDice sides=6 note=\"a $ b\"", `rollDice(sides=6, note=a $$ b) > RESULT; "Ran rollDice. $RESULT"`},
		{`rollDice {"sides": 6}`, `rollDice(sides=6) > RESULT; "Ran rollDice. $RESULT"`},
		{"rollDice", `rollDice() > RESULT; "Ran rollDice. $RESULT"`},
		{"thanks!", `"You are welcome."`},
		{"add milk to groceries and dance", `addItem(list=groceries and dance, item=milk); "The groceries and dance list now has milk."`},
		{"add milk to groceries. Show me the money", `say`},
		{"write a poem", `say`},
		{"create a poem about lists", `say`},
		{"rollDice six", `say`},
		{"dropTables sides=6", `say`},
		{"hello", `say`},
		{"help", `say`},
		{"what can you do?", `say`},
		{"", `say`},
		{"Füge Milch zur Liste hinzu", `say`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			commands := offline(t, prompt(tt.text))
			if tt.want == "say" {
				if len(commands) != 1 {
					t.Errorf("got %s, want one SAY", brief(commands))
				}
				return
			}
			if diff := cmp.Diff(tt.want, brief(commands)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOfflineSaysWhatItIs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"hello", "help", "write a poem", ""} {
		say := offline(t, prompt(text))[0].Response
		for _, want := range []string{"offline model", "OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "bananas", "rollDice"} {
			if !strings.Contains(say, want) {
				t.Errorf("%q: %q is not in %q", text, want, say)
			}
		}
	}
}

func TestOfflineRemembersTheList(t *testing.T) {
	t.Parallel()
	tests := []struct {
		texts []string
		want  string
	}{
		{[]string{"create a Party list", "add chips"}, "addItem(list=Party, item=chips); "},
		{[]string{"create a Party list", "add tea to work", "hello", "remove milk from it"}, "removeItem(list=work, item=milk) > RESULT; "},
		{[]string{"create a Party list", "buy chips"}, "addItem(list=Party, item=chips); "},
		{[]string{"rename party to work", "delete the list"}, "deleteList(list=work) > RESULT; "},
	}
	for _, tt := range tests {
		if got := brief(offline(t, prompt(tt.texts...))); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%q: got %s, want %s", tt.texts, got, tt.want)
		}
	}
}

func TestOfflinePlansOnlyWhatThePromptNames(t *testing.T) {
	t.Parallel()
	req := &models.Request{Messages: []models.Message{
		{Role: models.System, Text: "Actions:\naddItem(list: string, item: string)"},
		{Role: models.User, Text: "create a list Work and add tea to it"},
	}}
	if got := offline(t, req); len(got) != 1 || !strings.Contains(got[0].Response, "createList") {
		t.Errorf("got %s", brief(got))
	}
	req.Messages = req.Messages[1:]
	if got := offline(t, req); len(got) != 3 {
		t.Errorf("no prompt: got %s", brief(got))
	}
}

func TestOfflineTellsResults(t *testing.T) {
	t.Parallel()
	tests := []struct{ results, want string }{
		{"\n- addItem: Added milk.\n- renameList failed: there is another list named b", "Added milk.\nI could not do renameList: there is another list named b"},
		{"\n- summarizeLists: **work**\n- tea\n- a: b\n- addItem: done", "**work**\n- tea\n- a: b\naddItem is done."},
		{"\n", "The last plan had no results."},
	}
	for _, tt := range tests {
		req := prompt("rename a to b")
		req.Messages = append(req.Messages, models.Message{Role: models.System, Text: "Results of the last plan:" + tt.results})
		if diff := cmp.Diff([]command{{Type: "SAY", Response: tt.want}}, offline(t, req)); diff != "" {
			t.Error(diff)
		}
	}
	// The same words from a person are a message like any other.
	if got := offline(t, prompt("Results of the last plan:\n- addItem: x")); !strings.Contains(got[0].Response, "offline model") {
		t.Errorf("got %s", brief(got))
	}
}

func TestOfflineBounds(t *testing.T) {
	t.Parallel()
	many := "add " + strings.Repeat("x, ", 40) + "y to work"
	long := "add milk to " + strings.Repeat("work ", 2000)
	for _, text := range []string{many, long} {
		if got := offline(t, prompt(text)); len(got) != 1 {
			t.Errorf("%d commands", len(got))
		}
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
		"create a grocery shopping list and add bananas to it", `add "a $b" to "c" and show my lists`, "rename a to \xff",
		"mark \"\x00\" on \"\" as done", "delete list \u2028", "rollDice {\"sides\":[{\"a\":\"$\"}]}", "take \"off off\" off, and check it off",
	} {
		f.Add(text, "add tea to work")
	}
	f.Fuzz(func(t *testing.T, text, earlier string) {
		for _, c := range offline(t, prompt(earlier, text)) {
			if c.Type != "DO" {
				continue
			}
			for key, value := range c.Entities {
				if s, ok := value.(string); ok && c.Action != "rollDice" && strings.TrimSpace(s) == "" {
					t.Errorf("%q: blank %s in %s", text, key, c.Action)
				}
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

func TestOfflineAnswersAPromptActionInText(t *testing.T) {
	t.Parallel()
	res, err := models.Offline{}.Complete(t.Context(), &models.Request{Messages: []models.Message{{Role: models.User, Text: "Write a poem."}}})
	if err != nil || !strings.Contains(res.Text, "offline model") || strings.Contains(res.Text, "{") {
		t.Errorf("%+v, %v", res, err)
	}
}

func ExampleOffline() {
	res, err := models.Offline{}.Complete(context.Background(), &models.Request{
		Messages: []models.Message{{Role: models.User, Text: "add milk to the groceries list"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Text)
	// Output: {"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"item":"milk","list":"groceries"}},{"type":"SAY","response":"The groceries list now has milk."}]}
}
