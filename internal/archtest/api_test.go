package archtest_test

import (
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

const (
	apiRecord = "testdata/api.txt"
	apiHead   = "# What the libraries export: a line for each name, field and method, by package.\n" +
		"# docs/compatibility.md says what of it may change. go test ./internal/archtest -run API -update writes this file.\n"
)

// repository is this repository as the go command loads it, once for all tests.
var repository = sync.OnceValues(func() ([]*packages.Package, error) { return load("../..") })

// TestAPI fails when what the libraries export is not what testdata/api.txt says. Where that is
// meant, -update records it, and the difference is there to review.
func TestAPI(t *testing.T) {
	t.Parallel()
	all, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	got := apiHead
	for _, p := range all {
		if isLibrary(p) {
			got += "\n" + strings.Join(apiOf(p), "\n") + "\n"
		}
	}
	if *update {
		if err := os.WriteFile(apiRecord, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(apiRecord)
	if err != nil {
		t.Fatal(err)
	}
	if changes := changedLines(string(raw), got); len(changes) > 0 {
		t.Errorf("testdata/api.txt does not say this (- recorded, + now):\n\n%s\n\n"+
			"If it is meant, tell users in CHANGELOG.md and record it:\n\n\tgo test ./internal/archtest -run API -update", strings.Join(changes, "\n"))
	} else if string(raw) != got {
		t.Error("testdata/api.txt has the right lines in another order: record it with -update")
	}
}

// TestAPIOf lists a small package of which every line is known.
func TestAPIOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module our\n\ngo 1.26\n",
		"bot/a.go": `package bot

import "errors"

const Max = 3
const Personal Kind = "personal"

var ErrGone = errors.New("gone")
var hidden = 1

type (
	Kind   string
	Handle = func(k Kind) error
	Store  interface {
		error
		Load(id string) (text string, err error)
		close()
	}
	Set[T comparable] map[T]bool
	base    struct{ Shared int }
	Options struct{ Deep bool }
	Bot struct {
		Name string ` + "`json:\"name\"`" + `
		base
		*Options
		inner int
	}
)

func New(name string, opts ...Kind) (*Bot, error) { return nil, nil }
func Of[T any, P ~[]T](in P) T { return in[0] }
func private() {}

func (s Set[T]) Add(one T)  {}
func (b *Bot) Run() (n int) { return hidden + b.inner }
func (b Bot) String() string { private(); return b.Name }
func (*base) Start()         {}
func (*Options) Apply()      {}
`,
		"internal/a/a.go":     "package a\n\nconst X = 1\n",
		"bot/internal/a/a.go": "package a\n\nconst X = 1\n",
		"examples/a/a.go":     "package a\n\nconst X = 1\n",
		"cmd/a/a.go":          "package main\n\nconst X = 1\n\nfunc main() {}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		if isLibrary(p) {
			got = append(got, apiOf(p)...)
		}
	}
	want := []string{
		"bot: const Max int = 3",
		`bot: const Personal Kind = "personal"`,
		"bot: func New(name string, opts ...Kind) (*Bot, error)",
		"bot: func Of[T any, P ~[]T](in P) T",
		"bot: type Bot struct",
		"bot: type Bot struct, *Options",
		"bot: type Bot struct, Name string",
		"bot: type Bot struct, Shared int",
		"bot: type Bot, func (*Bot) Run() (n int)",
		"bot: type Bot, func (*Bot) Start()",
		"bot: type Bot, func (Bot) String() string",
		"bot: type Handle = func(k Kind) error",
		"bot: type Kind string",
		"bot: type Options struct",
		"bot: type Options struct, Deep bool",
		"bot: type Options, func (*Options) Apply()",
		"bot: type Set[T comparable] map[T]bool",
		"bot: type Set[T comparable], func (Set[T]) Add(one T)",
		"bot: type Store interface",
		"bot: type Store interface, Load(id string) (text string, err error)",
		"bot: type Store interface, error",
		"bot: type Store interface, unexported methods",
		"bot: var ErrGone error",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	changes := changedLines("# a\nbot: type Kind int\nbot: var A int\n", "# b\n\nbot: var A int\nbot: type Kind string\n")
	if diff := cmp.Diff([]string{"- bot: type Kind int", "+ bot: type Kind string"}, changes); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// isLibrary reports whether others import the package: not a program, an example or a tool of
// this repository, and not internal.
func isLibrary(p *packages.Package) bool {
	dir := dirOf(p)
	room, _, _ := strings.Cut(dir, "/")
	return p.Name != "main" && !slices.Contains(strings.Split(dir, "/"), internalRoom) && !slices.Contains(notLibraries, room)
}

// apiOf lists what a package exports, sorted: constants, variables, functions and types, and of
// types the exported fields and methods, with those that unexported embedded fields lend them.
func apiOf(p *packages.Package) []string {
	in := types.RelativeTo(p.Types)
	short := func(other *types.Package) string {
		if in(other) == "" {
			return ""
		}
		return other.Name()
	}
	lines := map[string]bool{}
	add := func(format string, args ...any) { lines[dirOf(p)+": "+fmt.Sprintf(format, args...)] = true }
	for _, name := range p.Types.Scope().Names() {
		object := p.Types.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		text := types.TypeString(object.Type(), short)
		switch object := object.(type) {
		case *types.Const:
			add("const %s = %s", name+" "+strings.TrimPrefix(text, "untyped "), object.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, text)
		case *types.Func:
			add("func %s%s", name, strings.TrimPrefix(text, "func"))
		case *types.TypeName:
			if object.IsAlias() {
				add("type %s = %s", name, types.TypeString(types.Unalias(object.Type()), short))
				continue
			}
			addType(object, text, short, add)
		}
	}
	return slices.Sorted(maps.Keys(lines))
}

// addType adds the lines of a declared type; text is its name with its type parameters.
func addType(object *types.TypeName, text string, short types.Qualifier, add func(format string, args ...any)) {
	switch under := object.Type().Underlying().(type) {
	case *types.Struct:
		add("type %s struct", text)
		addFields(under, text, short, add)
	case *types.Interface:
		add("type %s interface", text)
		for embedded := range under.EmbeddedTypes() {
			add("type %s interface, %s", text, types.TypeString(embedded, short))
		}
		for method := range under.ExplicitMethods() {
			if method.Exported() {
				add("type %s interface, %s%s", text, method.Name(), strings.TrimPrefix(types.TypeString(method.Type(), short), "func"))
			} else {
				add("type %s interface, unexported methods", text)
			}
		}
		return
	default:
		add("type %s %s", text, types.TypeString(under, short))
	}
	values := types.NewMethodSet(object.Type())
	for method := range types.NewMethodSet(types.NewPointer(object.Type())).Methods() {
		if !method.Obj().Exported() || lentByExported(object.Type(), method.Index()) {
			continue
		}
		receiver := object.Name()
		if method.Recv() != nil && len(method.Index()) == 1 {
			receiver = strings.TrimPrefix(types.TypeString(method.Obj().(*types.Func).Signature().Recv().Type(), short), "*")
		}
		if values.Lookup(object.Pkg(), method.Obj().Name()) == nil {
			receiver = "*" + receiver
		}
		add("type %s, func (%s) %s%s", text, receiver, method.Obj().Name(), strings.TrimPrefix(types.TypeString(method.Type(), short), "func"))
	}
}

// addFields adds the exported fields of a struct, and those of the unexported structs in it.
func addFields(of *types.Struct, text string, short types.Qualifier, add func(format string, args ...any)) {
	for field := range of.Fields() {
		inner, isStruct := types.Unalias(field.Type()).Underlying().(*types.Struct)
		switch {
		case field.Exported() && field.Embedded():
			add("type %s struct, %s", text, types.TypeString(field.Type(), short))
		case field.Exported():
			add("type %s struct, %s %s", text, field.Name(), types.TypeString(field.Type(), short))
		case field.Embedded() && isStruct:
			addFields(inner, text, short, add)
		}
	}
}

// lentByExported reports whether a method comes from an embedded field that has a line itself.
func lentByExported(of types.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if pointer, ok := types.Unalias(of).(*types.Pointer); ok {
			of = pointer.Elem()
		}
		field := of.Underlying().(*types.Struct).Field(i)
		if field.Exported() {
			return true
		}
		of = field.Type()
	}
	return false
}

// changedLines are the lines that only one of two records has, what was before what is.
func changedLines(was, is string) []string {
	set := func(text string) map[string]bool {
		lines := map[string]bool{}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines[line] = true
			}
		}
		return lines
	}
	old, now := set(was), set(is)
	var changes []string
	for _, line := range slices.Sorted(maps.Keys(old)) {
		if !now[line] {
			changes = append(changes, "- "+line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(now)) {
		if !old[line] {
			changes = append(changes, "+ "+line)
		}
	}
	slices.SortStableFunc(changes, func(a, b string) int { return strings.Compare(nameIn(a), nameIn(b)) })
	return changes
}

// nameIn is what a line of changes is about, so that both sides of a change stand together.
func nameIn(line string) string {
	words := strings.FieldsFunc(line[2:], func(r rune) bool { return strings.ContainsRune(" ,([", r) })
	return strings.Join(words[:min(3, len(words))], " ")
}
