package archtest_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
)

// TestOnlyFullKnowsFeatures: package app/full lists the features of a program, and package app imports none of
// them, so that a bot links those that its main function names.
func TestOnlyFullKnowsFeatures(t *testing.T) {
	t.Parallel()
	tree := os.DirFS("../..")
	features := importsOf(t, tree, "app/full")
	delete(features, "app")
	if len(features) < 5 {
		t.Fatalf("%d features: the check looked at the wrong thing", len(features))
	}
	todo, seen := []string{"app"}, map[string]bool{}
	for len(todo) > 0 {
		room := todo[0]
		todo = todo[1:]
		for next := range importsOf(t, tree, room) {
			if features[next] {
				t.Errorf("%s imports %s, which is a feature", room, next)
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
}

// importsOf are the packages of this module that one imports, tests left aside.
func importsOf(t *testing.T, tree fs.FS, room string) map[string]bool {
	t.Helper()
	files, err := fs.Glob(tree, path.Join(room, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		raw, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, raw, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			to, _ := strconv.Unquote(spec.Path.Value)
			if inside, ok := strings.CutPrefix(to, module+"/"); ok {
				all[inside] = true
			}
		}
	}
	return all
}
