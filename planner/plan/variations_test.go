package plan_test

import (
	"os"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

const (
	doMilk   = `{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}}`
	sayMilk  = `{"type":"SAY","response":"Added milk."}`
	planMilk = `{"type":"plan","commands":[` + doMilk + `,` + sayMilk + `]}`
	planX    = `{"type":"plan","commands":[{"type":"DO","action":"deleteList","entities":{"list":"all"}}]}`
)

// TestVariations runs the outputs of testdata/variations.txt.
func TestVariations(t *testing.T) {
	t.Parallel()
	reg := vectorActions(t)
	data, err := os.ReadFile("testdata/variations.txt")
	if err != nil {
		t.Fatal(err)
	}
	outputs := strings.NewReplacer("@D", doMilk, "@S", sayMilk, "@P", planMilk, "@X", planX,
		`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`)
	count := 0
	for line := range strings.Lines(string(data)) {
		want, output, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " | ")
		if !ok {
			continue
		}
		count++
		if got := summary(outputs.Replace(output), reg); got != want {
			t.Errorf("%s\n got %s\nwant %s", output, got, want)
		}
	}
	if count < 340 {
		t.Errorf("only %d variations", count)
	}
}

// summary says in a few words what becomes of an output.
func summary(output string, reg *actions.Registry) string {
	o := outcomeOf(output, reg)
	switch {
	case o.Error != "":
		return string(o.Error)
	case o.Say != nil:
		return "say"
	}
	var words []string
	for _, c := range o.Commands {
		if c["type"] == plan.Do {
			words = append(words, c["action"].(string))
		} else {
			words = append(words, "SAY")
		}
	}
	return strings.Join(words, " ")
}
