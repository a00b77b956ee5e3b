package archtest_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// withoutExample are constructors that need no Example, and why.
var withoutExample = map[string]string{
	"actions/memory.Forget":          insideOfBot,
	"app/audit.Feature":              ofFull,
	"app/memory.Feature":             ofFull,
	"app/agentskills.Feature":        ofFull,
	"app/agentskills.Of":             "app/page calls it",
	"app/metrics.Feature":            ofFull,
	"app/moderation.Feature":         ofFull,
	"app/page.Feature":               ofFull,
	"app/plans.Feature":              ofFull,
	"app/services.Feature":           ofFull,
	"bot/turn.New":                   insideOfBot,
	"state/inbox.ThreadQueue":        insideOfBot,
	"bot/turn.Decode":                insideOfBot,
	"bot/turn.Own":                   insideOfBot,
	"bot/turn/files.New":             "package bot/turn calls it",
	"state/inbox.Open":               insideOfBot,
	"actions.DefaultPolicy":          "is a policy, not a constructor",
	"app/record.DeadLetter":          "bot turns export calls it",
	"planner/plan.DecodeMonologue":   "package planner calls it",
	"actions.ToChannel":              "examples/helpdesk calls it, and docs/how-to.md shows it",
	"actions/connections.ReadLockFS": "docs/services.md shows it, whose code a test runs",
	"actions/connections.Needs":      "actions/mcp and actions/openapi call it",
	"app/botfile.Feature":            ofFull,
	"app/dev.Feature":                ofFull,
	"app/full.Features":              "cmd/bot and the examples hand them over",
	"app/newbot.Feature":             ofFull,
	"app/teamsapp.Feature":           ofFull,
	"app/agents.Feature":             "docs/approvals.md shows how it is named",
	"app/approvers.Feature":          "docs/approvals.md shows how it is named",
	"app/tokens.Feature":             ofFull,
	"app/record.Feature":             ofFull,
	"app/replay.Feature":             ofFull,
	"app/upgradecheck.Feature":       ofFull,
	"app/documents.Feature":          "examples/handbook has one",
	"app/documents.Self":             "its Feature calls it",
	"app/record.Of":                  "its Feature and that of app/page call it",
	"app/traces.Feature":             ofFull,
	"app/viewer.Feature":             ofFull,
	"actions.Ends":                   "is the other half of Inherit, which has one; actions/lists calls it",
	"bot/approvals.New":              insideOfBot,
	"bot/turn.There":                 insideOfBot,
	"bot/turn.Here":                  insideOfBot,
	"bot/turn.ChannelOf":             "bot/teams calls it",
	"bot/teams.Meeting":              "asks the service; a test of package bot calls it",
	"bot/teams.MeetingParticipant":   "asks the service; a test of package bot calls it",
	"bot/teams.NotifyMeeting":        "asks the service; a test of package bot calls it",
	"bot/typing.New":                 insideOfBot,
	"bot/turn.Await":                 insideOfBot,
	"bot/turn.Waits":                 insideOfBot,
	"bot/turn.Unfinished":            insideOfBot,
	"bot/turn.Without":               insideOfBot,
	"bot/requests.Of":                "app/upgradecheck calls it",
	"bot/turn.Home":                  ofFeatures,
	"bot/turn.FindWait":              ofFeatures,
	"bot/turn.SubmitWait":            ofFeatures,
	"bot/turn.NewRunSlot":            "is NewSlot for what SubmitRun submits",
	"bot/turn.NewPlanSlot":           "is NewSlot with a shorter life, which has one",
	"bot/signin.New":                 insideOfBot,
	"bot/audit.New":                  insideOfBot,
	"bot/audit.Verify":               "the command audit verify calls it",
	"state.ReadLine":                 "bot/audit reads exports with it",
	"bot/audit.VerifyFiles":          "the command audit verify calls it",
	"bot/heads.New":                  insideOfBot,
	"bot/quota.New":                  insideOfBot,
	"bot/moderation.New":             insideOfBot,
	"bot/background.New":             insideOfBot,
	"bot/stop.New":                   insideOfBot,
	"bot/summary.New":                insideOfBot,
	"bot/metrics.To":                 "app/metrics calls it",
	"bot/traces.New":                 insideOfBot,
	"bot/turn.ApprovedChanged":       "is Approved with a note; bot/approvals calls it",
	"bot/turn.Again":                 insideOfBot,
	"bot/turn.MemberOf":              insideOfBot,
	"bot/turn.WaitOn":                insideOfBot,
	"bot/turn.Decision":              insideOfBot,
	"bot/turn.Answered":              ofFeatures,
	"bot/turn.Approved":              ofFeatures,
	"bot/turn.Expired":               ofFeatures,
	"bot/turn.ForPerson":             ofFeatures,
	"bot/turn.PersonKey":             ofFeatures,
	"bot/turn.Rejected":              ofFeatures,
	"bottest.ServeConnector":         "is for bots that run without a kit",
	"bottest.New":                    "needs a test that runs; the package's Example shows a kit",
	"bottest.NewConnector":           "is for bots that run without a kit",
	"bottest.Record":                 "needs a test that runs; docs/testing.md shows one",
	"bottest.Eval":                   "asks the model of the environment; eval.ExampleRun asks the offline one",
}

const (
	insideOfBot = "package bot calls it"
	ofFeatures  = "packages of features call it"
	ofFull      = "package app/full lists it, and docs/own-bot.md shows how to name one"
)

// notRun are Examples that are compiled and not run, and why.
var notRun = map[string]string{
	"app.ExampleNew_server":       "serves until a signal; TestABotInAServerOfItsOwn runs its code",
	"bottest.ExampleRunScenarios": "needs a test that runs; TestRunScenarios is one",
	"skills/sandbox.ExampleNew":   "whether scripts can run depends on the machine",
}

// ownExample matches constructors that need an Example of their own name, which pkg.go.dev shows
// beside them. For the others it is enough that an Example of the package calls them.
var ownExample = regexp.MustCompile(`^(New|Open|Load|Add|Provide|Register|Guarded|Build|Init|Run)`)

// TestConstructorsHaveExamples: what makes a library's values, or registers something, is shown by
// an Example that runs and whose output is checked.
func TestConstructorsHaveExamples(t *testing.T) {
	t.Parallel()
	all, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for name := range withoutExample {
		unused[name] = true
	}
	for _, p := range all {
		if !isLibrary(p) {
			continue
		}
		shown := examplesOf(t, p)
		for _, name := range constructors(p) {
			full := dirOf(p) + "." + name
			switch delete(unused, full); {
			case withoutExample[full] != "":
			case !shown["Example"+name] && ownExample.MatchString(name):
				t.Errorf("%s has no Example%s that runs: write one, with an // Output:, or say in withoutExample why not", full, name)
			case !shown["Example"+name] && !shown[name]:
				t.Errorf("no Example of package %s that runs calls %s: write one, with an // Output:, or say in withoutExample why not", dirOf(p), name)
			}
		}
	}
	for name := range unused {
		t.Errorf("%s is in withoutExample, but is no constructor", name)
	}
}

// constructors are the exported functions of a package that return an exported type of this
// module, or that add to one that they get.
func constructors(p *packages.Package) (names []string) {
	for _, name := range p.Types.Scope().Names() {
		fn, ok := p.Types.Scope().Lookup(name).(*types.Func)
		if !ok || !fn.Exported() {
			continue
		}
		adds := regexp.MustCompile(`^(Add|Provide|Register)`).MatchString(name)
		if adds || slices.ContainsFunc(slices.Collect(fn.Signature().Results().Variables()), func(v *types.Var) bool { return isOurs(p, v.Type()) }) {
			names = append(names, name)
		}
	}
	return names
}

func isOurs(p *packages.Package, t types.Type) bool {
	switch t := types.Unalias(t).(type) {
	case *types.Pointer:
		return isOurs(p, t.Elem())
	case *types.Slice:
		return isOurs(p, t.Elem())
	case *types.Named:
		of := t.Obj().Pkg()
		return of != nil && t.Obj().Exported() && within(of.Path(), p.Module.Path)
	}
	return false
}

// examplesOf are the Examples of a package that run, and what they call of it, by name.
func examplesOf(t *testing.T, p *packages.Package) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dirOf(p), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range doc.Examples(parsed) {
			name := "Example" + example.Name
			if example.Output == "" && !example.EmptyOutput && notRun[dirOf(p)+"."+name] == "" {
				t.Errorf("%s in %s has no // Output:, so it does not run", name, file)
				continue
			}
			base, _, _ := strings.Cut(name, "_")
			shown[base] = true
			ast.Inspect(example.Code, func(node ast.Node) bool {
				if selector, ok := node.(*ast.SelectorExpr); ok {
					if of, ok := selector.X.(*ast.Ident); ok && of.Name == p.Name {
						shown[selector.Sel.Name] = true
					}
				}
				return true
			})
		}
	}
	return shown
}
