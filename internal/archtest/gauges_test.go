package archtest_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

var update = flag.Bool("update", false, "record the figures of this repository in testdata/gauges.txt, and what it exports in testdata/api.txt")

const record = "testdata/gauges.txt"

// TestGauges fails when the repository grew or got more intricate. Where that is meant,
// -update records it, and the difference shows it.
func TestGauges(t *testing.T) {
	t.Parallel()
	all, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	got, err := measure(all)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(record, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := readGauges(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, worse := range got.worse(recorded) {
		t.Error(worse)
	}
	if n, measured := got["test packages linked by cmd/bot"]; n > 0 || !measured {
		t.Errorf("cmd/bot links %d test packages: what serves people has no fake in it", n)
	}
	t.Logf("\n%s", got)
}

// TestMeasure measures a small module of which all figures are known.
func TestMeasure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module our\n\ngo 1.26\n",
		"bot/a.go":           "// Package bot is one.\npackage bot\n\n// T is a type.\ntype T struct{ A, b int }\n\nfunc (T) One() { two() } // a comment\n",
		"bot/b.go":           "package bot\n\nfunc (*T) Two() {}\n\nfunc two() { T{}.One() }\n",
		"bot/c.go":           "package bot\n\nfunc (t T) three() string {\n\treturn `\n\ntext`\n}\n\n/* more\n */\n",
		"cmd/x/m.go":         "package main\n\nimport _ \"testing\"\n\nfunc main() {}\n",
		"bot/a_test.go":      "package bot\n\nfunc Nobody() {}\n",
		"internal/long/l.go": "package long\n\nconst Text = \"" + "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789" + "\"\n",
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
	got, err := measure(all)
	if err != nil {
		t.Fatal(err)
	}
	want := gauges{
		"lines bot": 11, "lines cmd/x": 3, "lines internal/long": 3, "lines in all": 17, "lines on a message's path": 11,
		"exported names of bot": 1, "exported names of internal/long": 1, "exported names of libraries": 1,
		"exported methods and fields of libraries": 3, "types in more than two files": 1,
		"largest circle of files in bot": 2, "test packages linked by cmd/x": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	again, err := readGauges([]byte(got.String()))
	if err != nil || cmp.Diff(got, again) != "" {
		t.Errorf("read again: %v, %v", again, err)
	}
	worse := gauges{"a": 2, "b": 1, "c": 1, "lines a": 202, "lines b": 203}.worse(gauges{"a": 1, "b": 1, "lines a": 200, "lines b": 200})
	if diff := cmp.Diff([]string{"a: 2, recorded 1", "c: 1, not recorded", "lines b: 203, recorded 200"}, worse); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// gauges are figures about the size and the shape of a module without its tests, by name.
// Of each, less is better.
type gauges map[string]int

// longLine is the length from which on a line counts as two.
const longLine = 120

// onPath are the rooms that a message passes through, with what is inside of them.
var onPath = []string{"activity", "connector", "state", "actions", "models", "prompts", "planner", "bot"}

// notLibraries are the rooms that nobody imports from elsewhere.
var notLibraries = []string{internalRoom, "cmd", "examples", "bench", "deploy", "e2e"}

// load loads the packages of the module at dir, sorted and without tests, and type-checks them. A
// module with faults is an error.
func load(dir string) ([]*packages.Package, error) {
	all, err := packages.Load(&packages.Config{
		Dir:  dir,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedModule,
	}, "./...")
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", dir, err)
	}
	for _, p := range all {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("load %s: %w", p.PkgPath, p.Errors[0])
		}
	}
	slices.SortFunc(all, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	return all, nil
}

// dirOf is a package's folder in its module.
func dirOf(p *packages.Package) string {
	if rest, ok := strings.CutPrefix(p.PkgPath, p.Module.Path+"/"); ok {
		return rest
	}
	return "."
}

// measure measures a module:
//
//   - the lines of code of each package, of all and of the rooms on a message's path,
//     without comments and blanks; one of more than 120 characters counts as two
//   - the exported names at the top level of each package, and of all libraries together
//   - the exported methods and fields of all libraries
//   - the types whose methods stand in more than two files
//   - the largest set of files in one package that all need each other
//   - the packages for tests that each program links: testing, net/http/httptest and our own
func measure(all []*packages.Package) (gauges, error) {
	g := gauges{}
	for _, p := range all {
		if err := g.add(p); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// worse compares with what was recorded and returns a sentence for each figure that has
// grown or that nobody recorded. Lines may grow by a hundredth: a mend of six lines needs no record.
func (g gauges) worse(recorded gauges) []string {
	var worse []string
	for name, n := range g {
		if was, ok := recorded[name]; !ok {
			worse = append(worse, fmt.Sprintf("%s: %d, not recorded", name, n))
		} else if n > was && (!strings.HasPrefix(name, "lines ") || n > was+was/100) {
			worse = append(worse, fmt.Sprintf("%s: %d, recorded %d", name, n, was))
		}
	}
	slices.Sort(worse)
	return worse
}

// String is the record: a line for each figure, in order.
func (g gauges) String() string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(g)) {
		fmt.Fprintf(&out, "%s %d\n", name, g[name])
	}
	return out.String()
}

// readGauges reads what [gauges.String] wrote.
func readGauges(record []byte) (gauges, error) {
	g := gauges{}
	for line := range strings.Lines(string(record)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		n, err := strconv.Atoi(line[at+1:])
		if err != nil {
			return nil, fmt.Errorf("read gauges: %w", err)
		}
		g[line[:max(at, 0)]] = n
	}
	if len(g) == 0 {
		return nil, errors.New("read gauges: there are none")
	}
	return g, nil
}

func (g gauges) add(p *packages.Package) error {
	dir := dirOf(p)
	room, _, _ := strings.Cut(dir, "/")
	lines := 0
	for _, file := range p.GoFiles {
		n, err := linesOf(file)
		if err != nil {
			return err
		}
		lines += n
	}
	g["lines "+dir] = lines
	g["lines in all"] += lines
	if slices.Contains(onPath, room) {
		g["lines on a message's path"] += lines
	}
	names, members, spread := shapeOf(p)
	if p.Name == "main" {
		g["test packages linked by "+dir] = testPackages(p)
	} else {
		g["exported names of "+dir] = names
		if isLibrary(p) {
			g["exported names of libraries"] += names
			g["exported methods and fields of libraries"] += members
		}
	}
	g["types in more than two files"] += spread
	if circle := largestCircle(p); circle > 1 {
		g["largest circle of files in "+dir] = circle
	}
	return nil
}

// linesOf counts the lines of a file that hold code.
func linesOf(name string) (int, error) {
	src, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	code := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the scanner's own
		}
		first := file.Line(pos)
		for line := range strings.Count(text, "\n") + 1 {
			code[first+line] = true
		}
	}
	n := len(code)
	for i, line := range bytes.Split(src, []byte("\n")) {
		if code[i+1] && len(bytes.TrimSpace(line)) == 0 {
			n-- // of a text over several lines
		} else if code[i+1] && len([]rune(string(line))) > longLine {
			n++
		}
	}
	return n, nil
}

// shapeOf counts the exported names at the top level, the exported methods and fields of the
// types among them, and the types whose methods stand in more than two files.
func shapeOf(p *packages.Package) (names, members, spread int) {
	for _, name := range p.Types.Scope().Names() {
		object := p.Types.Scope().Lookup(name)
		exported := object.Exported()
		if exported {
			names++
		}
		named, ok := object.Type().(*types.Named)
		if _, isType := object.(*types.TypeName); !ok || !isType {
			continue
		}
		files := map[string]bool{}
		for method := range named.Methods() {
			files[fileOf(p, method.Pos())] = true
			if exported && method.Exported() {
				members++
			}
		}
		if len(files) > 2 {
			spread++
		}
		switch under := named.Underlying().(type) {
		case *types.Struct:
			for field := range under.Fields() {
				if exported && field.Exported() {
					members++
				}
			}
		case *types.Interface:
			if exported {
				members += under.NumExplicitMethods()
			}
		}
	}
	return names, members, spread
}

func fileOf(p *packages.Package, pos token.Pos) string { return p.Fset.Position(pos).Filename }

// largestCircle is the size of the largest set of the package's files in which each needs
// every other, be it through others of the set.
func largestCircle(p *packages.Package) (largest int) {
	needs := map[string][]string{}
	for name, object := range p.TypesInfo.Uses {
		if object.Pkg() != p.Types || object.Parent() != nil && object.Parent() != p.Types.Scope() {
			continue // of another package, or of one function
		}
		from, to := fileOf(p, name.Pos()), fileOf(p, object.Pos())
		if from != to && !slices.Contains(needs[from], to) {
			needs[from] = append(needs[from], to)
		}
	}
	for _, file := range p.GoFiles {
		circle := 1
		for other := range reachable(file, needs) {
			if other != file && reachable(other, needs)[file] {
				circle++
			}
		}
		largest = max(largest, circle)
	}
	return largest
}

// testPackages counts the packages for tests that a program links.
func testPackages(p *packages.Package) int {
	n := 0
	packages.Visit([]*packages.Package{p}, nil, func(of *packages.Package) {
		name, base := of.PkgPath, path.Base(of.PkgPath)
		ours := strings.HasPrefix(name, p.Module.Path+"/")
		if within(name, "testing") || name == "net/http/httptest" || ours && (strings.HasPrefix(base, "fake") || strings.HasSuffix(base, "test")) {
			n++
		}
	})
	return n
}
