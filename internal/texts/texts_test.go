package texts_test

import (
	"go/constant"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/memory"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/skills"
)

// ofActions returns what people read of the actions that come with Planbot.
func ofActions(t *testing.T) map[string]bool {
	t.Helper()
	registry := actions.New()
	lists.Register(registry)
	memory.Register(registry)
	reminders.Register(registry)
	provider, err := skills.NewProvider(skills.ProviderConfig{})
	if err == nil {
		err = provider.Register(registry)
	}
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for _, a := range search(t) { // its description is for models, and names the sources
		said[a.Title], said[a.Doing], said[a.Examples[0]] = true, true, true
		for name, property := range a.Schema.Properties {
			said[titles.Of(property, name)] = true
		}
	}
	for _, a := range registry.All() {
		said[a.Title], said[a.Description] = true, true
		if len(a.Examples) > 0 {
			said[a.Examples[0]] = true
		}
		for name, property := range a.Schema.Properties {
			said[titles.Of(property, name)] = true
		}
	}
	return said
}

// search is the action of two sources of knowledge.
func search(t *testing.T) []*actions.Action {
	t.Helper()
	one := knowledge.NamedSource{Name: "one", Source: new(knowledge.AzureSearch)}
	two := one
	two.Name = "two"
	base, err := knowledge.New(knowledge.Config{Sources: []knowledge.NamedSource{one, two}})
	registry := actions.New()
	if err == nil {
		err = base.Register(registry)
	}
	if err != nil {
		t.Fatal(err)
	}
	return registry.All()
}

// TestCatalogsAreComplete: every sentence of the code and every title is in every catalogue, and
// nothing else is.
func TestCatalogsAreComplete(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it reads all packages")
	all, err := packages.Load(&packages.Config{
		Context: t.Context(), Dir: "../..",
		Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedFiles,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	said := ofActions(t)
	for _, pkg := range all {
		for _, value := range pkg.TypesInfo.Types {
			named, ok := value.Type.(*types.Named)
			if ok && named.Obj().Name() == "Text" && named.Obj().Pkg().Path() == "github.com/planbot-go/planbot/internal/texts" && value.Value != nil {
				if sentence := constant.StringVal(value.Value); sentence != "" {
					said[sentence] = true
				}
			}
		}
	}
	if len(said) < 100 {
		t.Fatalf("found only %d sentences in the code", len(said))
	}
	for sentence := range said {
		if variable := regexp.MustCompile(`[A-Z]+_[A-Z]`); variable.MatchString(sentence) {
			t.Errorf("people read about an environment variable: %q", sentence)
		}
	}
	for _, name := range texts.Languages() {
		catalog := texts.Shipped(name)
		if err := texts.Check(name, catalog); err != nil {
			t.Error(err)
		}
		for _, sentence := range slices.Sorted(maps.Keys(said)) {
			if catalog[sentence] == "" {
				t.Errorf("%s lacks %q", name, sentence)
			}
		}
		for _, sentence := range slices.Sorted(maps.Keys(catalog)) {
			if !said[sentence] {
				t.Errorf("%s has %q, which nothing says", name, sentence)
			}
		}
	}
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	catalog, err := texts.New(map[string]map[string]string{
		"pt": {"Deleted the list %s.": "Lista %s excluída."},
		"de": {"Deleted the list %s.": "Weg ist %s."},
		"en": {"Deleted the list %s.": "%s is gone."},
	})
	if err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[string]string{
		"":                                "X is gone.",
		"en-GB":                           "X is gone.",
		"nl-NL":                           "X is gone.",
		"not a tag!":                      "X is gone.",
		"en" + strings.Repeat("-", 1<<20): "X is gone.",
		"de-AT":                           "Weg ist X.",
		"pt-BR":                           "Lista X excluída.",
		"zh-Hans-CN":                      "已删除列表 X。",
		"ja-JP":                           "リスト X を削除しました。",
		"it":                              "Ho eliminato la lista X.",
	} {
		if got := catalog.Say(locale, "Deleted the list %s.", "X"); got != want {
			t.Errorf("%q says %q, want %q", locale, got, want)
		}
	}
	if got := catalog.Say("pt", "There are no lists yet."); got != "There are no lists yet." {
		t.Errorf("a missing sentence is %q", got)
	}
	if got := (*texts.Catalog)(nil).Say("de", "Deleted the list %s.", "X"); got != "Deleted the list X." {
		t.Errorf("no catalogue says %q", got)
	}
}

func TestWrongTexts(t *testing.T) {
	t.Parallel()
	_, err := texts.New(map[string]map[string]string{
		"de":     {"Added %s to the list %s.": "%s hinzugefügt", "a name may have at most %d characters": "höchstens %s"},
		"german": {"Approve": "Ja"},
	})
	for _, want := range []string{
		`de: "%s hinzugefügt" has the verbs [1s], want [1s 2s]`,
		`de: "höchstens %s" has the verbs [1s], want [1d]`,
		`"german" is not a language`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	if _, err := texts.New(map[string]map[string]string{"de": {"Added %s to the list %s.": "Auf %[2]s steht jetzt %[1]s."}}); err != nil {
		t.Errorf("another order of arguments: %v", err)
	}
}
