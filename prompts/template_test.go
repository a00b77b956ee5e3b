package prompts_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/prompts"
)

var errBroken = errors.New("broken")

// scopes are values by scope and name.
type scopes map[string]map[string]any

func (s scopes) get(scope, name string) (any, error) { return s[scope][name], nil }

// testData knows some variables and the functions list (its arguments, each in
// brackets), object and broken.
func testData() prompts.Data {
	return prompts.Data{
		Vars: scopes{
			"temp": {"input": "hi", "evil": "{{broken}} {{$input}} }}", "nothing": nil},
			"user": {
				"json": jsontext.Value(`"a \"b\""`), "raw": jsontext.Value(`[1, "a"]`), "null": jsontext.Value("null"),
				"name": "Mia", "age": 7, "since": time.Date(2026, 11, 21, 5, 46, 0, 0, time.UTC),
			},
			"conversation": {
				"lists": map[string][]string{"b": {"x"}, "a": {}},
				"fn":    func() {},
			},
		}.get,
		Funcs: map[string]prompts.Func{
			"list": func(_ context.Context, args []string) (any, error) {
				return "[" + strings.Join(args, "][") + "]", nil
			},
			"object":  func(context.Context, []string) (any, error) { return map[string]int{"n": 1}, nil },
			"broken":  func(context.Context, []string) (any, error) { return nil, errBroken },
			"Clock.t": func(context.Context, []string) (any, error) { return "noon", nil },
		},
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, template, want string }{
		{"text", "a {b} }} c", "a {b} }} c"},
		{"empty", "", ""},
		{"empty block", "a{{}}b{{  \n}}c", "abc"},
		{"variable without a scope", "<{{$input}}>", "<hi>"},
		{"space", "<{{ \t$input\n}}>", "<hi>"},
		{"variable with a scope", "{{$user.name}}", "Mia"},
		{"scope temp by name", "{{$temp.input}}", "hi"},
		{"not there", "<{{$user.gone}}{{$gone.gone}}{{$nothing}}>", "<>"},
		{"number", "{{$user.age}}", "7"},
		{"time", "{{$user.since}}", "2026-11-21T05:46:00Z"},
		{"object", "{{$conversation.lists}}", "a: []\nb:\n- x"},
		{"JSON text", "{{$user.json}}", "a \"b\""},
		{"JSON", "{{$user.raw}}<{{$user.null}}>", `[1,"a"]<>`},
		{"a value is not read again", "{{$evil}}", "{{broken}} {{$input}} }}"},
		{"an argument is not read again", "{{list $evil '{{broken}}'}}", "[{{broken}} {{$input}} }}][{{broken}}]"},
		{"function", "{{list}}", "[]"},
		{"function with a dot", "{{Clock.t}}", "noon"},
		{"function with an object", "{{object}}", "\"n\": 1"},
		{"arguments", "{{list a 'b c' \"d\" `e`}}", "[a][b c][d][e]"},
		{"arguments on lines", "{{list\n\ta\n\tb\n}}", "[a][b]"},
		{"variable arguments", "{{list $user.name $gone $input}}", "[Mia][][hi]"},
		{"empty argument", "{{list '' a}}", "[][a]"},
		{"apostrophe in a word", "{{list don't stop}}", "[don't][stop]"},
		{"escapes in a text", `{{list 'it\'s' "\\" 'C:\new' "\'"}}`, `[it's][\][C:\new][\']`},
		{"other quotes in a text", `{{list 'a "b" c'}}`, `[a "b" c]`},
		{"braces in a text", "{{list 'a}}b'}}", "[a}}b]"},
		{"literal braces", "{{'{{'}}$input}}", "{{$input}}"},
		{"literal after braces", "{ {{'x'}} }", "{ x }"},
		{"word before braces", "{{list a}}}", "[a]}"},
		{"letters of the world", "{{list häuser 长}} {{$größe}}", "[häuser][长] "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			template, err := prompts.Parse("test", tt.template)
			if err != nil {
				t.Fatal(err)
			}
			got, err := template.RenderWith(t.Context(), testData())
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseFaults(t *testing.T) {
	t.Parallel()
	const wrong = "want a $variable, a function with arguments or a quoted text, have "
	for _, tt := range []struct{ name, template, want string }{
		{"never closed", "a\nbö {{$x", "p:2:4: {{ is never closed by }}"},
		{"only open", "{{", "p:1:1: {{ is never closed by }}"},
		{"function never closed", "{{fn a", "p:1:1: {{ is never closed by }}"},
		{"quote never closed", "{{fn 'a}}", "p:1:1: " + wrong + "{{fn 'a}}"},
		{"escaped quote never closed", `{{fn 'a\'}}`, "p:1:1: " + wrong + `{{fn 'a\'}}`},
		{"no name", "{{$}}", "p:1:1: " + wrong + "{{$}}"},
		{"no name in scope", "{{$user.}}", "p:1:1: " + wrong + "{{$user.}}"},
		{"too deep", "{{$a.b.c}}", "p:1:1: " + wrong + "{{$a.b.c}}"},
		{"two things", "{{$a b}}", "p:1:1: " + wrong + "{{$a b}}"},
		{"nested", "{{fn {{x}} }}", "p:1:1: " + wrong + "{{fn {{x}}"},
		{"three braces", "{{{x}}}", "p:1:1: " + wrong + "{{{x}}"},
		{"number", "{{ 1 }}", "p:1:1: " + wrong + "{{ 1 }}"},
		{"nul", "{{\x00}}", "p:1:1: " + wrong + "{{\x00}}"},
		{"lines", "{{\n1\n}}", "p:1:1: " + wrong + "{{ 1 }}"},
		{"text against text", "{{fn 'a'b}}", "p:1:1: " + wrong + "{{fn 'a'b}}"},
		{"sign in a name", "{{f(x)}}", "p:1:1: " + wrong + "{{f(x)}}"},
		{"deep argument", "{{f $a.b.c}}", "p:1:1: " + wrong + "{{f $a.b.c}}"},
		{"many", "{{$a.b.c}}{{1}}\n{{f 'x}} {{ok}} {{g $a.}}{{", "p:1:1: " + wrong + "{{$a.b.c}}\np:1:11: " + wrong +
			"{{1}}\np:2:1: " + wrong + "{{f 'x}}\np:2:17: " + wrong + "{{g $a.}}\np:2:26: {{ is never closed by }}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := prompts.Parse("p", tt.template)
			if err == nil {
				t.Fatal("no fault")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	if _, err := prompts.Parse("p", strings.Repeat("a", prompts.MaxTemplate)); err != nil {
		t.Error(err)
	}
	_, err := prompts.Parse("p", strings.Repeat("a", prompts.MaxTemplate+1))
	if err == nil || !strings.Contains(err.Error(), "is over") {
		t.Errorf("got %v, want a fault", err)
	}
}

func TestRenderFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, template, want string }{
		{"no such function", "{{gone}}", `render prompt p: no function "gone"`},
		{"function fails", "{{broken}}", "render prompt p: function broken: broken"},
		{"not a value", "{{$conversation.fn}}", "render prompt p: variable $conversation.fn: format a func()"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := mustParse(t, tt.template).RenderWith(t.Context(), testData())
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	_, err := mustParse(t, "{{broken}}").RenderWith(t.Context(), testData())
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v, want one that wraps the function's", err)
	}
}

func TestRenderAtOnce(t *testing.T) {
	t.Parallel()
	template, data := mustParse(t, "{{$user.name}} {{list $input}}"), testData()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := template.RenderWith(t.Context(), data); err != nil || got != "Mia [hi]" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	all.Wait()
}

func TestUses(t *testing.T) {
	t.Parallel()
	template := mustParse(t, "{{b $z}} {{a $user.x $z}} {{b}} {{$y}}")
	if diff := cmp.Diff([]string{"a", "b"}, template.Functions()); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"temp.y", "temp.z", "user.x"}, template.Variables()); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func mustParse(tb testing.TB, text string) *prompts.Template {
	tb.Helper()
	template, err := prompts.Parse("p", text)
	if err != nil {
		tb.Fatal(err)
	}
	return template
}

// FuzzParse: any text parses or has a fault with a place in it, what values
// hold is never run, and an escaped text renders as itself.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{{$input}}", "{{fn a 'b' \"c\" `d` $e.f}}", "{{'{{'}}", "{{{", "}}{{", `{{f '\''}}`, "{{\xff}}", "a\n{{$x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := mustParse(t, strings.ReplaceAll(text, "{{", "{{'{{'}}")).RenderWith(t.Context(), prompts.Data{}); err != nil || got != text {
			t.Fatalf("escaped %q renders as %q, %v", text, got, err)
		}
		template, err := prompts.Parse("p", text)
		if err != nil {
			checkPlace(t, text, err)
			return
		}
		checkNotReadAgain(t, template)
	})
}

func checkPlace(t *testing.T, text string, err error) {
	t.Helper()
	first, _, _ := strings.Cut(err.Error(), "\n")
	var line, column int
	if _, err := fmt.Sscanf(first, "p:%d:%d: ", &line, &column); err != nil {
		t.Fatalf("%q has no place: %v", first, err)
	}
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) || column < 1 || column > len([]rune(lines[line-1]))+1 {
		t.Fatalf("line %d, column %d of %q", line, column, text)
	}
}

// everything answers every name with a text that would call a function.
func everything(string, string) (any, error) { return "{{trap}}", nil }

func checkNotReadAgain(t *testing.T, template *prompts.Template) {
	t.Helper()
	data := prompts.Data{Vars: everything, Funcs: map[string]prompts.Func{}}
	for _, name := range template.Functions() {
		data.Funcs[name] = func(_ context.Context, args []string) (any, error) {
			return "{{trap}}" + strings.Join(args, ""), nil
		}
	}
	if _, called := data.Funcs["trap"]; called {
		return
	}
	data.Funcs["trap"] = func(context.Context, []string) (any, error) {
		t.Fatal("a value was read as template")
		return nil, nil
	}
	if _, err := template.RenderWith(t.Context(), data); err != nil {
		t.Fatal(err)
	}
}
