// Package seeds_test plays twins of the samples with which people know the four systems that Planbot stands beside, in
// words of our own and the same form, through the built bot. docs/seeds.md has the table.
package seeds_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/builtbot"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

var built = builtbot.New("../..")

// runTime is ten times what a command takes.
const runTime = 5 * time.Minute

// run runs one command of the bot in a folder with files, and returns its code and what it printed.
func run(t *testing.T, files map[string]string, env []string, stdin string, args ...string) (code int, out string) {
	t.Helper()
	bot, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, bot, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + os.Getenv("TMPDIR")}, env...)
	cmd.Stdin = strings.NewReader(stdin)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err = cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), both.String()
}

// The samples, in the form in which they were published.
const (
	listPlan = `{"type":"plan","commands":[
  {"type":"DO","action":"createList","entities":{"name":"Weekend Shopping"}},
  {"type":"DO","action":"addItem","entities":{"name":"Apples"}},
  {"type":"SAY","response":"I made the list and put apples on it."}]}`
	listPrompt = `You are the assistant in the conversation below. You manage lists.
Answer with this JSON and nothing else:

{"type":"plan","commands":[{"type":"DO","action":"<name>","entities":{"<name>":<value>}},{"type":"SAY","response":"<response>"}]}

These are the actions:

- createList name="<list name>"
- addItem list="<list name>" item="<text>"

User: {{ $input }}`
	sequentialPrompt = `Write an XML plan for the goal, with these functions only.

[FUNCTIONS]

{{$available_functions}}

[END FUNCTIONS]

Return <plan /> if no plan is possible. DO NOT WRITE: <function.F input="$OTHER[1]"/>

<goal>{{$input}}</goal>`
	poemPlan = `<plan>
    <!-- First, a poem -->
    <function.WriterPlugin.ShortPoem input="水哥" setContextVariable="POEM"/>
    <!-- Then its translation -->
    <function.WriterPlugin.Translate input="$POEM" language="Chinese" appendToResult="RESULT__FINAL_ANSWER"/>
</plan>`
	tools = `[{"type":"function","function":{"name":"OrderPizza-get_cart","parameters":{"type":"object","properties":{},"required":[]}}},
{"type":"function","function":{"name":"OrderPizza-add_pizza_to_cart","description":"Adds a pizza","parameters":{"type":"object",
"properties":{"size":{"type":"string","enum":["Small","Medium"]},"toppings":{"type":"array","items":{"type":"string"}}},"required":["size","toppings"]}}}]`
)

// plugin is a plugin's folder, as Semantic Kernel has it now, and as it had it before.
var plugin = map[string]string{
	"prompts/sequential/skprompt.txt": sequentialPrompt,
	"prompts/sequential/config.json": `{"schema":1,"description":"Makes a plan","type":"completion","execution_settings":{"default":{"max_tokens":1024,"temperature":0,
"stop_sequences":["<!-- END -->"]}},"input_variables":[{"name":"input","defaultValue":""},{"name":"available_functions","defaultValue":""}]}`,
	"prompts/WriterPlugin/ShortPoem/skprompt.txt": "Make a short poem of this event.\nEvent:{{$input}}\n",
	"prompts/WriterPlugin/ShortPoem/config.json": `{"schema":1,"description":"Turns an event into a poem.","execution_settings":{"default":{"max_tokens":60,"temperature":0.5,"top_p":0.0,
"presence_penalty":0.0,"frequency_penalty":0.0}},"input_variables":[{"name":"input","description":"The event.","default":""}]}`,
	"prompts/WriterPlugin/Translate/skprompt.txt": "Translate this into {{$language}}.\n\n{{$input}}\n",
	"prompts/WriterPlugin/Translate/config.json": `{"schema":1,"type":"completion","description":"Translates a text","completion":{"max_tokens":2000,"temperature":0.7,"top_p":0.0,
"presence_penalty":0.0,"frequency_penalty":0.0,"stop_sequences":["[done]"]},"input":{"parameters":[{"name":"input","description":"Text"},{"name":"language","description":"The language"}]}}`,
	"plan.xml":                   poemPlan,
	"plan.json":                  listPlan,
	"tools.json":                 tools,
	"list/sequence/skprompt.txt": listPrompt,
	"folder/Tools/skprompt.txt":  "You manage lists. These are the lists: {{$conversation.lists}}",
	"folder/Tools/config.json":   `{"schema":1.1,"type":"completion","completion":{"completion_type":"chat","max_input_tokens":2800,"top_p":0.0},"augmentation":{"augmentation_type":"tools"}}`,
	"folder/Tools/actions.json": `[{"name":"CreateList","description":"Makes a list","parameters":{"type":"object","properties":{"list":{"type":"string"}},"required":["list"]}},
{"name":"AddItem","parameters":{"type":"object","properties":{"list":{"type":"string"},"item":{"type":"string"}},"required":["list","item"]}}]`,
}

func TestCommands(t *testing.T) {
	t.Parallel()
	writer := []string{"BOT_PLANNER=sequential", "BOT_PROMPTS_DIR=prompts"}
	for name, tt := range map[string]struct {
		env   []string
		stdin string
		args  []string
		code  int
		want  []string
		not   string
	}{
		"Teams AI: the plan runs":    {nil, "", []string{"plan", "run", "plan.json"}, 0, []string{"I made the list and put apples on it."}, ""},
		"Teams AI: the plan is read": {nil, listPlan, []string{"plan", "decode"}, 0, []string{`"entities":{"item":"Apples","list":"Weekend Shopping"}`}, ""},
		"Teams AI: the prompt and the offline model": {
			[]string{"BOT_PROMPTS_DIR=list"}, "create a list groceries\nadd milk to groceries\n", []string{"chat"}, 0, []string{"Added milk to the list groceries."}, "",
		},
		"Teams AI: a folder with its actions": {
			[]string{"BOT_PROMPTS_DIR=folder", "BOT_PLANNER=tools"}, "create a list groceries\nadd milk to groceries\n", []string{"chat"}, 0, []string{"Added milk to the list groceries."}, "",
		},
		"Teams AI: a folder for another planner": {
			[]string{"BOT_PROMPTS_DIR=folder"}, "", []string{"plan", "hello"}, 2, []string{"set BOT_PLANNER=tools"}, "",
		},
		"Semantic Kernel: prompts need a model": {
			writer, "", []string{"plan", "run", "plan.xml"}, 1, []string{"this needs a language model, and the bot has none"}, "",
		},
		"Semantic Kernel: the planner's prompt": {
			writer, "",
			[]string{"plan", "write a poem"},
			0,
			[]string{"WriterPlugin.ShortPoem:\n  description: Turns an event into a poem.\n  inputs:\n    - input: The event.\n", "<goal>write a poem</goal>"},
			"{{",
		},
		"Semantic Kernel: the plan": {writer, "", []string{"plan", "print", "plan.xml"}, 0, []string{`- WriterPlugin-ShortPoem input="水哥" => POEM`}, ""},
		"Semantic Kernel: an index": {
			writer, strings.ReplaceAll(poemPlan, `"$POEM"`, `"$POEM[1]"`), []string{"plan", "decode", "--format", "xml"}, 0, []string{"uses $POEM as a list"}, "",
		},
		"Semantic Kernel: an index of what nothing sets": {
			writer, strings.ReplaceAll(poemPlan, `"$POEM"`, `"$OTHER[1]"`), []string{"plan", "decode", "--format", "xml"}, 0, []string{"uses $OTHER as a list"}, "",
		},
		"function calling: the list of tools": {
			nil, `<plan><function.OrderPizza.add_pizza_to_cart size="Medium" toppings='["Cheese"]'/></plan>`,
			[]string{"plan", "decode", "--format", "xml", "--actions", "tools.json"},
			0,
			[]string{`"action":"OrderPizza-add_pizza_to_cart"`},
			"",
		},
		"function calling: calls written as text": {
			nil, `"tool_calls": [{"id":"call_1","type":"function","function":{"name":"OrderPizza-get_cart","arguments":"{}"}}]`,
			[]string{"plan", "decode"},
			0,
			[]string{`"error":"invalid_plan"`},
			`"say"`,
		},
		"function calling: a call written as code": {nil, "functions.showLists({})", []string{"plan", "decode"}, 0, []string{`"error":"invalid_plan"`}, `"say"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := run(t, plugin, tt.env, tt.stdin, tt.args...)
			if code != tt.code || tt.not != "" && strings.Contains(out, tt.not) {
				t.Errorf("code %d:\n%s", code, out)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("it does not print %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestModelCalls counts what the samples cost with a model.
func TestModelCalls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env  []string
		say  string
		says []string // of the model, in order
		want string
	}{
		"Teams AI": {nil, "Make a list for the weekend and put apples on it", []string{listPlan}, "I made the list and put apples on it."},
		"Semantic Kernel": {
			[]string{"BOT_PLANNER=sequential", "BOT_PROMPTS_DIR=prompts"}, "帮忙写一首关于水哥的诗, 然后翻译为中文", []string{poemPlan, "A poem of water.", "水之诗。"}, "水之诗。",
		},
		"Semantic Kernel, no plan": {
			[]string{"BOT_PLANNER=sequential", "BOT_PROMPTS_DIR=prompts"}, "fly me to the moon", []string{"<plan />\n<!-- END -->"}, "Sorry, I can't do that with the actions I have.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := fakemodel.New(t)
			model.Says(tt.says...)
			code, out := run(t, plugin, append(tt.env, "OPENAI_BASE_URL="+model.URL, "OPENAI_MODEL=fake", "OPENAI_API_KEY=x"), tt.say+"\n", "chat")
			if calls := len(model.Calls()); code != 0 || !strings.Contains(out, tt.want) || calls != len(tt.says) {
				t.Errorf("code %d, %d calls:\n%s", code, calls, out)
			}
		})
	}
}
