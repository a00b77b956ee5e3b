package prompts_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/prompts"
)

// oneFolder loads the prompt "p" with these JSON files; "" is one that is left
// out.
func oneFolder(t *testing.T, config, actions string) (*prompts.Prompt, error) {
	t.Helper()
	files := map[string]string{"p/prompt.txt": "{{$input}} {{$style}} {{$mood}} {{$x}} {{$y}} {{$z}}"}
	if config != "" {
		files["p/config.json"] = config
	}
	if actions != "" {
		files["p/actions.json"] = actions
	}
	library, err := prompts.Load(folder(t, files))
	if err != nil {
		return nil, err
	}
	return library.Prompt("p")
}

func pointer[T any](v T) *T { return &v }

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, config string
		want         prompts.Config
	}{
		{"none", "", prompts.Config{}},
		{"empty", "\ufeff{}", prompts.Config{}},
		{
			"all of Teams AI", `{
			"schema": 1.1, "type": "completion", "description": "plans",
			"completion": {
				"model": "gpt-5", "completion_type": "chat",
				"max_tokens": 150, "max_input_tokens": 2048,
				"temperature": 0, "top_p": 0, "presence_penalty": -2, "frequency_penalty": 0.5,
				"stop_sequences": ["END"],
				"include_history": true, "include_input": false, "include_images": false,
				"tool_choice": "required", "parallel_tool_calls": false
			},
			"augmentation": {"augmentation_type": "tools", "data_sources": {"wiki": 900}}
			}`,
			prompts.Config{
				Description: "plans", Augmentation: "tools", DataSources: map[string]int{"wiki": 900},
				Model: "gpt-5", MaxTokens: 150, MaxInputTokens: 2048,
				Temperature: pointer(0.0), TopP: pointer(0.0), PresencePenalty: pointer(-2.0), FrequencyPenalty: pointer(0.5),
				Stop: []string{"END"}, IncludeHistory: pointer(true), IncludeInput: pointer(false),
				ToolChoice: "required", ParallelCalls: pointer(false),
			},
		},
		{
			"Semantic Kernel", `{
			"schema": 1, "type": "completion", "description": "Writes a poem",
			"completion": {"max_tokens": 60, "temperature": 0.5, "top_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0},
			"input": {"parameters": [
				{"name": "input", "description": "The subject", "defaultValue": ""},
				{"name": "style", "defaultValue": "short"},
				{"name": "mood", "is_required": false}
			]},
			"default_backends": ["text-davinci-003"]
			}`,
			prompts.Config{
				Description: "Writes a poem",
				Model:       "text-davinci-003", MaxTokens: 60,
				Temperature: pointer(0.5), TopP: pointer(0.0), PresencePenalty: pointer(0.0), FrequencyPenalty: pointer(0.0),
				Input: []prompts.Input{
					{Name: "input", Description: "The subject", Required: true},
					{Name: "style", Default: "short"},
					{Name: "mood"},
				},
			},
		},
		{
			"Semantic Kernel today", `{
			"schema": 1, "name": "Poem", "description": "Writes a poem",
			"execution_settings": {
				"default": {"max_tokens": 60, "temperature": 0.5, "top_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "stop_sequences": ["[done]"]},
				"gpt-4": {"model_id": "gpt-4-1106", "max_tokens": 2000}
			},
			"input_variables": [
				{"name": "input", "description": "The subject", "default": ""},
				{"name": "style", "default": ""},
				{"name": "mood", "default": "merry"},
				{"name": "x", "default": 2, "is_required": false, "allow_dangerously_set_content": true},
				{"name": "y", "required": true}
			]
			}`,
			prompts.Config{
				Description: "Writes a poem", MaxTokens: 60,
				Temperature: pointer(0.5), TopP: pointer(0.0), PresencePenalty: pointer(0.0), FrequencyPenalty: pointer(0.0), Stop: []string{"[done]"},
				Input: []prompts.Input{
					{Name: "input", Description: "The subject", Required: true},
					{Name: "style"},
					{Name: "mood", Default: "merry"},
					{Name: "x", Default: "2"},
					{Name: "y", Required: true},
				},
			},
		},
		{"settings of one service", `{"execution_settings": {"chat": {"model_id": "m", "max_tokens": 5}}}`, prompts.Config{Model: "m", MaxTokens: 5}},
		{"no parameters", `{"input": {"parameters": []}}`, prompts.Config{Input: []prompts.Input{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := oneFolder(t, tt.config, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.Config); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		config string
		want   []string
	}{
		{"{\n\"schema\": 1,\n}", []string{": is no JSON"}},
		{`{"type": "completion", "type": "completion"}`, []string{": is no JSON"}},
		{"", nil},
		{"[]", []string{": got array, want object"}},
		{"null", []string{": got null, want object"}},
		{
			`{"schema": "1.1", "type": "chat", "description": 7, "descripton": ""}`,
			[]string{": additional properties 'descripton' not allowed", ": description: got number, want string", ": schema: value must be one of 1, 1.1", ": type: value must be 'completion'"},
		},
		{
			`{"completion": {"max_tokens": 0, "max_input_tokens": 1.5, "temperature": 2.1, "top_p": -0.1, "presence_penalty": "0", "frequency_penalty": null}}`,
			[]string{
				"completion.frequency_penalty: got null, want number", "completion.max_input_tokens: got number, want integer",
				"completion.max_tokens: minimum: got 0, want 1", "completion.presence_penalty: got string, want number",
				"completion.temperature: maximum: got 2.1, want 2", "completion.top_p: minimum: got -0.1, want 0",
			},
		},
		{
			`{"completion": {"stop_sequences": ["a","b","c","d","e"], "include_history": "yes", "include_images": 1, "completion_type": "text", "model": " ", "tool_choice": {"type":"function"}, "echo": 1}}`,
			[]string{
				"completion.completion_type: value must be 'chat'", "completion.include_history: got string, want boolean",
				"completion.include_images: got number, want boolean", "completion.model: ' ' does not match pattern",
				"completion.stop_sequences: maxItems: got 5, want 4", "completion.tool_choice: value must be one of 'auto', 'required', 'none'",
				"completion: additional properties 'echo' not allowed",
			},
		},
		{`{"completion": [], "augmentation": "sequence"}`, []string{"augmentation: got string, want object", "completion: got array, want object"}},
		{
			`{"augmentation": {"augmentation_type": "chant", "data_sources": {"wiki": 0}}}`,
			[]string{"augmentation.augmentation_type: value must be one of 'none', 'monologue', 'sequence', 'sequential', 'tools'", "augmentation.data_sources.wiki: minimum: got 0, want 1"},
		},
		{
			`{"names": "p", "input_variables": [], "execution_settings": {}, "template_format": "handlebars"}`,
			[]string{": additional properties 'names'", "execution_settings: minProperties: got 0, want 1", "template_format: value must be 'semantic-kernel'"},
		},
		{`{"completion": {}, "execution_settings": {"default": {}}}`, []string{": completion and execution_settings contradict each other"}},
		{`{"execution_settings": {"a": {}, "b": {}}}`, []string{"execution_settings: call the settings to use default"}},
		{`{"execution_settings": {"default": {"max_tokens": 0, "seed": 1}}}`, []string{
			"execution_settings.default.max_tokens: minimum: got 0, want 1", "execution_settings.default: additional properties 'seed' not allowed",
		}},
		{`{"input_variables": [{"name": "x", "default": "a", "is_required": true}, {"name": "y", "default": {}}]}`, []string{
			"input_variables.1.default: got object, want boolean or number or string",
		}},
		{`{"default_backends": ["a", "b"]}`, []string{"default_backends: maxItems: got 2, want 1"}},
		{`{"default_backends": ["a"], "completion": {"model": "b"}}`, []string{"default_backends names another model than completion.model"}},
		{
			`{"input": {"parameters": [{}, {"name": "a-b"}, {"name": "y", "defaults": "z"}, 7]}}`,
			[]string{
				"input.parameters.0: missing property 'name'", "input.parameters.1.name: 'a-b' does not match pattern",
				"input.parameters.2: additional properties 'defaults' not allowed", "input.parameters.3: got number, want object",
			},
		},
		{
			`{"input": {"parameters": [{"name": "x"}, {"name": "X"}, {"name": "z", "defaultValue": "z", "is_required": true}, {"name": "unseen"}]}, "default_backends": ["a"], "completion": {"model": "b"}}`,
			[]string{
				"the parameter X: the name is taken", "the parameter z: is_required and a default contradict",
				"default_backends names another model", "the parameter unseen has no effect, the text does not show {{$unseen}}",
			},
		},
	} {
		t.Run(tt.config, func(t *testing.T) {
			t.Parallel()
			_, err := oneFolder(t, tt.config, "")
			expectFaults(t, err, "p/config.json", tt.want)
		})
	}
}

func expectFaults(t *testing.T, err error, file string, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d: %v", len(got), len(want), err)
	}
	for i := range min(len(got), len(want)) {
		if !strings.Contains(got[i], file) || !strings.Contains(got[i], want[i]) {
			t.Errorf("fault %d is %s\nwant %s", i, got[i], want[i])
		}
	}
}

func TestOffers(t *testing.T) {
	t.Parallel()
	p, err := oneFolder(t, "", `[{"name": "b", "description": "does b"}, {"name": "a", "parameters": {"type": "object"}}]`)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s", p.Actions); got != `[{b does b null} {a  {"type": "object"}}]` {
		t.Errorf("got %s", got)
	}
	if p, err = oneFolder(t, "", "[]"); err != nil || p.Actions == nil {
		t.Errorf("an empty list offers nothing: got %v, %v", p.Actions, err)
	}
	if p, err = oneFolder(t, "", ""); err != nil || p.Actions != nil {
		t.Errorf("without a list all are offered: got %v, %v", p.Actions, err)
	}
}

func TestOfferFaults(t *testing.T) {
	t.Parallel()
	_, err := oneFolder(t, "", `[{}, {"name": 1}, {"name": "b", "parameters": true}, {"name": "c", "strict": true}, "d", {"name": ""}]`)
	expectFaults(t, err, "p/actions.json", []string{
		"0: missing property 'name'", "1.name: got number, want string", "2.parameters: got boolean, want object",
		"3: additional properties 'strict' not allowed", "4: got string, want object", "5.name: minLength: got 0, want 1",
	})
	_, err = oneFolder(t, "", `[{"name": "a"}, {"name": "b"}, {"name": "a"}]`)
	expectFaults(t, err, "p/actions.json", []string{"the action a is named twice"})
	_, err = oneFolder(t, "", `{"actions": []}`)
	expectFaults(t, err, "p/actions.json", []string{": got object, want array"})
}

// TestTheOnlyParameterIsTheInput: it is shown as {{$input}}, or told as a message.
func TestTheOnlyParameterIsTheInput(t *testing.T) {
	t.Parallel()
	for config, text := range map[string]string{
		`{"input": {"parameters": [{"name": "subject"}]}}`:                                                  "About {{$input}}",
		`{"completion": {"include_input": true}, "input": {"parameters": [{"name": "subject"}]}}`:           "Be brief",
		`{"completion": {"include_input": true}, "input": {"parameters": [{"name":"a"},{"name":"input"}]}}`: "About {{fn $a}}",
	} {
		if _, err := prompts.Load(folder(t, map[string]string{"p/prompt.txt": text, "p/config.json": config})); err != nil {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// FuzzConfig: any bytes are a configuration in the documented ranges, or have
// faults that name their file.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"{}", "[", `{"completion":{"max_tokens":1,"stop_sequences":["a"]}}`, `{"input":{"parameters":[{"name":"a"}]}}`, "{\"schema\":1\xff}", `{"a":{"a":1,"a":2}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := prompts.ReadPrompt(fstest.MapFS{
			"p/prompt.txt": {Data: []byte("text")}, "p/config.json": {Data: raw}, "p/actions.json": {Data: raw},
		}, "p")
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "p/config.json:") && !strings.HasPrefix(line, "p/actions.json:") {
					t.Fatalf("a fault without a file: %s", line)
				}
			}
			return
		}
		c := p.Config
		if c.MaxTokens < 0 || c.MaxInputTokens < 0 || len(c.Stop) > 4 || c.Temperature != nil && (*c.Temperature < 0 || *c.Temperature > 2) {
			t.Fatalf("out of range: %+v", c)
		}
	})
}
